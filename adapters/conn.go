package adapters

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"entrepot/core"
)

// Protocol is one client connection of a front-end. Feed, Idle and Closed are
// called by the connection's reader alone, in that order and never at once;
// Shutdown by another goroutine.
type Protocol interface {
	// Feed takes whole frames from the front of b, which it may keep no part
	// of, and returns how many bytes it used. An error ends the connection
	// after what is in the outbox was sent.
	Feed(b []byte) (used int, err error)
	// Idle is called when the input is used up: flush the batch.
	Idle()
	// Shutdown tells the client that the broker stops; the connection is
	// closed soon after.
	Shutdown()
	// Closed is called last, once. err is nil when Feed returned ErrDone or
	// the client closed between frames.
	Closed(err error)
}

// ErrDone is what Feed returns when the client has said good-bye.
var ErrDone = errors.New("done")

// Errors that Closed may get, wrapped.
var (
	ErrTimeout       = errors.New("nothing heard in time")
	ErrFrameTooLarge = errors.New("frame too large")
	ErrKicked        = errors.New("ended by the broker")
)

// Conn is one client's connection.
type Conn struct {
	Outbox *Outbox

	server *Server
	conn   net.Conn
	raw    syscall.RawConn
	proto  Protocol
	peer   string

	// The reader's own.
	rest     []byte // a frame's beginning, kept while the socket is quiet
	maxFrame int
	loggedIn bool
	err      error

	alarm  Alarm
	kicked atomic.Pointer[error]
}

// RemoteAddr is the client's address, for logs and rights.
func (c *Conn) RemoteAddr() string { return c.conn.RemoteAddr().String() }

// OnRoom names what is called, from another goroutine, when deliveries were
// refused and there is room again: resume the consumers. Called by the
// protocol before its first delivery.
func (c *Conn) OnRoom(f func(*core.Batch)) { c.Outbox.room = f }

// Wheel is where the protocol may set alarms of its own.
func (c *Conn) Wheel() *Wheel { return c.server.wheel }

// LoggedIn ends the limits that hold before log-in. Frames may be of up to
// maxFrame bytes from now on; the client must be heard once in every quiet, 0
// for no limit. Called from Feed.
func (c *Conn) LoggedIn(maxFrame int, quiet time.Duration) {
	if !c.loggedIn {
		c.loggedIn = true
		c.server.loggedIn(c)
	}
	c.maxFrame = maxFrame
	if quiet == 0 {
		c.Wheel().Stop(&c.alarm)
		return
	}
	c.Wheel().Set(&c.alarm, quiet, func() { c.Kick(ErrTimeout) })
}

// Kick ends the connection from outside: the reader stops, what is in the
// outbox is sent, and Closed gets err. The first call counts. It does not
// block.
func (c *Conn) Kick(err error) {
	if c.kicked.CompareAndSwap(nil, &err) {
		// A closed socket needs no waking.
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		c.Outbox.unblock()
	}
}

// run reads until the end.
func (c *Conn) run() {
	var err error
	if c.raw != nil {
		err = c.readRaw()
	} else {
		err = c.readPlain()
	}
	if k := c.kicked.Load(); k != nil {
		err = *k
	}
	c.Wheel().Stop(&c.alarm)
	end := err
	if errors.Is(err, ErrDone) || errors.Is(err, io.EOF) && len(c.rest) == 0 {
		end = nil
	}
	c.proto.Closed(end)
	c.Outbox.close(c.server.cfg.Linger)
	if c.loggedIn && end != nil && !errors.Is(err, io.EOF) {
		c.linger()
	}
	// The client may have closed first.
	_ = c.conn.Close()
}

// linger lets the client read our last words: closing a socket with unread
// input would reset it and take them back.
func (c *Conn) linger() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.server.cfg.Linger))
	_, _ = io.CopyN(io.Discard, c.conn, 1<<20)
}

// readPlain is the reader of carriers without a socket of their own.
func (c *Conn) readPlain() error {
	lent := c.server.bufs.read.Get().(*buffer)
	defer c.server.bufs.read.Put(lent)
	buf, have := lent.b, 0
	for {
		n, err := c.conn.Read(buf[have:])
		have += n
		if n > 0 {
			if buf, have, err = c.feed(buf, have, err); err == nil {
				c.proto.Idle()
			}
		}
		if err != nil {
			c.rest = buf[:have]
			return c.readError(err)
		}
		if c.waitForRoom(); c.kicked.Load() != nil {
			return ErrKicked
		}
	}
}

// waitForRoom waits while too many answers wait for the socket, or until Kick.
func (c *Conn) waitForRoom() {
	if wait := c.Outbox.backlogged(); wait != nil && c.kicked.Load() == nil {
		<-wait
	}
}

func (c *Conn) readError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrTimeout
	}
	return err
}

// readRaw is the reader of sockets. While the socket is quiet the connection
// holds no buffer: the runtime waits inside Read, between two calls of
// readReady.
func (c *Conn) readRaw() error {
	for {
		if err := c.raw.Read(c.readReady); err != nil {
			return c.readError(err)
		}
		if c.err != nil {
			return c.err
		}
		if c.waitForRoom(); c.kicked.Load() != nil {
			return ErrKicked
		}
	}
}

// readReady reads and feeds until the socket has no more (false: wait) or the
// reader has to stop (true).
func (c *Conn) readReady(fd uintptr) bool {
	lent := c.server.bufs.read.Get().(*buffer)
	buf := lent.b
	if len(c.rest) >= len(buf) {
		buf = c.rest[:cap(c.rest)]
	} else {
		copy(buf, c.rest)
	}
	have := len(c.rest)
	stop := false
	for !stop {
		n, err := readNow(fd, buf[have:])
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			break
		}
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err == nil {
			have += n
			buf, have, err = c.feed(buf, have, nil)
			c.proto.Idle()
		}
		if c.err = err; err == nil && c.kicked.Load() != nil {
			c.err = ErrKicked
		}
		stop = c.err != nil || c.Outbox.backlogged() != nil
	}
	c.keep(buf[:have], lent)
	c.server.bufs.read.Put(lent)
	return stop
}

// keep holds the beginning of a frame in no more memory than it needs.
func (c *Conn) keep(b []byte, lent *buffer) {
	switch {
	case len(b) == 0:
		c.rest = nil
	case &b[0] != &lent.b[0]:
		c.rest = b // grown for a large frame: its own already
	default:
		c.rest = append([]byte(nil), b...)
	}
}

// feed gives the protocol what there is, moves what is left to the front and
// makes room when a frame is larger than the buffer. It grows by what arrived,
// not by what a header claims.
func (c *Conn) feed(buf []byte, have int, readErr error) ([]byte, int, error) {
	c.alarm.heardIf(c.loggedIn)
	used, err := c.proto.Feed(buf[:have])
	if used > 0 {
		copy(buf, buf[used:have])
		have -= used
	}
	switch {
	case err != nil:
		return buf, have, err
	case have > c.maxFrame || !c.loggedIn && have >= c.maxFrame:
		return buf, have, fmt.Errorf("%w: over %d bytes", ErrFrameTooLarge, c.maxFrame)
	case have == len(buf):
		grown := make([]byte, 2*len(buf))
		copy(grown, buf)
		buf = grown
	case have == 0 && len(buf) > readSize:
		buf = make([]byte, readSize)
	}
	return buf, have, readErr
}

// heardIf: before log-in the clock runs on, however often bytes come.
func (a *Alarm) heardIf(loggedIn bool) {
	if loggedIn {
		a.Heard()
	}
}
