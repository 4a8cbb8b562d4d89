package mqtt

import (
	"fmt"
	"time"

	"entrepot/adapters"
)

// Config is what can be set of the MQTT listeners.
type Config struct {
	// Listen holds TCP addresses.
	Listen []string        `toml:"listen"`
	Limits adapters.Config `toml:"limits"`
	// MaxPacket is the largest packet in bytes that a client may send, told to
	// it as Maximum Packet Size.
	MaxPacket int `toml:"max_packet"`
	// ReceiveMaximum is how many QoS 1 and 2 messages a client may have sent
	// without confirmation (MQTT 5 clients are told and held to it).
	ReceiveMaximum int `toml:"receive_maximum"`
	// MaxInFlight is how many QoS 1 and 2 messages a client may be sent without
	// its confirmation; an MQTT 5 client's own Receive Maximum lowers it.
	MaxInFlight int `toml:"max_in_flight"`
	// UnackedBytes is how many bytes of their payloads may be out without it.
	UnackedBytes int `toml:"unacked_bytes"`
	// TopicAliasMaximum is how many topic aliases each side may use; 0 is none.
	TopicAliasMaximum int `toml:"topic_alias_maximum"`
	// MaxQoS is the highest QoS for publishing and subscribing.
	MaxQoS int `toml:"max_qos"`
	// MaxSubscriptions is how many a session may hold.
	MaxSubscriptions int `toml:"max_subscriptions"`
	// MaxUserProperties and MaxPropertyBytes bound the properties of one packet.
	MaxUserProperties int `toml:"max_user_properties"`
	MaxPropertyBytes  int `toml:"max_property_bytes"`
	// SessionExpiry is the longest that a session outlives its connection.
	SessionExpiry time.Duration `toml:"session_expiry"`
	// SessionExpiry3 is how long a persistent session of MQTT 3.1 and 3.1.1,
	// which cannot say it, outlives its connection.
	SessionExpiry3 time.Duration `toml:"session_expiry_v3"`
	// QueueLength and QueueBytes (payload) bound what waits for one session; the
	// oldest goes first.
	QueueLength int   `toml:"queue_length"`
	QueueBytes  int64 `toml:"queue_bytes"`
	// KeepAlive is the longest keep-alive: clients that ask for a longer one, or
	// for none, get this (MQTT 5: told as Server Keep Alive). 0 leaves it to them.
	KeepAlive time.Duration `toml:"keep_alive"`
	// SysInterval is how often the broker's figures are published under $SYS;
	// 0 is never.
	SysInterval time.Duration `toml:"sys_interval"`
	// OriginProperty sends the publisher as user properties x-origin and x-user
	// to MQTT 5 subscribers.
	OriginProperty bool `toml:"origin_property"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{
		Listen:            []string{"127.0.0.1:1883"},
		Limits:            adapters.DefaultConfig(),
		MaxPacket:         16 << 20,
		ReceiveMaximum:    256,
		MaxInFlight:       1024,
		UnackedBytes:      64 << 20,
		TopicAliasMaximum: 64,
		MaxQoS:            2,
		MaxSubscriptions:  10_000,
		MaxUserProperties: 256,
		MaxPropertyBytes:  256 << 10,
		SessionExpiry:     30 * 24 * time.Hour,
		SessionExpiry3:    7 * 24 * time.Hour,
		QueueLength:       100_000,
		QueueBytes:        64 << 20,
		SysInterval:       10 * time.Second,
	}
}

// Validate returns an error for a setting that makes no sense.
func (c Config) Validate() error {
	if err := c.Limits.Validate(); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	for _, r := range []struct {
		name         string
		v, low, high int64
	}{
		{"max_packet", int64(c.MaxPacket), 1024, 256 << 20},
		{"receive_maximum", int64(c.ReceiveMaximum), 1, 65535},
		{"max_in_flight", int64(c.MaxInFlight), 1, 65535},
		{"unacked_bytes", int64(c.UnackedBytes), pageSize, 1 << 40},
		{"topic_alias_maximum", int64(c.TopicAliasMaximum), 0, 65535},
		{"max_qos", int64(c.MaxQoS), 0, 2},
		{"max_subscriptions", int64(c.MaxSubscriptions), 1, 1 << 30},
		{"max_user_properties", int64(c.MaxUserProperties), 0, 1 << 20},
		{"max_property_bytes", int64(c.MaxPropertyBytes), 1024, 256 << 20},
		{"queue_length", int64(c.QueueLength), 1, 1 << 40},
		{"queue_bytes", c.QueueBytes, 1, 1 << 50},
	} {
		if r.v < r.low || r.v > r.high {
			return fmt.Errorf("%s %d: from %d to %d", r.name, r.v, r.low, r.high)
		}
	}
	for _, r := range []struct {
		name string
		v    time.Duration
		high time.Duration
	}{
		{"session_expiry", c.SessionExpiry, maxExpiry},
		{"session_expiry_v3", c.SessionExpiry3, maxExpiry},
		{"keep_alive", c.KeepAlive, 65535 * time.Second},
		{"sys_interval", c.SysInterval, 24 * time.Hour},
	} {
		if r.v < 0 || r.v > r.high {
			return fmt.Errorf("%s %v: from 0 to %v", r.name, r.v, r.high)
		}
	}
	return nil
}

// maxExpiry is the largest Session Expiry Interval that ends (MQTT 5, 3.1.2.11.2).
const maxExpiry = 0xFFFFFFFE * time.Second
