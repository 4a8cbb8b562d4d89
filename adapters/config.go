package adapters

import (
	"fmt"
	"time"
)

// Config holds the limits of one protocol's listeners.
type Config struct {
	// MaxConnections counts open connections of this protocol; 0 is no limit.
	MaxConnections int `toml:"max_connections"`
	// MaxPerPeer counts open connections from one network address, of IPv6 from
	// one /64; 0 is no limit.
	MaxPerPeer int `toml:"max_per_peer"`
	// MaxPending counts connections from one network address that have not
	// logged in yet.
	MaxPending int `toml:"max_pending"`
	// LoginTimeout is how long a connection may take to log in, not counting what
	// it waits for a place at the Door.
	LoginTimeout time.Duration `toml:"login_timeout"`
	// LoginBytes is how much a connection may send as one frame before it
	// logged in.
	LoginBytes int `toml:"login_bytes"`
	// OutboxBytes is how many bytes of deliveries may wait for one client's
	// socket before they stay in their queues.
	OutboxBytes int `toml:"outbox_bytes"`
	// Linger is how long a closing connection may take to send what is left.
	Linger time.Duration `toml:"linger"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{
		MaxConnections: 100_000,
		MaxPending:     50_000,
		LoginTimeout:   10 * time.Second,
		LoginBytes:     64 << 10,
		OutboxBytes:    256 << 10,
		Linger:         2 * time.Second,
	}
}

// Validate returns an error for a setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.MaxConnections < 0:
		return fmt.Errorf("max_connections %d: not negative", c.MaxConnections)
	case c.MaxPerPeer < 0:
		return fmt.Errorf("max_per_peer %d: not negative", c.MaxPerPeer)
	case c.MaxPending < 1:
		return fmt.Errorf("max_pending %d: at least 1", c.MaxPending)
	case c.LoginTimeout < 100*time.Millisecond:
		return fmt.Errorf("login_timeout %v: at least 100ms", c.LoginTimeout)
	case c.LoginBytes < 1024:
		return fmt.Errorf("login_bytes %d: at least 1024", c.LoginBytes)
	case c.OutboxBytes < 4096:
		return fmt.Errorf("outbox_bytes %d: at least 4096", c.OutboxBytes)
	case c.Linger < 0:
		return fmt.Errorf("linger %v: not negative", c.Linger)
	}
	return nil
}
