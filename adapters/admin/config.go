package admin

import (
	"fmt"
	"time"
)

// Config holds the settings of the HTTP listener.
type Config struct {
	// Listen names the addresses: host:port or unix:/path.
	Listen []string `toml:"listen"`
	// MaxConnections is how many connections may be open for requests, WebSockets
	// not counted; more wait. 0 is no limit.
	MaxConnections int `toml:"max_connections"`
	// HeaderTimeout is how long a client may take to say something and to get
	// through its TLS, then to send a request's head, and half of what it may take
	// for a whole request.
	HeaderTimeout time.Duration `toml:"header_timeout"`
	// WriteTimeout is how long an answer may take.
	WriteTimeout time.Duration `toml:"write_timeout"`
	// IdleTimeout is how long a connection may stay between two requests.
	IdleTimeout time.Duration `toml:"idle_timeout"`
	// VisitIdle ends the log-in of a page that is closed and asks for nothing,
	// VisitLongest that of any page.
	VisitIdle    time.Duration `toml:"visit_idle"`
	VisitLongest time.Duration `toml:"visit_longest"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{
		Listen:         []string{"127.0.0.1:8080"},
		MaxConnections: 1024,
		HeaderTimeout:  5 * time.Second,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    time.Minute,
		VisitIdle:      30 * time.Minute,
		VisitLongest:   12 * time.Hour,
	}
}

// Validate returns an error for a setting that makes no sense. Addresses are
// checked where they are bound.
func (c Config) Validate() error {
	if c.MaxConnections < 0 {
		return fmt.Errorf("max_connections %d: not negative", c.MaxConnections)
	}
	for _, t := range []struct {
		key  string
		time time.Duration
	}{
		{"header_timeout", c.HeaderTimeout},
		{"write_timeout", c.WriteTimeout},
		{"idle_timeout", c.IdleTimeout},
		{"visit_idle", c.VisitIdle},
		{"visit_longest", c.VisitLongest},
	} {
		if t.time < 100*time.Millisecond {
			return fmt.Errorf("%s %v: at least 100ms", t.key, t.time)
		}
	}
	return nil
}
