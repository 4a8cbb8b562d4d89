package wamp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/adapters"
	"entrepot/core"
)

// state is how far a connection has come.
type state uint8

const (
	fresh      state = iota // HELLO is due
	challenged              // AUTHENTICATE is due
	open
)

// conn is one client's connection. Its fields are the reader's own unless said
// otherwise.
type conn struct {
	encoding
	server *Server
	cfg    *Config
	conn   *adapters.Conn
	log    *slog.Logger

	in         frames
	state      state
	pending    *hello // while challenged
	visit      *adapters.Visit
	leaveVisit func() // nil before the visit was used
	message    message
	batch      core.Batch
	targets    targets

	// Set by HELLO, then unchanged.
	session  *core.Session
	lane     *core.Lane
	realm    *realm
	id       uint64
	features features
	who      atomic.Pointer[identity]

	pinger adapters.Alarm

	// feeding: the reader is at work and writes out what is added meanwhile.
	feeding atomic.Bool

	// Under the outbox's lock.
	welcomed bool // WELCOME was sent
	ended    bool // GOODBYE or ABORT was sent: nothing may follow it

	// events is the session's queue; its consumer is there after the first SUBSCRIBE.
	events core.Consumer

	unacked *adapters.Unacked // by all workers

	mu         sync.Mutex
	members    map[uint64]*membership // by subscription id
	regs       map[uint64]*registration
	workers    map[uint64]*worker
	takers     map[uint64]*taker
	calls      map[uint64]*core.Call // made, by request id
	held       map[uint64]invocation // served, by invocation id
	lastHeld   uint64
	lastWorker uint64
	testaments []testament
	attaching  bool // something that is in no map yet
}

// invocation is what the client was asked to do: a call, or a message of a queue.
type invocation struct {
	call   *core.Invocation
	worker *worker
	seq    uint64
	size   int // of a message, about
}

func newConn(s *Server, ac *adapters.Conn, e encoding, v *adapters.Visit) *conn {
	c := &conn{encoding: e, server: s, cfg: &s.cfg, conn: ac, log: s.log, visit: v}
	c.in = frames{most: s.cfg.Limits.LoginBytes, text: e.text, paidAt: time.Now()}
	return c
}

// Feed implements adapters.Protocol.
func (c *conn) Feed(b []byte) (used int, err error) {
	c.feeding.Store(true)
	for used < len(b) {
		f, n, done, err := c.in.next(b[used:])
		if err != nil {
			return used, err
		}
		if n == 0 {
			return used, nil
		}
		used += n
		if !done {
			continue
		}
		if err := c.frame(f); err != nil {
			return used, c.end(err)
		}
	}
	return used, nil
}

// end is what Feed returns after an error; the client is told.
func (c *conn) end(err error) error {
	if v, ok := errors.AsType[*violation](err); ok {
		c.abort(wamp.ErrProtocolViolation, v.text)
	} else if errors.Is(err, errForm) {
		c.abort(wamp.ErrProtocolViolation, err.Error())
	}
	return err
}

// frame does what a frame asks for.
func (c *conn) frame(f frame) error {
	switch f.op {
	case opPing:
		buf := c.conn.Outbox.BeginAnswer()
		c.conn.Outbox.End(&c.batch, appendControl(buf, opPong, f.data))
		return nil
	case opPong:
		return nil
	case opClose:
		if err := closeFault(f.data); err != nil {
			return err
		}
		return adapters.ErrDone
	}
	for rest := f.data; len(rest) > 0 || !c.batched; {
		b, more, err := c.cut(rest)
		if err != nil {
			return fmt.Errorf("%w: batch: %w", errForm, err)
		}
		if err := c.parse(b, &c.message); err != nil {
			return err
		}
		if err := c.handle(&c.message); err != nil {
			return err
		}
		if rest = more; !c.batched {
			return nil
		}
	}
	return nil
}

// handle does what a message asks for.
func (c *conn) handle(m *message) error {
	if c.state != open {
		return c.enter(m)
	}
	switch m.kind {
	case wamp.PUBLISH:
		return c.publish(m)
	case wamp.CALL:
		return c.call(m)
	case wamp.YIELD:
		return c.yield(m)
	case wamp.ERROR:
		return c.failed(m)
	case wamp.SUBSCRIBE:
		return c.subscribe(m)
	case wamp.UNSUBSCRIBE:
		return c.unsubscribe(m)
	case wamp.REGISTER:
		return c.register(m)
	case wamp.UNREGISTER:
		return c.unregister(m)
	case wamp.CANCEL:
		return c.cancel(m)
	case wamp.GOODBYE:
		c.goodbye(&c.batch, wamp.ErrGoodbyeAndOut, "")
		return adapters.ErrDone
	}
	return violated("message type %d in an open session", m.kind)
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
	c.goodbye(&b, wamp.CloseSystemShutdown, "")
	b.Flush()
}

// Closed implements adapters.Protocol.
func (c *conn) Closed(err error) {
	c.conn.Wheel().Stop(&c.pinger)
	if c.leaveVisit != nil {
		c.leaveVisit()
	}
	reason := core.CloseLost
	switch {
	case err == nil:
		reason = core.CloseNormal
	case errors.Is(err, adapters.ErrKicked):
		reason = core.CloseShutdown
	case errors.Is(err, adapters.ErrFrameTooLarge):
		err = &frameFault{closeTooBig, err.Error()}
	}
	if c.session != nil {
		c.leave(reason)
	}
	c.batch.Flush()
	if err != nil {
		c.log.Debug("connection ended", "remote", c.conn.RemoteAddr(), "error", err)
	}
	buf := c.conn.Outbox.BeginAnswer()
	c.conn.Outbox.End(nil, appendClose(buf, closeCode(err)))
}

// closeCode is the code of the broker's close frame.
func closeCode(err error) int {
	if f, ok := errors.AsType[*frameFault](err); ok {
		return f.code
	}
	switch {
	case err == nil:
		return closeNormal
	case errors.Is(err, adapters.ErrKicked):
		return closeGoingAway
	case errors.Is(err, errForm):
		return closeProtocol
	}
	return closePolicy
}

// leave ends the session.
func (c *conn) leave(reason core.CloseReason) {
	c.leaveTestaments()
	c.realm.leave(c)
	c.forgetSubscriptions()
	c.session.Close(reason)
	c.realm.forget(c)
	c.realm.left(c)
}

// ping keeps the connection heard of; it is the wheel's.
func (c *conn) ping() {
	buf := c.conn.Outbox.BeginAnswer()
	c.conn.Outbox.End(nil, appendControl(buf, opPing, nil))
	c.conn.Wheel().Set(&c.pinger, c.server.carrier.Ping, c.ping)
}

// send appends an answer that fill completes; from any goroutine.
func (c *conn) send(b *core.Batch, t wamp.MessageType, n int, fill func(buf []byte) []byte) {
	buf := c.conn.Outbox.BeginAnswer()
	if c.ended {
		c.conn.Outbox.Cancel()
		return
	}
	at := len(buf)
	c.conn.Outbox.End(b, c.seal(fill(c.open(buf, t, n)), at))
}

// later is send from a Done, whoever calls it: the reader writes it out if it is
// at work.
func (c *conn) later(t wamp.MessageType, n int, fill func(buf []byte) []byte) {
	var b core.Batch
	c.send(&b, t, n, fill)
	if !c.feeding.Load() {
		c.conn.Outbox.Flush()
	}
}

// last is send for what nothing may follow.
func (c *conn) last(b *core.Batch, t wamp.MessageType, details dict, reason wamp.URI) {
	buf := c.conn.Outbox.BeginAnswer()
	if c.ended {
		c.conn.Outbox.Cancel()
		return
	}
	c.ended = true
	if t == wamp.GOODBYE && !c.welcomed {
		t = wamp.ABORT
	}
	at := len(buf)
	buf = c.details(c.open(buf, t, 3), details)
	c.conn.Outbox.End(b, c.seal(c.value(buf, string(reason)), at))
}

func (c *conn) goodbye(b *core.Batch, reason wamp.URI, text string) {
	var d dict
	if text != "" {
		d = dict{{"message", text}}
	}
	c.last(b, wamp.GOODBYE, d, reason)
}

func (c *conn) abort(reason wamp.URI, text string) {
	c.last(&c.batch, wamp.ABORT, dict{{"message", text}}, reason)
}

// refuse answers a request with an ERROR; from any goroutine.
func (c *conn) refuse(request wamp.MessageType, id uint64, err error) {
	uri := errorURI(err)
	text := err.Error()
	if r, ok := errors.AsType[*refusal](err); ok {
		text = r.text
	}
	c.later(wamp.ERROR, 6, func(buf []byte) []byte {
		buf = c.uint(c.uint(buf, uint64(request)), id)
		buf = c.value(c.details(buf, nil), string(uri))
		return c.value(buf, list{text})
	})
}

// done answers a request with its id and what else there is to say.
func (c *conn) done(t wamp.MessageType, ids ...uint64) {
	c.later(t, 1+len(ids), func(buf []byte) []byte {
		for _, id := range ids {
			buf = c.uint(buf, id)
		}
		return buf
	})
}

// resume tells the consumers that there is room; called by the outbox, from another
// goroutine.
func (c *conn) resume(b *core.Batch) {
	c.mu.Lock()
	var all []core.Consumer
	if c.events != nil {
		all = append(all, c.events)
	}
	for _, w := range c.workers {
		all = append(all, w.consumer)
	}
	for _, t := range c.takers {
		all = append(all, t.consumer)
	}
	c.mu.Unlock()
	for _, o := range all {
		if o != nil {
			o.Resume(b)
		}
	}
}

// kill ends the session from outside with a GOODBYE.
func (c *conn) kill(reason wamp.URI, text string) {
	var b core.Batch
	c.goodbye(&b, reason, text)
	b.Flush()
	c.conn.Kick(adapters.ErrDone)
}

// background is for verbs that the client waits for.
func background() context.Context { return context.Background() }
