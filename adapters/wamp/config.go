package wamp

import (
	"fmt"

	"entrepot/adapters"
	"entrepot/routing"
)

// Config is the settings of the WAMP front-end.
type Config struct {
	// Enabled: WAMP is spoken at the HTTP listener's path /ws.
	Enabled bool `toml:"enabled"`
	// Limits hold for each connection of this protocol.
	Limits adapters.Config `toml:"limits"`
	// Realms are the names under which clients find the broker; "*" is every name.
	Realms []string `toml:"realms"`
	// MaxMessage is the largest WAMP message in bytes.
	MaxMessage int `toml:"max_message"`
	// MaxSubscriptions, MaxRegistrations and MaxCalls are how many a session may
	// have open.
	MaxSubscriptions int `toml:"max_subscriptions"`
	MaxRegistrations int `toml:"max_registrations"`
	MaxCalls         int `toml:"max_calls"`
	// MaxTestaments is how many a session may leave.
	MaxTestaments int `toml:"max_testaments"`
	// QueueLength and QueueBytes bound the events that wait for one session; beyond
	// that the oldest are dropped.
	QueueLength int   `toml:"queue_length"`
	QueueBytes  int64 `toml:"queue_bytes"`
	// Prefetch is how many messages of a queue may be out at one worker that does
	// not say.
	Prefetch int `toml:"prefetch"`
	// UnackedBytes is how many bytes of messages of queues may be out at all workers
	// of a session.
	UnackedBytes int `toml:"unacked_bytes"`
	// MetaKill and MetaModify let sessions end others and change their details by
	// meta procedures.
	MetaKill   bool `toml:"meta_kill"`
	MetaModify bool `toml:"meta_modify"`
	// OriginDetail tells receivers that a publisher speaks WAMP, as detail x_origin,
	// which tells the protocol and client id of all others always.
	OriginDetail bool `toml:"origin_detail"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{
		Enabled:          true,
		Limits:           adapters.DefaultConfig(),
		Realms:           []string{"realm1"},
		MaxMessage:       16 << 20,
		MaxSubscriptions: 10_000,
		MaxRegistrations: 10_000,
		MaxCalls:         10_000,
		MaxTestaments:    100,
		QueueLength:      10_000,
		QueueBytes:       64 << 20,
		Prefetch:         16,
		UnackedBytes:     64 << 20,
	}
}

// Validate returns an error for a setting that makes no sense.
func (c Config) Validate() error {
	if err := c.Limits.Validate(); err != nil {
		return fmt.Errorf("wamp: limits: %w", err)
	}
	for _, n := range []struct {
		name      string
		value     int64
		low, high int64
	}{
		{"max_message", int64(c.MaxMessage), 1024, 256 << 20},
		{"max_subscriptions", int64(c.MaxSubscriptions), 1, 1_000_000},
		{"max_registrations", int64(c.MaxRegistrations), 1, 1_000_000},
		{"max_calls", int64(c.MaxCalls), 1, 1_000_000},
		{"max_testaments", int64(c.MaxTestaments), 0, 10_000},
		{"queue_length", int64(c.QueueLength), 1, 1 << 40},
		{"queue_bytes", c.QueueBytes, 1, 1 << 50},
		{"prefetch", int64(c.Prefetch), 1, 1_000_000},
		{"unacked_bytes", int64(c.UnackedBytes), 1, 1 << 40},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("wamp: %s %d: from %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	if len(c.Realms) == 0 {
		return fmt.Errorf("wamp: realms: at least one name")
	}
	for _, r := range c.Realms {
		if _, err := routing.URI.ParseTopic(r); r != anyRealm && err != nil {
			return fmt.Errorf("wamp: realms: %q: %w", r, err)
		}
	}
	return nil
}

// Realm is a name under which clients find the broker.
func Realm(c Config) string {
	for _, r := range c.Realms {
		if r != anyRealm {
			return r
		}
	}
	return DefaultConfig().Realms[0]
}

// anyRealm in Config.Realms is every name.
const anyRealm = "*"
