package conf

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"entrepot/adapters"
	"entrepot/adapters/admin"
	"entrepot/adapters/amqp"
	"entrepot/adapters/coap"
	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/adapters/wamp"
	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/store"
)

// Config is everything that can be set, one section for each part.
type Config struct {
	Broker    core.Config              `toml:"broker"`
	Limits    adapters.DoorConfig      `toml:"limits"`
	Store     store.Config             `toml:"store"`
	Auth      auth.Config              `toml:"auth"`
	MQTT      mqtt.Config              `toml:"mqtt"`
	STOMP     stomp.Config             `toml:"stomp"`
	AMQP      amqp.Config              `toml:"amqp"`
	WAMP      wamp.Config              `toml:"wamp"`
	CoAP      coap.Config              `toml:"coap"`
	HTTP      admin.Config             `toml:"http"`
	WebSocket adapters.WebSocketConfig `toml:"websocket"`
	TLS       adapters.TLSConfig       `toml:"tls"`
	Proxy     adapters.ProxyConfig     `toml:"proxy"`
	Log       Log                      `toml:"log"`
	Process   Process                  `toml:"process"`
	Policies  core.PolicyConfigs       `toml:"policies"`
}

// Log says what is written to standard error.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `toml:"level"`
	// Format is text or json.
	Format string `toml:"format"`
}

// Process holds the settings of the process as a whole.
type Process struct {
	// Grace is how long a stop may take before what is left is cut off.
	Grace time.Duration `toml:"grace"`
	// GCHeadroom is how many bytes may be allocated at least between two
	// garbage collections; 0 leaves the Go runtime's percentage alone.
	GCHeadroom int64 `toml:"gc_headroom"`
	// MemoryLimit is how many bytes the process tries to stay under; 0 is three
	// quarters of what the machine or its container has.
	MemoryLimit int64 `toml:"memory_limit"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{
		Broker:    core.DefaultConfig(),
		Limits:    adapters.DefaultDoorConfig(),
		Store:     store.DefaultConfig(),
		Auth:      auth.DefaultConfig(),
		MQTT:      mqtt.DefaultConfig(),
		STOMP:     stomp.DefaultConfig(),
		AMQP:      amqp.DefaultConfig(),
		WAMP:      wamp.DefaultConfig(),
		CoAP:      coap.DefaultConfig(),
		HTTP:      admin.DefaultConfig(),
		WebSocket: adapters.DefaultWebSocketConfig(),
		TLS:       adapters.DefaultTLSConfig(),
		Proxy:     adapters.DefaultProxyConfig(),
		Log:       Log{Level: "info", Format: "text"},
		Process:   Process{Grace: 10 * time.Second, GCHeadroom: 64 << 20},
	}
}

// Sample is the commented file that says the same as DefaultConfig.
//
//go:embed entrepot.toml
var Sample string

// Load returns the defaults, changed by the file, changed by the environment
// (as of os.Environ). An empty path is no file. It does not validate, so that
// flags can still change something.
func Load(path string, environ []string) (Config, error) {
	c := DefaultConfig()
	if path != "" {
		if err := c.readFile(path); err != nil {
			return c, err
		}
	}
	return c, c.readEnviron(environ)
}

// Validate returns all that makes no sense, each error naming its key.
func (c Config) Validate() error {
	errs := []error{
		section("broker", c.Broker.Validate()),
		section("limits", c.Limits.Validate()),
		section("store", c.Store.Validate()),
		section("auth", c.Auth.Validate()),
		section("mqtt", c.MQTT.Validate()),
		section("stomp", c.STOMP.Validate()),
		section("amqp", c.AMQP.Validate()),
		section("wamp", c.WAMP.Validate()),
		section("coap", c.CoAP.Validate()),
		section("http", c.HTTP.Validate()),
		section("websocket", c.WebSocket.Validate()),
		section("tls", c.TLS.Validate()),
		section("proxy", c.Proxy.Validate()),
		section("log", c.Log.Validate()),
		section("process", c.Process.Validate()),
		section("policies", c.Policies.Validate()),
	}
	return errors.Join(append(errs, c.checkListeners())...)
}

// section names the section of an error, where it does not do so itself.
func section(name string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Validate returns an error for a word that is not known.
func (l Log) Validate() error {
	if _, err := l.SlogLevel(); err != nil {
		return err
	}
	if l.Format != "text" && l.Format != "json" {
		return fmt.Errorf("format %q: text or json", l.Format)
	}
	return nil
}

// SlogLevel is Level as slog has it.
func (l Log) SlogLevel() (slog.Level, error) {
	switch l.Level {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("level %q: debug, info, warn or error", l.Level)
}

// Validate returns an error for a setting that makes no sense.
func (p Process) Validate() error {
	switch {
	case p.Grace < 0:
		return fmt.Errorf("grace %v: not negative", p.Grace)
	case p.GCHeadroom < 0:
		return fmt.Errorf("gc_headroom %d: not negative", p.GCHeadroom)
	case p.MemoryLimit != 0 && p.MemoryLimit < 16<<20:
		return fmt.Errorf("memory_limit %d: at least 16MiB, or 0", p.MemoryLimit)
	}
	return nil
}
