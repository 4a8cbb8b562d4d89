package mqtt

import (
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	for name, spoil := range map[string]func(*Config){
		"limits":           func(c *Config) { c.Limits.LoginTimeout = 0 },
		"small packets":    func(c *Config) { c.MaxPacket = 100 },
		"huge packets":     func(c *Config) { c.MaxPacket = 1 << 30 },
		"receive 0":        func(c *Config) { c.ReceiveMaximum = 0 },
		"receive 65536":    func(c *Config) { c.ReceiveMaximum = 65536 },
		"in flight 0":      func(c *Config) { c.MaxInFlight = 0 },
		"bytes out 0":      func(c *Config) { c.UnackedBytes = 0 },
		"aliases":          func(c *Config) { c.TopicAliasMaximum = -1 },
		"qos 3":            func(c *Config) { c.MaxQoS = 3 },
		"subscriptions":    func(c *Config) { c.MaxSubscriptions = 0 },
		"user properties":  func(c *Config) { c.MaxUserProperties = -1 },
		"property bytes":   func(c *Config) { c.MaxPropertyBytes = 10 },
		"negative expiry":  func(c *Config) { c.SessionExpiry = -1 },
		"endless expiry":   func(c *Config) { c.SessionExpiry = 0xFFFFFFFF * time.Second },
		"expiry of 3.1.1":  func(c *Config) { c.SessionExpiry3 = -1 },
		"queue length":     func(c *Config) { c.QueueLength = 0 },
		"queue bytes":      func(c *Config) { c.QueueBytes = 0 },
		"keep-alive":       func(c *Config) { c.KeepAlive = 100 * time.Hour },
		"interval of $SYS": func(c *Config) { c.SysInterval = -1 },
	} {
		c := DefaultConfig()
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
