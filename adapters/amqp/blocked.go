package amqp

import (
	"sync"
	"sync/atomic"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// blocked tells clients that publish of the broker's alarms (RabbitMQ,
// connection.blocked), if they can be told, and keeps those waiting that would
// lose messages by the disk's.
type blocked struct {
	stop func()
	disk atomic.Bool // the disk alarm is on and the broker does not stop

	mu        sync.Mutex
	space     chan struct{}             // closed when disk becomes false; nil before
	reasons   map[core.AlarmKind]string // of those that are on
	publishes bool
	told      bool
}

// watchAlarms begins with what is on already.
func (c *conn) watchAlarms() { c.blocked.stop = c.realm.WatchAlarms(c.alarm) }

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
	if a.Kind == core.DiskAlarm {
		b.setDisk(a.On)
	}
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

// setDisk is with mu held.
func (b *blocked) setDisk(on bool) {
	if was := b.disk.Swap(on); was == on {
		return
	}
	if on {
		b.space = make(chan struct{})
	} else {
		close(b.space)
	}
}

// noDisk lets go who waits for the disk, as the broker stops.
func (b *blocked) noDisk() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setDisk(false)
}

// awaitDisk keeps a durable message back while the disk alarm is on, and with it
// all that the client sends after it: nothing else would tell the client that the
// message was refused. As RabbitMQ, which then reads no publisher at all.
func (c *conn) awaitDisk() {
	b := &c.blocked
	b.mu.Lock()
	space := b.space
	b.mu.Unlock()
	c.Idle()
	c.conn.Await(space)
	c.feeding.Store(true)
}

// publishes notes that the client publishes.
func (c *conn) publishes() {
	b := &c.blocked
	if !c.client.blocked || c.published {
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
