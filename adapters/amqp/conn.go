package amqp

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/adapters"
	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// phase is what a connection waits for (AMQP 0-9-1, 2.2.4).
type phase uint8

const (
	awaitsHeader phase = iota
	awaitsStartOK
	awaitsTuneOK
	awaitsOpen
	isOpen
	awaitsCloseOK // connection.close was sent: all else is passed over
)

// conn is one client's connection. Its fields are the reader's own unless said
// otherwise.
type conn struct {
	server *Server
	cfg    *Config
	conn   *adapters.Conn
	log    *slog.Logger

	phase    phase
	method   frame.Method // at hand, for faults
	frameMax int          // of either side
	batch    core.Batch
	session  *core.Session // nil before connection.open
	left     bool          // it was closed
	login    login
	realm    *core.Broker
	vhost    string
	client   capabilities
	targets  targets
	printed  printed
	partial  int // bytes of bodies that have not all come
	bodyMax  int
	// published: the client did, and blocked knows.
	published bool
	scratch   scratch
	unacked   *adapters.Unacked // of all channels
	closing   adapters.Alarm    // until connection.close-ok

	channelMax uint16
	last       *channel // the one of the last frame

	// feeding: the reader is at work and writes out what is added meanwhile.
	feeding  atomic.Bool
	confirms confirmations
	blocked  blocked

	// Under the outbox's lock.
	greeted bool   // connection.start was sent
	ended   bool   // connection.close or close-ok was sent: nothing may follow
	writes  uint32 // counts what was sent, for the heartbeat

	beat      adapters.Beat // AMQP 0-9-1, 4.2.7
	heartbeat time.Duration // as negotiated, 0: none

	mu        sync.Mutex // the maps of channels and their consumers, for resume
	channels  map[uint16]*channel
	attaching *consumer // one that is in no map yet
}

// scratch is slices that are used again.
type scratch struct {
	taken []heldMessage
	seqs  []uint64
}

func newConn(s *Server, ac *adapters.Conn) *conn {
	return &conn{server: s, cfg: &s.cfg, conn: ac, log: s.log, frameMax: min(s.cfg.Limits.LoginBytes, s.cfg.FrameMax)}
}

// Feed implements adapters.Protocol.
func (c *conn) Feed(b []byte) (used int, err error) {
	c.feeding.Store(true)
	if c.phase == awaitsHeader {
		if used, err = c.protocolHeader(b); used == 0 || err != nil {
			return used, err
		}
	}
	for {
		f, n, err := frame.Next(b[used:], c.frameMax)
		if err != nil {
			c.method = 0
			return used, c.end(&fault{code: frame.FrameError, text: err.Error(), fatal: true})
		}
		if n == 0 {
			return used, nil
		}
		used += n
		if err := c.handle(f); err != nil {
			if err = c.end(err); err != nil {
				return used, err
			}
		}
	}
}

// end deals with a fault of a frame: the channel's or the connection's. What it
// returns ends the connection now.
func (c *conn) end(err error) error {
	if errors.Is(err, adapters.ErrDone) || errors.Is(err, errUntold) {
		return err
	}
	f := c.faultOf(err, noun{})
	if f.method == 0 {
		f.method = c.method
	}
	if !f.fatal && !f.code.Hard() && c.last != nil && c.phase == isOpen {
		c.last.fail(f)
		return nil
	}
	c.refuse(f)
	if f.fatal || c.phase < isOpen {
		return fmt.Errorf("client was refused: %w", f)
	}
	c.phase = awaitsCloseOK
	c.leave(core.CloseNormal)
	c.conn.Wheel().Set(&c.closing, closeTimeout, func() { c.conn.Kick(adapters.ErrTimeout) })
	return nil
}

// closeTimeout is how long a client may take to answer connection.close.
const closeTimeout = 5 * time.Second

// handle does what a frame asks for.
func (c *conn) handle(f frame.Frame) error {
	c.method = 0
	if f.Kind == frame.MethodKind && f.Channel != 0 && c.phase == isOpen {
		return c.channelMethod(f)
	}
	switch {
	case f.Kind == frame.HeartbeatKind:
		if f.Channel != 0 || len(f.Payload) > 0 {
			return broken(frame.UnexpectedFrame, "a heartbeat with a channel or a payload")
		}
		c.conn.Chore()
		return nil
	case f.Kind != frame.MethodKind && f.Kind != frame.HeaderKind && f.Kind != frame.BodyKind:
		return broken(frame.FrameError, "frame of the unknown type %d", f.Kind)
	case c.phase == awaitsCloseOK:
		return c.passOver(f)
	case f.Kind == frame.MethodKind && f.Channel == 0:
		return c.connectionMethod(f)
	case c.phase != isOpen:
		return refuse(frame.ChannelError, "frame on channel %d before connection.open", f.Channel)
	}
	return c.contentFrame(f)
}

// passOver waits for connection.close-ok (AMQP 0-9-1, 2.2.4); a client that
// closes too is answered.
func (c *conn) passOver(f frame.Frame) error {
	if f.Kind != frame.MethodKind || f.Channel != 0 {
		return nil
	}
	r := frame.NewReader(f.Payload)
	switch r.Method() {
	case frame.ConnectionClose:
		c.conn.Outbox.End(&c.batch, frame.AppendEmpty(c.conn.Outbox.BeginAnswer(), 0, frame.ConnectionCloseOK))
		return adapters.ErrDone
	case frame.ConnectionCloseOK:
		return adapters.ErrDone
	}
	return nil
}

// Idle implements adapters.Protocol.
func (c *conn) Idle() {
	c.feeding.Store(false)
	c.tellConfirms(&c.batch)
	c.batch.Flush()
	// What a Done added while feeding was set.
	c.conn.Outbox.Flush()
}

// Shutdown implements adapters.Protocol.
func (c *conn) Shutdown() {
	c.refuse(&fault{code: frame.ConnectionForced, text: "broker forced connection closure with reason 'shutdown'"})
	c.blocked.noDisk()
}

// written is how much was sent, and whether that was all. Under the outbox's
// lock.
func (c *conn) written() (writes uint32, ended bool) { return c.writes, c.ended }

// Closed implements adapters.Protocol.
func (c *conn) Closed(err error) {
	c.beat.Stop(c.conn)
	c.conn.Wheel().Stop(&c.closing)
	reason := core.CloseLost
	switch {
	case err == nil:
		reason = core.CloseNormal
	case errors.Is(err, adapters.ErrKicked):
		reason = core.CloseShutdown
	}
	c.leave(reason)
	c.batch.Flush()
	if err != nil {
		c.log.Debug("connection ended", "remote", c.conn.RemoteAddr(), "error", err)
	}
}

// leave ends the session with all its channels.
func (c *conn) leave(reason core.CloseReason) {
	if c.session == nil || c.left {
		return
	}
	c.left = true
	c.stopAlarms()
	c.batch.Flush()
	c.session.Close(reason)
}

// kicked is called by the core, from another goroutine, when the session was
// ended by the broker.
func (c *conn) kicked(why core.EndReason) {
	f := &fault{code: frame.ConnectionForced, text: why.String()}
	c.refuse(f)
	c.conn.Kick(f)
}

// refuse sends connection.close; the first one counts, and nothing follows it.
// From any goroutine.
func (c *conn) refuse(f *fault) {
	buf := c.conn.Outbox.BeginAnswer()
	if c.ended || !c.greeted {
		c.conn.Outbox.Cancel()
		return
	}
	c.ended = true
	c.send(appendClose(buf, 0, frame.ConnectionClose, f))
}

// send is the end of an answer that may come from any goroutine: while the
// reader is at work it writes it out with its own.
func (c *conn) send(buf []byte) {
	c.writes++
	var b core.Batch
	c.conn.Outbox.End(&b, buf)
	if !c.feeding.Load() {
		c.conn.Outbox.Flush()
	}
}

// begin is the buffer for an answer on a channel; false, and nothing locked,
// when nothing may be sent there any more. send or Outbox.Cancel follows.
func (c *conn) begin(ch *channel) ([]byte, bool) {
	buf := c.conn.Outbox.BeginAnswer()
	if c.ended || ch != nil && ch.shut {
		c.conn.Outbox.Cancel()
		return nil, false
	}
	return buf, true
}

// reply writes a method with what fields appends.
func (c *conn) reply(ch *channel, m frame.Method, fields func([]byte) []byte) {
	buf, ok := c.begin(ch)
	if !ok {
		return
	}
	id := uint16(0)
	if ch != nil {
		id = ch.id
	}
	start := len(buf)
	buf = frame.Begin(buf, id, m)
	if fields != nil {
		buf = fields(buf)
	}
	c.send(frame.End(buf, start))
}

// resume tells all consumers that there is room; called by the outbox, from
// another goroutine.
func (c *conn) resume(b *core.Batch) {
	for _, s := range c.allConsumers() {
		s.queue.Resume(b)
	}
}

func (c *conn) allConsumers() []*consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*consumer
	for _, ch := range c.channels {
		for _, s := range ch.consumers {
			if s.queue != nil {
				all = append(all, s)
			}
		}
	}
	return all
}
