package stomp

import (
	"bytes"
	"time"

	"entrepot/adapters"
	"entrepot/core"
)

// heartBeat sends a line end when nothing else was sent for a while. It looks four
// times in an interval and sends at the second look that finds nothing new, so that no
// pause is longer than the interval although the wheel is only so exact.
type heartBeat struct {
	alarm adapters.Alarm
	every time.Duration
	seen  uint32 // writes at the last look
	quiet int    // looks since something was sent
	on    bool   // under the outbox's lock, as the two before
}

func (h *heartBeat) start(c *conn, interval time.Duration) {
	h.every, h.on = interval/4, true
	c.conn.Wheel().Set(&h.alarm, h.every, func() { h.look(c) })
}

func (h *heartBeat) stop(c *conn) {
	c.conn.Outbox.BeginAnswer()
	h.on = false
	c.conn.Outbox.Cancel()
	c.conn.Wheel().Stop(&h.alarm)
}

// look is called by the wheel.
func (h *heartBeat) look(c *conn) {
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
		c.conn.Outbox.End(&b, append(buf, '\n'))
		b.Flush()
	}
	c.conn.Wheel().Set(&h.alarm, h.every, func() { h.look(c) })
}

// longestBeat is more than anybody waits for: one day in milliseconds.
const longestBeat = 24 * 60 * 60 * 1000

// parseHeartBeat reads "can,want" in milliseconds (STOMP 1.2, Heart-beating).
func parseHeartBeat(b []byte) (can, want time.Duration, err error) {
	x, y, ok := bytes.Cut(b, []byte{','})
	if ok {
		var nx, ny int
		var okx, oky bool
		nx, okx = decimal(bytes.TrimSpace(x))
		ny, oky = decimal(bytes.TrimSpace(y))
		if okx && oky {
			return time.Duration(min(nx, longestBeat)) * time.Millisecond,
				time.Duration(min(ny, longestBeat)) * time.Millisecond, nil
		}
	}
	return 0, 0, malformed("heart-beat must be two numbers of milliseconds: %.40q", b)
}

// beat is the interval for one direction: the longer of what one side can and the
// other wants, none when either says 0.
func beat(can, want time.Duration) time.Duration {
	if can == 0 || want == 0 {
		return 0
	}
	return max(can, want)
}
