package adapters

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"entrepot/core"
)

// Protocol is one client connection of a front-end. Feed, Idle and Closed are
// called by the connection's reader alone, never two at once; Shutdown by
// another goroutine, at most once. Feed and Idle may run on another goroutine's
// stack: what they call must not depend on which goroutine it is.
type Protocol interface {
	// Feed takes whole frames from the front of b, which it may keep no part
	// of, and returns how many bytes it used. An error ends the connection
	// after what is in the outbox was sent. Before a call that may wait (for a
	// disk, say) the batch is to be flushed: other clients' bytes are in it.
	Feed(b []byte) (used int, err error)
	// Idle is called after each Feed, whatever it returned: flush the batch.
	Idle()
	// Shutdown tells the client that the broker stops; the connection is
	// ended right after. It must not block.
	Shutdown()
	// Closed is called last, once, when no Feed follows: leave the broker. A
	// last word may still go into the outbox. err is nil when Feed returned
	// ErrDone or the client closed between frames.
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
	// Outbox is where the client's bytes leave by.
	Outbox *Outbox

	server *Server
	conn   net.Conn
	from   *Listener // nil: from elsewhere
	proto  Protocol
	peer   netip.Addr
	place  place // for the work before log-in

	reader
	alarm  Alarm
	quiet  time.Duration // how long the client may be silent, 0: for ever
	kicked atomic.Pointer[error]
}

// RemoteAddr is the client's address, for logs and rights.
func (c *Conn) RemoteAddr() string { return c.conn.RemoteAddr().String() }

// Carrier is the connection itself, for what it tells of its client (a
// certificate). Nobody but the Conn reads, writes or closes it.
func (c *Conn) Carrier() net.Conn { return c.conn }

// AwaitRoom waits while so many answers are unsent that the reader does not read
// on. Called from Feed, before another large answer, with the batch flushed.
func (c *Conn) AwaitRoom() {
	if c.Outbox.crowded.Load() {
		c.waitForRoom()
	}
}

// Await waits for done, or until Kick. The client need not be heard meanwhile,
// as nobody listens. Called from Feed, with the batch flushed, after log-in.
func (c *Conn) Await(done <-chan struct{}) {
	c.Wheel().Stop(&c.alarm)
	for waits := true; waits; {
		kick := c.Outbox.nextUnblock()
		if c.kicked.Load() != nil {
			return
		}
		select {
		case <-kick: // or there is room in the outbox
		case <-done:
			waits = false
		}
	}
	if c.quiet > 0 {
		c.Wheel().Set(&c.alarm, c.quiet, c.timeout)
	}
}

// OnRoom names what is called, from another goroutine and with no lock held,
// when deliveries were refused and there is room again: resume the consumers.
// It must not block. Called by the protocol before its first delivery.
func (c *Conn) OnRoom(f func(*core.Batch)) { c.Outbox.onRoom(f) }

// Pace names what is asked after each Feed: whether little is to be read at a
// time, and how long to wait before the next read. See core.Session.Pace. Called
// from Feed.
func (c *Conn) Pace(f func() (wait time.Duration, slow bool)) { c.askPace = f }

// Wheel is where the protocol may set alarms of its own. It stops them before
// Closed returns.
func (c *Conn) Wheel() *Wheel { return c.server.wheel }

// LoggedIn ends the limits that hold before log-in. No more than maxFrame bytes
// are kept of a frame that is not whole yet (one of up to 64 KiB may be larger
// and come at once: the protocol checks what a header claims); the client must
// be heard once in every quiet, 0 for no limit. Called from Feed, again when
// the limits change.
func (c *Conn) LoggedIn(maxFrame int, quiet time.Duration) {
	if !c.loggedIn {
		c.loggedIn = true
		c.server.loggedIn(c)
	}
	c.maxFrame, c.quiet = maxFrame, quiet
	if quiet == 0 {
		c.Wheel().Stop(&c.alarm)
		return
	}
	c.Wheel().Set(&c.alarm, quiet, c.timeout)
}

func (c *Conn) timeout() { c.Kick(ErrTimeout) }

func (c *Conn) writeFailed(err error) { c.Kick(fmt.Errorf("write: %w", err)) }

// Kick ends the connection from outside: the reader stops, what is in the
// outbox is sent, and Closed gets err. The first call counts. It does not
// block and takes no lock but the outbox's.
func (c *Conn) Kick(err error) {
	if c.kicked.CompareAndSwap(nil, &err) {
		// A closed socket needs no waking.
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		c.Outbox.unblock()
	}
}

// run reads until the end.
func (c *Conn) run() {
	err := c.readAll()
	if k := c.kicked.Load(); k != nil {
		err = *k
	}
	c.Wheel().Stop(&c.alarm)
	c.Wheel().Stop(&c.probe.alarm)
	if errors.Is(err, ErrDone) || errors.Is(err, io.EOF) && len(c.rest) == 0 {
		c.proto.Closed(nil)
	} else {
		c.proto.Closed(err)
	}
	if ws, ok := c.conn.(*websocketConn); ok {
		ws.because(err)
	}
	if c.Outbox.close(c.server.cfg.Linger) {
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
