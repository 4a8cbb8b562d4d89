package amqp

import (
	"sync"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// blocked tells clients that publish of the broker's alarms (RabbitMQ,
// connection.blocked), if they can be told.
type blocked struct {
	stop func()

	mu        sync.Mutex
	reasons   map[core.AlarmKind]string // of those that are on
	publishes bool
	told      bool
}

// watchAlarms begins with what is on already.
func (c *conn) watchAlarms() {
	if c.client.blocked {
		c.blocked.stop = c.realm.WatchAlarms(c.alarm)
	}
}

func (c *conn) stopAlarms() {
	if c.blocked.stop != nil {
		c.blocked.stop()
	}
}

// alarm notes a change, from any goroutine.
func (c *conn) alarm(a core.Alarm) {
	b := &c.blocked
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reasons == nil {
		b.reasons = map[core.AlarmKind]string{}
	}
	if a.On {
		b.reasons[a.Kind] = "low on " + a.Kind.String()
	} else {
		delete(b.reasons, a.Kind)
	}
	c.tellBlocked()
}

// publishes notes that the client publishes.
func (c *conn) publishes() {
	b := &c.blocked
	if b.stop == nil || c.published {
		return
	}
	c.published = true
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publishes = true
	c.tellBlocked()
}

// tellBlocked says what is new. With blocked.mu held.
func (c *conn) tellBlocked() {
	b := &c.blocked
	now := b.publishes && len(b.reasons) > 0
	if now == b.told {
		return
	}
	b.told = now
	if !now {
		c.reply(nil, frame.ConnectionUnblocked, nil)
		return
	}
	reason := ""
	for _, k := range [...]core.AlarmKind{core.DiskAlarm, core.MemoryAlarm} {
		if r, on := b.reasons[k]; on && reason == "" {
			reason = r
		}
	}
	c.reply(nil, frame.ConnectionBlocked, func(buf []byte) []byte { return frame.AppendShortText(buf, reason) })
}
