package amqp

import (
	"fmt"
	"time"

	"entrepot/adapters"
	"entrepot/adapters/amqp/frame"
)

// Config is the settings of the AMQP front-end.
type Config struct {
	// Listen are the addresses to accept connections on.
	Listen []string `toml:"listen"`
	// Limits hold for each connection of this protocol.
	Limits adapters.Config `toml:"limits"`
	// MaxBody is the largest body of a message in bytes.
	MaxBody int `toml:"max_body"`
	// PartialBytes is how much a connection's channels may hold of bodies that
	// have not all come yet.
	PartialBytes int `toml:"partial_bytes"`
	// FrameMax is the largest frame in bytes that either side may send, and
	// ChannelMax the highest channel number; a client may ask for less.
	FrameMax   int `toml:"frame_max"`
	ChannelMax int `toml:"channel_max"`
	// Heartbeat is what is proposed to clients, in whole seconds; their word
	// counts, 0 is never.
	Heartbeat time.Duration `toml:"heartbeat"`
	// MaxConsumers is how many consumers a channel may have.
	MaxConsumers int `toml:"max_consumers"`
	// UnackedBytes is how many bytes of messages may be out for acknowledgement
	// on all channels of a connection, whatever their prefetch.
	UnackedBytes int `toml:"unacked_bytes"`
	// TransactionOps bounds the publishes and acknowledgements that one
	// transaction gathers, TransactionBytes the bytes of their messages.
	TransactionOps   int `toml:"transaction_ops"`
	TransactionBytes int `toml:"transaction_bytes"`
	// ReplyLength bounds the messages that wait in the queue of a direct
	// reply-to; beyond that the oldest are dropped.
	ReplyLength int `toml:"reply_length"`
	// OriginHeader sends the publisher's protocol and client id to consumers, as
	// header x-origin.
	OriginHeader bool `toml:"origin_header"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	limits := adapters.DefaultConfig()
	limits.LoginBytes = 8 << 10
	return Config{
		Listen:           []string{"127.0.0.1:5672"},
		Limits:           limits,
		MaxBody:          16 << 20,
		PartialBytes:     64 << 20,
		FrameMax:         128 << 10,
		ChannelMax:       2047,
		Heartbeat:        60 * time.Second,
		MaxConsumers:     10_000,
		UnackedBytes:     256 << 20,
		TransactionOps:   100_000,
		TransactionBytes: 64 << 20,
		ReplyLength:      10_000,
	}
}

// Validate returns an error for a setting that makes no sense.
func (c Config) Validate() error {
	if err := c.Limits.Validate(); err != nil {
		return fmt.Errorf("amqp: limits: %w", err)
	}
	for _, n := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"max_body", c.MaxBody, 1, 512 << 20},
		{"partial_bytes", c.PartialBytes, c.MaxBody, 1 << 40},
		{"frame_max", c.FrameMax, frame.MinMax, 16 << 20},
		{"channel_max", c.ChannelMax, 1, 65535},
		{"max_consumers", c.MaxConsumers, 1, 1_000_000},
		{"unacked_bytes", c.UnackedBytes, 1, 1 << 40},
		{"transaction_ops", c.TransactionOps, 1, 10_000_000},
		{"transaction_bytes", c.TransactionBytes, 1, 1 << 40},
		{"reply_length", c.ReplyLength, 1, 1 << 30},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("amqp: %s %d: from %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	if c.Heartbeat < 0 || c.Heartbeat > 65535*time.Second || c.Heartbeat%time.Second != 0 {
		return fmt.Errorf("amqp: heartbeat %v: whole seconds, not negative, at most 65535", c.Heartbeat)
	}
	return nil
}
