package stomp

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"entrepot/adapters"
	"entrepot/core"
)

// conn is one client's connection. Its fields are the reader's own unless said
// otherwise.
type conn struct {
	server *Server
	cfg    *Config
	conn   *adapters.Conn
	log    *slog.Logger

	frame   frame
	batch   core.Batch
	session *core.Session // nil before CONNECT
	lane    *core.Lane
	sent    core.Done // onSent, bound once
	targets targets
	waiting waitingSends
	seqs    []uint64 // scratch for ACK
	leaving bool     // DISCONNECT was read: nothing more is

	lineEnds int // since the last frame

	// feeding: the reader is at work and writes out what is added meanwhile.
	feeding atomic.Bool
	// failed: a frame was refused after its handler had returned.
	failed atomic.Bool

	// Under the outbox's lock.
	spoken version // what the client was told
	ended  bool    // ERROR was sent: nothing may follow it
	writes uint32  // counts what was sent, for the heart-beat

	heartBeat adapters.Beat

	user, clientID string
	transactions   map[string]*transaction // by id as written
	gathered       int                     // bytes in them
	temporaries    map[string]string       // queue by destination

	unacked *adapters.Unacked // on all subscriptions

	mu         sync.Mutex
	subs       map[string]*subscription // by id as written
	numbers    map[uint64]*subscription
	lastNumber uint64
	attaching  bool // a consumer that is in no map yet
}

func newConn(s *Server, ac *adapters.Conn) *conn {
	c := &conn{server: s, cfg: &s.cfg, conn: ac, log: s.log}
	c.sent = c.onSent
	login := min(s.cfg.Limits.LoginBytes, s.cfg.MaxHeaderBytes)
	c.frame.limits = limits{headers: s.cfg.MaxHeaders, headerBytes: login - 1}
	c.frame.reset()
	return c
}

// freeLineEnds is how many bytes of them may follow a frame: many clients send
// one, and it is no heart-beat then.
const freeLineEnds = 2

// Feed implements adapters.Protocol.
func (c *conn) Feed(b []byte) (used int, err error) {
	c.feeding.Store(true)
	if c.leaving {
		return len(b), nil
	}
	for {
		// Line ends between frames are heart-beats.
		for used < len(b) && (b[used] == '\n' || b[used] == '\r') {
			if c.lineEnds++; c.lineEnds > freeLineEnds {
				c.conn.Chore()
			}
			used++
		}
		if used == len(b) {
			return used, nil
		}
		n, err := c.frame.parse(b[used:])
		if err == nil && n > 0 {
			err = c.handle(&c.frame)
		}
		if err != nil {
			return used, c.end(err)
		}
		if n == 0 {
			return used, nil
		}
		used += n
		c.lineEnds = 0
		c.frame.reset()
		if c.leaving {
			return len(b), nil
		}
		if c.failed.Load() {
			return used, errRefused
		}
	}
}

// end is what Feed returns after an error; the client is told.
func (c *conn) end(err error) error {
	if errors.Is(err, adapters.ErrDone) {
		return err
	}
	c.refuse(&c.batch, err, c.frame.value(receiptHeader))
	return fmt.Errorf("%w: %w", errRefused, err)
}

// handle does what a frame asks for.
func (c *conn) handle(f *frame) error {
	if f.has&rememberedHeaders != 0 {
		if err := f.checkIDs(); err != nil {
			return err
		}
	}
	if c.session == nil {
		return c.connect(f)
	}
	if f.command == sendCommand {
		return c.send(f)
	}
	if len(f.body) > 0 {
		return malformed("only SEND frames may have a body")
	}
	switch f.command {
	case ackCommand:
		return c.ack(f, core.Ack)
	case nackCommand:
		return c.nack(f)
	case subscribeCommand:
		return c.subscribe(f)
	case unsubscribeCommand:
		return c.unsubscribe(f)
	case beginCommand, commitCommand, abortCommand:
		return c.transaction(f)
	case disconnectCommand:
		return c.disconnect(f)
	default:
		return bad("already connected")
	}
}

// Idle implements adapters.Protocol.
func (c *conn) Idle() {
	c.feeding.Store(false)
	c.batch.Flush()
	// What a Done added while feeding was set.
	c.conn.Outbox.Flush()
}

// Shutdown implements adapters.Protocol.
func (c *conn) Shutdown() {
	var b core.Batch
	c.refuse(&b, bad("the broker stops"), nil)
	b.Flush()
}

// written is how much was sent, and whether that was all. Under the outbox's
// lock.
func (c *conn) written() (writes uint32, ended bool) { return c.writes, c.ended }

// Closed implements adapters.Protocol.
func (c *conn) Closed(err error) {
	c.heartBeat.Stop(c.conn)
	reason := core.CloseLost
	switch {
	case err == nil:
		reason = core.CloseNormal
	case errors.Is(err, adapters.ErrKicked):
		reason = core.CloseShutdown
	case errors.Is(err, adapters.ErrTimeout):
		c.refuse(&c.batch, bad("nothing was heard from the client in time"), nil)
	case errors.Is(err, adapters.ErrFrameTooLarge):
		c.refuse(&c.batch, tooLarge("%v", err), nil)
	}
	if c.session != nil {
		c.leaveDurables(reason)
		c.session.Close(reason)
	}
	c.batch.Flush()
	if err != nil {
		c.log.Debug("connection ended", "remote", c.conn.RemoteAddr(), "error", err)
	}
}

// kicked is called by the core, from another goroutine, when the session was
// ended by the broker.
func (c *conn) kicked(why core.EndReason) { c.fail(bad("%s", why.String()), nil) }

// fail refuses a frame whose handler has returned, and ends the connection. From any
// goroutine.
func (c *conn) fail(err error, receipt []byte) {
	var b core.Batch
	c.refuse(&b, err, receipt)
	c.failed.Store(true)
	c.conn.Kick(fmt.Errorf("%w: %w", errRefused, err))
}

// onSent ends a SEND that nobody waits for.
func (c *conn) onSent(_ bool, err error) {
	if err != nil {
		c.fail(err, nil)
	}
}

// acknowledge sends the receipt that f asks for when everything before it is done.
func (c *conn) acknowledge(f *frame) {
	if !f.has.holds(receiptHeader) {
		return
	}
	id := bytes.Clone(f.value(receiptHeader))
	c.session.Apply(c.lane, nil, func(bool, error) { c.sendReceipt(id) })
}

// sendReceipt may be called from any goroutine. id is as the client wrote it.
func (c *conn) sendReceipt(id []byte) {
	buf := c.conn.Outbox.BeginAnswer()
	if c.ended {
		c.conn.Outbox.Cancel()
		return
	}
	buf = append(buf, "RECEIPT\nreceipt-id:"...)
	buf = append(buf, id...)
	buf = append(buf, "\n\n\x00"...)
	c.writes++
	var b core.Batch
	c.conn.Outbox.End(&b, buf)
	if !c.feeding.Load() {
		c.conn.Outbox.Flush()
	}
}

// disconnect answers when everything before it is done, and ends the connection
// (STOMP 1.2, DISCONNECT). By then nothing is on its way to the client any more,
// and what it did not acknowledge is back in its queue.
func (c *conn) disconnect(f *frame) error {
	if !f.has.holds(receiptHeader) {
		return adapters.ErrDone
	}
	c.leaving = true
	c.cancelAll()
	id := bytes.Clone(f.value(receiptHeader))
	c.session.Apply(c.lane, nil, func(bool, error) {
		c.sendReceipt(id)
		c.conn.Kick(adapters.ErrDone)
	})
	return nil
}

// cancelAll ends the consumers of all subscriptions but durable ones.
func (c *conn) cancelAll() {
	c.mu.Lock()
	var open []core.Consumer
	for _, s := range c.subs {
		if s.source.durable == "" {
			s.gone = true
			open = append(open, s.consumer)
		}
	}
	c.mu.Unlock()
	for _, o := range open {
		o.Cancel(core.Requeue)
	}
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
