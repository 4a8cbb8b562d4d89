package adapters

import (
	"time"

	"entrepot/core"
)

// Beat sends a heartbeat when nothing else was sent for a while. It looks four
// times in an interval and sends at the second look that finds nothing new, so
// that no pause is longer than the interval although the wheel is only so exact.
// The zero value is at rest.
type Beat struct {
	alarm Alarm
	every time.Duration
	form  []byte
	sent  func() (writes uint32, ended bool)
	seen  uint32 // writes at the last look
	quiet int    // looks since something was sent
	on    bool   // under the outbox's lock, as the two before
}

// Start has form sent on c in pauses of interval, which is over 0. sent is
// called under the outbox's lock: how often something was written there so far,
// and whether nothing may follow any more. Called once.
func (b *Beat) Start(c *Conn, interval time.Duration, form []byte, sent func() (writes uint32, ended bool)) {
	c.Outbox.BeginAnswer()
	b.every, b.form, b.sent, b.on = interval/4, form, sent, true
	c.Outbox.Cancel()
	b.again(c)
}

// Stop ends it; nothing is sent after. It may never have been started.
func (b *Beat) Stop(c *Conn) {
	c.Outbox.BeginAnswer()
	b.on = false
	c.Outbox.Cancel()
	c.Wheel().Stop(&b.alarm)
}

func (b *Beat) again(c *Conn) { c.Wheel().Set(&b.alarm, b.every, func() { b.look(c) }) }

// look is called by the wheel.
func (b *Beat) look(c *Conn) {
	buf := c.Outbox.BeginAnswer()
	if !b.on {
		c.Outbox.Cancel()
		return
	}
	writes, ended := b.sent()
	if ended {
		c.Outbox.Cancel()
		return
	}
	if b.quiet++; writes != b.seen {
		b.seen, b.quiet = writes, 0
	}
	if b.quiet < 2 {
		c.Outbox.Cancel()
	} else {
		var batch core.Batch
		b.quiet = 0
		c.Outbox.End(&batch, append(buf, b.form...))
		batch.Flush()
	}
	b.again(c)
}
