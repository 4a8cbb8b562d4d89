package stomp

import (
	"fmt"
	"time"

	"entrepot/adapters"
)

// Config is the settings of the STOMP front-end.
type Config struct {
	// Listen are the addresses to accept connections on.
	Listen []string `toml:"listen"`
	// Limits hold for each connection of this protocol.
	Limits adapters.Config `toml:"limits"`
	// MaxBody is the largest body of a frame in bytes.
	MaxBody int `toml:"max_body"`
	// MaxHeaders and MaxHeaderBytes bound the headers of a frame; the bytes count the
	// command line too.
	MaxHeaders     int `toml:"max_headers"`
	MaxHeaderBytes int `toml:"max_header_bytes"`
	// HeartBeatSend and HeartBeatReceive are the shortest intervals at which the broker
	// sends heart-beats and asks for them; 0 is never.
	HeartBeatSend    time.Duration `toml:"heart_beat_send"`
	HeartBeatReceive time.Duration `toml:"heart_beat_receive"`
	// MaxSubscriptions and MaxTransactions are how many a connection may hold open.
	MaxSubscriptions int `toml:"max_subscriptions"`
	MaxTransactions  int `toml:"max_transactions"`
	// TransactionFrames bounds what one transaction gathers, TransactionBytes what all
	// open ones of a connection do, headers counted.
	TransactionFrames int `toml:"transaction_frames"`
	TransactionBytes  int `toml:"transaction_bytes"`
	// Prefetch is how many messages may be out for ACK on one subscription when the
	// client does not say; 0 is no limit but UnackedBytes.
	Prefetch int `toml:"prefetch"`
	// UnackedBytes is how many bytes may be out for ACK on all subscriptions.
	UnackedBytes int `toml:"unacked_bytes"`
	// SubscriptionLength and SubscriptionBytes bound what waits for one topic
	// subscription; beyond that the oldest messages are dropped.
	SubscriptionLength int   `toml:"subscription_length"`
	SubscriptionBytes  int64 `toml:"subscription_bytes"`
	// TopicSeparator parts the levels of /topic destinations: "." or "/".
	TopicSeparator string `toml:"topic_separator"`
	// OriginHeader sends the publisher's protocol and client id to subscribers, as
	// header x-origin.
	OriginHeader bool `toml:"origin_header"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{
		Listen:             []string{"127.0.0.1:61613"},
		Limits:             adapters.DefaultConfig(),
		MaxBody:            16 << 20,
		MaxHeaders:         256,
		MaxHeaderBytes:     64 << 10,
		HeartBeatSend:      time.Second,
		HeartBeatReceive:   time.Second,
		MaxSubscriptions:   10_000,
		MaxTransactions:    64,
		TransactionFrames:  10_000,
		TransactionBytes:   64 << 20,
		Prefetch:           100,
		UnackedBytes:       64 << 20,
		SubscriptionLength: 10_000,
		SubscriptionBytes:  64 << 20,
		TopicSeparator:     ".",
	}
}

// Validate returns an error for a setting that makes no sense.
func (c Config) Validate() error {
	if err := c.Limits.Validate(); err != nil {
		return fmt.Errorf("stomp: limits: %w", err)
	}
	for _, n := range []struct {
		name      string
		value     int64
		low, high int64
	}{
		{"max_body", int64(c.MaxBody), 1, 256 << 20},
		{"max_headers", int64(c.MaxHeaders), 16, 10_000},
		{"max_header_bytes", int64(c.MaxHeaderBytes), 1024, 16 << 20},
		{"max_subscriptions", int64(c.MaxSubscriptions), 1, 1_000_000},
		{"max_transactions", int64(c.MaxTransactions), 1, 10_000},
		{"transaction_frames", int64(c.TransactionFrames), 1, 1_000_000},
		{"transaction_bytes", int64(c.TransactionBytes), 1, 1 << 30},
		{"prefetch", int64(c.Prefetch), 0, 1_000_000},
		{"unacked_bytes", int64(c.UnackedBytes), 1, 1 << 40},
		{"subscription_length", int64(c.SubscriptionLength), 1, 1 << 40},
		{"subscription_bytes", c.SubscriptionBytes, 1, 1 << 50},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("stomp: %s %d: from %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	if c.HeartBeatSend < 0 || c.HeartBeatReceive < 0 {
		return fmt.Errorf("stomp: heart_beat_send and heart_beat_receive: not negative")
	}
	if c.TopicSeparator != "." && c.TopicSeparator != "/" {
		return fmt.Errorf("stomp: topic_separator %q: \".\" or \"/\"", c.TopicSeparator)
	}
	return nil
}
