package adapters

import (
	"io"
	"sync/atomic"
	"time"
)

// probe lets a busy connection do without the read that finds nothing, one
// twentieth to one tenth of what a message costs that comes alone: when a read
// brought little it waits, and what comes later wakes it. But the client's end
// may have come in the same event as those bytes, and nobody is woken for one
// event twice. So when the connection was quiet for a tick, the wheel looks.
type probe struct {
	alarm Alarm
	set   atomic.Bool
	ended atomic.Pointer[error] // what it found
}

// skipRead sees to it that the wheel looks. Called after the last read.
func (c *Conn) skipRead() {
	if c.probe.set.Load() {
		c.probe.alarm.Heard()
		return
	}
	c.probe.set.Store(true)
	c.Wheel().Set(&c.probe.alarm, tick, c.look)
}

// look wakes the reader if there is no more to come.
func (c *Conn) look() {
	c.probe.set.Store(false) // first: a skipRead from now on sets it again
	// On a closed socket there is nothing to see.
	_ = c.raw.Control(func(fd uintptr) {
		if err := peekNow(fd); err != nil {
			c.probe.ended.Store(&err)
			_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		}
	})
}

// readRest reads what there is before the end that look has found.
func (c *Conn) readRest(end error) error {
	stopped := false
	err := c.raw.Control(func(fd uintptr) { stopped = c.ready(fd) })
	if !stopped || c.err == io.EOF { // what look was told is not told twice
		c.err = end
	}
	return err
}
