package amqp

import (
	"sync"
	"sync/atomic"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// channel is one channel of a connection. Its fields are the reader's own
// unless said otherwise.
type channel struct {
	conn *conn
	id   uint16
	lane *core.Lane
	// closed: its channel.close was sent and is not answered yet.
	closed bool

	content     content
	sent        core.Done // onSent, bound once
	confirmed   core.Done // onConfirmed, bound once
	returns     returns
	confirming  bool
	confirm     confirm
	transaction *transaction // nil until tx.select
	lastQueue   string       // most recently declared
	prefetch    int          // of consumers to come; 0 is no limit
	pulls       map[string]*consumer
	cancelled   []*consumer // that still hold something
	reply       *consumer   // of the direct reply-to
	tags        uint64      // for consumers that the client did not name

	// failed is a fault of a frame whose handler had returned. Set by anybody,
	// once; the client is told by then.
	failed atomic.Pointer[fault]

	consumers map[string]*consumer // by tag; under conn.mu

	// Under the outbox's lock.
	shut bool // channel.close was sent: nothing may follow on it

	mu   sync.Mutex // taken under the outbox's lock: nothing is taken under it
	held held
}

// channelMethod does a method on a channel.
func (c *conn) channelMethod(f frame.Frame) error {
	r := frame.NewReader(f.Payload)
	c.method = r.Method()
	ch := c.last
	if ch == nil || ch.id != f.Channel {
		ch = c.channels[f.Channel]
		c.last = ch
	}
	switch {
	case ch == nil:
		return c.openChannel(f.Channel, &r)
	case ch.failed.Load() != nil && !ch.closed:
		ch.stop()
	}
	if ch.closed {
		return ch.passOver(&r)
	}
	if ch.content.state != noContent {
		return refuse(frame.UnexpectedFrame, "expected content header or body for class 60, got %v instead", c.method)
	}
	err := ch.do(&r)
	if ch.failed.Load() != nil && !ch.closed {
		ch.stop()
	}
	return err
}

// do does a method by its class.
func (ch *channel) do(r *frame.Reader) error {
	switch m := ch.conn.method; m.Class() {
	case frame.BasicClass:
		return ch.basicMethod(m, r)
	case frame.ChannelClass:
		return ch.ownMethod(m, r)
	case frame.QueueDeclare.Class():
		return ch.queueMethod(m, r)
	case frame.ExchangeDeclare.Class():
		return ch.exchangeMethod(m, r)
	case frame.TxSelect.Class(), frame.ConfirmSelect.Class():
		return ch.modeMethod(m, r)
	default:
		return ch.unknown()
	}
}

// unknown refuses a method that is none, or that clients do not call.
func (ch *channel) unknown() error {
	m := ch.conn.method
	if m.Known() {
		return refuse(frame.CommandInvalid, "%v is not expected here", m)
	}
	return refuse(frame.CommandInvalid, "unknown %v", m)
}

func (ch *channel) basicMethod(m frame.Method, r *frame.Reader) error {
	switch m {
	case frame.BasicPublish:
		return ch.publishMethod(r)
	case frame.BasicAck:
		return ch.ackMethod(r)
	case frame.BasicNack:
		return ch.nackMethod(r)
	case frame.BasicReject:
		return ch.rejectMethod(r)
	case frame.BasicConsume:
		return ch.consumeMethod(r)
	case frame.BasicCancel:
		return ch.cancelMethod(r)
	case frame.BasicCancelOK: // to a cancel of ours; nothing to do
		return nil
	case frame.BasicGet:
		return ch.getMethod(r)
	case frame.BasicQos:
		return ch.qosMethod(r)
	case frame.BasicRecover, frame.BasicRecoverAsync:
		return ch.recoverMethod(r)
	}
	return ch.unknown()
}

// ownMethod does the methods of class channel.
func (ch *channel) ownMethod(m frame.Method, r *frame.Reader) error {
	switch m {
	case frame.ChannelOpen:
		return refuse(frame.ChannelError, "second 'channel.open' seen")
	case frame.ChannelFlow:
		return ch.flowMethod(r)
	case frame.ChannelFlowOK, frame.ChannelCloseOK: // to nothing that we sent
		return nil
	case frame.ChannelClose:
		r.Short()
		r.ShortText()
		r.Long()
		if err := ended(r); err != nil {
			return err
		}
		ch.leave()
		return nil
	}
	return ch.unknown()
}

// ended is the fault of fields that did not fit.
func ended(r *frame.Reader) error {
	if err := r.End(); err != nil {
		return broken(frame.FrameError, "%v", err)
	}
	return nil
}

// openChannel does the first method on a channel, which must be channel.open.
func (c *conn) openChannel(id uint16, r *frame.Reader) error {
	if c.method != frame.ChannelOpen {
		if c.method == frame.ChannelCloseOK || c.method == frame.ChannelClose {
			return nil // crossed with ours
		}
		return refuse(frame.ChannelError, "expected 'channel.open'")
	}
	r.ShortText()
	if err := ended(r); err != nil {
		return err
	}
	if id > c.channelMax {
		return refuse(frame.NotAllowed, "channel %d is higher than the negotiated channel_max (%d)", id, c.channelMax)
	}
	ch := &channel{conn: c, id: id, lane: core.NewLane(&c.batch)}
	ch.sent, ch.confirmed = ch.onSent, ch.onConfirmed
	c.mu.Lock()
	c.channels[id] = ch
	c.mu.Unlock()
	c.last = ch
	c.reply(ch, frame.ChannelOpenOK, func(b []byte) []byte { return frame.AppendLong(b, 0) })
	return nil
}

// passOver waits for channel.close-ok (AMQP 0-9-1, 1.5.2.5); a client that
// closes the channel too is answered.
func (ch *channel) passOver(r *frame.Reader) error {
	c := ch.conn
	switch c.method {
	case frame.ChannelClose:
		ch.forget()
		buf, ok := c.begin(nil)
		if ok {
			c.send(frame.AppendEmpty(buf, ch.id, frame.ChannelCloseOK))
		}
	case frame.ChannelCloseOK:
		if err := ended(r); err != nil {
			return err
		}
		ch.forget()
	}
	return nil
}

// fail closes the channel with a fault of the frame at hand.
func (ch *channel) fail(f *fault) {
	ch.refuse(f)
	ch.stop()
}

// refuse sends channel.close; the first one counts. From any goroutine: the
// reader stops the channel later.
func (ch *channel) refuse(f *fault) {
	if f.method == 0 {
		f.method = frame.BasicPublish
	}
	if !ch.failed.CompareAndSwap(nil, f) {
		return
	}
	buf, ok := ch.conn.begin(ch)
	if !ok {
		return
	}
	ch.shut = true
	ch.conn.send(appendClose(buf, ch.id, frame.ChannelClose, f))
}

// stop gives back what the channel has, once.
func (ch *channel) stop() {
	ch.closed = true
	ch.conn.partial -= len(ch.content.body)
	ch.content = content{}
	ch.transaction = nil
	ch.cancelAll()
}

// leave does channel.close from the client.
func (ch *channel) leave() {
	c := ch.conn
	c.tellConfirms(&c.batch)
	ch.stop()
	ch.forget()
	buf, ok := c.begin(ch)
	if ok {
		ch.shut = true
		c.send(frame.AppendEmpty(buf, ch.id, frame.ChannelCloseOK))
	}
}

// forget makes the number free.
func (ch *channel) forget() {
	c := ch.conn
	c.mu.Lock()
	delete(c.channels, ch.id)
	c.mu.Unlock()
	if c.last == ch {
		c.last = nil
	}
}

// wait is called before what may wait for the disk: others' bytes are in the
// batch.
func (c *conn) wait() { c.batch.Flush() }
