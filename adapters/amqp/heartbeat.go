package amqp

import (
	"time"

	"entrepot/adapters"
	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// heartbeat sends a heartbeat when nothing else was sent for a while (AMQP
// 0-9-1, 4.2.7). It looks four times in an interval and sends at the second look
// that finds nothing new, so that no pause is longer than the interval although
// the wheel is only so exact.
type heartbeat struct {
	alarm    adapters.Alarm
	interval time.Duration // as negotiated, 0: none
	seen     uint32        // writes at the last look
	quiet    int           // looks since something was sent
	on       bool          // under the outbox's lock, as the two before
}

func (h *heartbeat) start(c *conn) {
	if h.interval == 0 {
		return
	}
	c.conn.Outbox.BeginAnswer()
	h.on = true
	c.conn.Outbox.Cancel()
	c.conn.Wheel().Set(&h.alarm, h.interval/4, func() { h.look(c) })
}

func (h *heartbeat) stop(c *conn) {
	c.conn.Outbox.BeginAnswer()
	h.on = false
	c.conn.Outbox.Cancel()
	c.conn.Wheel().Stop(&h.alarm)
}

// look is called by the wheel.
func (h *heartbeat) look(c *conn) {
	buf := c.conn.Outbox.BeginAnswer()
	if !h.on || c.ended {
		c.conn.Outbox.Cancel()
		return
	}
	var b core.Batch
	if h.quiet++; c.writes != h.seen {
		h.seen, h.quiet = c.writes, 0
	}
	if h.quiet < 2 {
		c.conn.Outbox.Cancel()
	} else {
		h.quiet = 0
		c.conn.Outbox.End(&b, frame.AppendHeartbeat(buf))
		b.Flush()
	}
	c.conn.Wheel().Set(&h.alarm, h.interval/4, func() { h.look(c) })
}
