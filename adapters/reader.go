package adapters

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	quietSize = 512     // what a reader waits with that cannot wait without a buffer
	ownFrame  = 4 << 10 // a frame's beginning of this size has a buffer of its own
	slowRead  = 4 << 10 // how much is read at once where Pace says little
	busyWakes = 8       // wakes in one tick that make a connection busy
	fairReads = 16      // reads after which others get the processor
	fewBytes  = 2 << 10 // a busy connection waits after a read of less
)

// reader is a connection's own input side; nobody else touches it.
type reader struct {
	raw      syscall.RawConn // nil: a carrier without a socket of its own
	secure   *secure         // TLS on that socket; nil: none
	rest     []byte          // a frame's beginning, kept while the socket is quiet
	maxFrame int
	loggedIn bool
	err      error // why reading ended

	askPace func() (wait time.Duration, slow bool)
	wait    time.Duration // before the next read
	slow    bool

	chores chores

	busy  bool
	wakes int   // in this tick
	tick  int64 // of the last wake
	probe probe
}

func (c *Conn) readAll() error {
	if c.raw == nil {
		return c.readPlain()
	}
	return c.readRaw()
}

// readRaw is the reader of sockets. While the socket is quiet the connection
// holds no buffer: the runtime waits inside Read, between two calls of ready.
func (c *Conn) readRaw() error {
	for c.err == nil {
		if !c.loggedIn {
			if err := c.attend(); err != nil {
				return err
			}
		}
		err := c.await()
		c.place.give(c.err != nil)
		if err != nil {
			return err
		}
		if c.waitForRoom(); c.kicked.Load() != nil {
			return ErrKicked
		}
	}
	return c.err
}

// await waits for input and reads until the reader has to stop.
func (c *Conn) await() error {
	if end := c.probe.ended.Load(); end != nil {
		return c.readRest(*end)
	}
	err := c.raw.Read(c.ready)
	if c.probe.ended.Load() != nil { // look's deadline
		return nil
	}
	return err
}

// waitForRoom waits as Pace says and while too many answers wait for the socket,
// or until Kick.
func (c *Conn) waitForRoom() {
	if c.wait > 0 {
		c.waitPace()
	}
	if wait := c.Outbox.roomForAnswers(); wait != nil && c.kicked.Load() == nil {
		<-wait
	}
}

// longPace is a wait in which a client may seem to be silent that is only not
// read.
const longPace = time.Second

// waitPace waits as Pace says, or until Kick.
func (c *Conn) waitPace() {
	t := time.NewTimer(c.wait)
	defer t.Stop()
	if c.wait >= longPace && c.quiet > 0 {
		c.Wheel().Stop(&c.alarm)
		defer func() { c.Wheel().Set(&c.alarm, c.quiet, c.timeout) }()
	}
	c.wait = 0
	if kick := c.Outbox.nextUnblock(); c.kicked.Load() == nil {
		select {
		case <-kick:
		case <-t.C:
		}
	}
}

// stopped tells that nothing more is to be read now.
func (c *Conn) stopped() bool {
	return c.err != nil || c.wait > 0 || c.kicked.Load() != nil || c.Outbox.crowded.Load()
}

// ready reads and feeds until the socket has no more (false: wait) or the
// reader has to stop (true). The stack of a busy connection may as well grow.
func (c *Conn) ready(fd uintptr) bool {
	if c.pace(); c.busy {
		return c.readReady(fd)
	}
	return c.server.stacks.readReady(c, fd)
}

// pace tells a busy connection, which wakes busyWakes times in a tick, from a
// quiet one.
func (c *Conn) pace() {
	if now := c.Wheel().now.Load(); now != c.tick {
		c.busy = c.busy && c.wakes >= busyWakes && now == c.tick+1
		c.tick, c.wakes = now, 0
	}
	if c.wakes++; c.wakes == busyWakes {
		c.busy = true
	}
}

func (c *Conn) readReady(fd uintptr) (stop bool) {
	lent := c.server.bufs.getRead()
	buf, have := c.unpack(lent.b)
	for turn := 1; !stop; turn++ {
		free := buf[have:c.reach(buf, have)]
		n, err := c.readNow(fd, free)
		if err == syscall.EAGAIN {
			break
		}
		if err != nil || n == 0 {
			stop = err != syscall.EINTR
			c.readEnded(err)
			continue
		}
		// Under TLS there may be more in hand, which nothing would wake it for.
		last := c.busy && c.secure == nil && n < min(fewBytes, len(free))
		if last {
			c.skipRead()
		}
		buf, have = c.feed(buf, have+n, lent.b)
		if stop = c.stopped(); last {
			break
		}
		if turn%fairReads == 0 {
			runtime.Gosched()
		}
	}
	c.pack(buf, have, lent.b)
	c.server.bufs.putRead(lent)
	return stop || c.place.held // which is not kept while the client is silent
}

func (c *Conn) readNow(fd uintptr, b []byte) (int, error) {
	if c.secure != nil {
		return c.secure.readNow(fd, b)
	}
	return readNow(fd, b)
}

// readEnded notes why there is nothing more to read.
func (c *Conn) readEnded(err error) {
	switch {
	case err == nil:
		c.err = io.EOF
	case err != syscall.EINTR:
		c.err = os.NewSyscallError("read", err)
	}
}

// readPlain is the reader of carriers without a socket of their own. It waits
// with a small buffer, and takes a large one when that was filled.
func (c *Conn) readPlain() error {
	quiet := make([]byte, quietSize)
	for c.err == nil {
		in := quiet
		if !c.loggedIn {
			in = quiet[:min(len(quiet), c.maxFrame-len(c.rest))]
		}
		n, err := c.conn.Read(in)
		if n > 0 {
			if !c.loggedIn {
				if err := c.takePlace(); err != nil {
					return err
				}
			}
			c.plainReady(in[:n])
		}
		if c.err == nil {
			c.err = err
		}
		c.place.give(c.err != nil)
		if c.waitForRoom(); c.kicked.Load() != nil {
			return ErrKicked
		}
	}
	return c.err
}

// plainReady feeds what was read and reads on while a read fills the buffer.
func (c *Conn) plainReady(b []byte) {
	lent := c.server.bufs.getRead()
	buf, have := c.unpack(lent.b)
	n := copy(buf[have:], b)
	more := n == quietSize
	for n > 0 {
		buf, have = c.feed(buf, have+n, lent.b)
		if !more || c.stopped() {
			break
		}
		free := buf[have:c.reach(buf, have)]
		n, c.err = c.conn.Read(free)
		more = n == len(free)
	}
	c.pack(buf, have, lent.b)
	c.server.bufs.putRead(lent)
}

// window is the end of what may be read to: before log-in no more than one
// frame of the size that is allowed then.
func (c *Conn) window(buf []byte) int {
	if c.loggedIn {
		return len(buf)
	}
	return min(len(buf), c.maxFrame)
}

// reach is window, but not far behind the have bytes that are there when reading
// is slow.
func (c *Conn) reach(buf []byte, have int) int {
	if !c.slow {
		return c.window(buf)
	}
	return min(c.window(buf), have+slowRead)
}

// unpack puts what is kept of a frame to the front of a buffer that has room:
// lent, or for a large frame its own.
func (c *Conn) unpack(lent []byte) (buf []byte, have int) {
	have = len(c.rest)
	if have < ownFrame {
		copy(lent, c.rest)
		return lent, have
	}
	if cap(c.rest) < 2*have {
		c.rest = append(make([]byte, 0, 2*have), c.rest...)
	}
	return c.rest[:cap(c.rest)], have
}

// pack keeps the first have bytes of buf, in at most four times the memory.
func (c *Conn) pack(buf []byte, have int, lent []byte) {
	switch {
	case have == 0:
		c.rest = nil
	case &buf[0] != &lent[0] && cap(buf) <= 4*have:
		c.rest = buf[:have]
	default:
		c.rest = append([]byte(nil), buf[:have]...)
	}
}

// feed gives the protocol the first have bytes of buf, moves what it left to
// the front and makes room when a frame is larger than the buffer: by what
// arrived, not by what a header claims.
func (c *Conn) feed(buf []byte, have int, lent []byte) ([]byte, int) {
	if c.loggedIn { // before, the clock runs on, however often bytes come
		c.alarm.Heard()
	} else if speaksTLS(buf[:have]) {
		c.server.unopened.count(errPlain)
		c.err = errPlain
		return lent, 0
	}
	used, err := c.proto.Feed(buf[:have])
	c.proto.Idle()
	if c.place.held && c.loggedIn {
		c.place.give(true)
	}
	c.wait, c.slow = 0, false
	if c.askPace != nil {
		c.wait, c.slow = c.askPace()
	}
	if c.chores.crumbled(have, used); c.chores.done > 0 {
		c.payChores()
	}
	left := buf[used:have]
	switch {
	case err != nil:
		c.err = err
	case len(left) > c.maxFrame || !c.loggedIn && len(left) == c.maxFrame:
		c.err = fmt.Errorf("%w: over %d bytes", ErrFrameTooLarge, c.maxFrame)
	case len(left) == len(buf):
		buf = make([]byte, 2*len(left))
	case len(left) < ownFrame:
		buf = lent
	}
	if used == 0 && &buf[0] == &left[0] {
		return buf, have
	}
	return buf, copy(buf, left)
}
