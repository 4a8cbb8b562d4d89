package stomp

import "testing"

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"max_body":            func(c *Config) { c.MaxBody = 0 },
		"max_headers":         func(c *Config) { c.MaxHeaders = 1 },
		"max_header_bytes":    func(c *Config) { c.MaxHeaderBytes = 10 },
		"heart_beat":          func(c *Config) { c.HeartBeatSend = -1 },
		"max_subscriptions":   func(c *Config) { c.MaxSubscriptions = 0 },
		"max_transactions":    func(c *Config) { c.MaxTransactions = 0 },
		"transaction_frames":  func(c *Config) { c.TransactionFrames = 0 },
		"transaction_bytes":   func(c *Config) { c.TransactionBytes = 0 },
		"prefetch":            func(c *Config) { c.Prefetch = -1 },
		"unacked_bytes":       func(c *Config) { c.UnackedBytes = 0 },
		"subscription_length": func(c *Config) { c.SubscriptionLength = 0 },
		"subscription_bytes":  func(c *Config) { c.SubscriptionBytes = 0 },
		"topic_separator":     func(c *Config) { c.TopicSeparator = ":" },
		"limits":              func(c *Config) { c.Limits.LoginBytes = 1 },
	} {
		c := DefaultConfig()
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
