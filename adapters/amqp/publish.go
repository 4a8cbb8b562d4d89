package amqp

import (
	"errors"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// contentState is what a channel's open content waits for.
type contentState uint8

const (
	noContent contentState = iota
	awaitsContentHeader
	awaitsBody
)

// content is a basic.publish of which not all has come.
type content struct {
	state     contentState
	to        *target
	mandatory bool
	size      int
	guarantee core.Guarantee
	transient bool
	props     *core.Properties
	asked     asked
	body      []byte
}

// publishMethod begins a message (AMQP 0-9-1, 1.8.3.7).
func (ch *channel) publishMethod(r *frame.Reader) error {
	c := ch.conn
	r.Short()
	text := r.Left()
	exchange, key := r.ShortText(), r.ShortText()
	text = text[:len(text)-len(r.Left())]
	flags := r.Bits()
	if err := ended(r); err != nil {
		return err
	}
	if flags&2 != 0 {
		return refuse(frame.NotImplemented, "immediate=true")
	}
	c.publishes()
	in := &ch.content
	in.state, in.to, in.mandatory = awaitsContentHeader, c.targets.find(text, exchange, key), flags&1 != 0
	return nil
}

// contentFrame takes a content header or a part of a body (AMQP 0-9-1, 4.2.6).
func (c *conn) contentFrame(f frame.Frame) error {
	ch := c.last
	if ch == nil || ch.id != f.Channel {
		ch = c.channels[f.Channel]
		c.last = ch
	}
	switch {
	case ch == nil:
		return refuse(frame.ChannelError, "content on channel %d, which is not open", f.Channel)
	case ch.closed || ch.failed.Load() != nil:
		return nil
	}
	switch in := &ch.content; {
	case f.Kind == frame.HeaderKind && in.state == awaitsContentHeader:
		c.method = frame.BasicPublish
		return ch.headerFrame(f.Payload)
	case f.Kind == frame.BodyKind && in.state == awaitsBody:
		c.method = frame.BasicPublish
		return ch.bodyFrame(f.Payload)
	case in.state == noContent:
		return refuse(frame.UnexpectedFrame, "expected method frame, got content frame instead")
	case in.state == awaitsBody:
		return refuse(frame.UnexpectedFrame, "expected content body, got content header frame instead")
	}
	return refuse(frame.UnexpectedFrame, "expected content header for class 60, got content body frame instead")
}

// headerFrame reads what precedes a body.
func (ch *channel) headerFrame(payload []byte) error {
	r := frame.NewReader(payload)
	h := frame.ReadContentHeader(&r)
	in := &ch.content
	switch {
	case r.Failed():
		return ended(&r)
	case h.Class != frame.BasicClass:
		return refuse(frame.UnexpectedFrame, "expected content header for class 60, got one for class %d instead", h.Class)
	}
	in.guarantee, in.transient, in.props = core.AtLeastOnce, false, nil
	if h.Flags != 0 {
		in.asked = asked{}
		if err := readProperties(&r, h.Flags, in); err != nil {
			return err
		}
	}
	if err := ended(&r); err != nil {
		return err
	}
	if h.Size > uint64(ch.conn.bodyMax) {
		return refuse(frame.PreconditionFailed, "message size %d is larger than configured max size %d", h.Size, ch.conn.bodyMax)
	}
	in.size, in.state = int(h.Size), awaitsBody
	if in.size == 0 {
		return ch.complete(nil)
	}
	return nil
}

// smallPart is less than any client sends of a body that has not come to its end.
const smallPart = 64

// bodyFrame takes the next part of a body. Room is made for what has come, not
// for what the header claims.
func (ch *channel) bodyFrame(part []byte) error {
	in, c := &ch.content, ch.conn
	have := len(in.body)
	switch {
	case have+len(part) > in.size:
		return broken(frame.FrameError, "content of %d bytes, announced were %d", have+len(part), in.size)
	case have == 0 && len(part) == in.size:
		return ch.complete(part)
	}
	if c.partial += len(part); c.partial > c.cfg.PartialBytes {
		return refuse(frame.ResourceError, "more than %d bytes of bodies that have not all come", c.cfg.PartialBytes)
	}
	in.body = append(in.body, part...)
	if len(in.body) < in.size {
		if len(part) < smallPart {
			c.conn.Chore()
		}
		return nil
	}
	c.partial -= in.size
	return ch.complete(nil)
}

// complete makes a message of all that has come; part is its body when that
// came at once, and belongs to the reader.
func (ch *channel) complete(part []byte) error {
	in := &ch.content
	m := core.NewMessage(len(part))
	copy(m.Payload, part)
	if in.body != nil {
		m.Payload = in.body
		in.body = nil
	}
	m.Guarantee, m.Transient = in.guarantee, in.transient
	m.Exchange, m.Topic = in.to.address.Exchange, in.to.address.Topic
	if in.props != nil {
		m.Props, in.props = in.props, nil
	}
	in.state = noContent
	if in.to.err != nil {
		return in.to.err
	}
	if m.Props != nil {
		if err := ch.checkProperties(m, in); err != nil {
			return err
		}
	}
	err := ch.publish(m, in)
	if ch.failed.Load() != nil && !ch.closed {
		ch.stop()
	}
	return err
}

// largeReturn is a body that may fill the outbox when it comes back.
const largeReturn = 64 << 10

// publish sends a whole message on its way.
func (ch *channel) publish(m *core.Message, in *content) error {
	done := ch.sent
	switch {
	case ch.transaction != nil:
		return ch.enqueue(m, in)
	case in.mandatory:
		if len(m.Payload) > largeReturn {
			ch.conn.wait()
			ch.conn.conn.AwaitRoom()
		}
		done = ch.returns.take(ch, m, in.to)
	case ch.confirming:
		done = ch.confirmed
	}
	if ch.conn.blocked.disk.Load() && !ch.confirming && (m.Guarantee == core.Durable || m.Retain && len(m.Payload) > 0) {
		ch.conn.awaitDisk()
	}
	ch.conn.session.Publish(ch.lane, m, done)
	return nil
}

// onSent ends a publish that nobody waits for.
func (ch *channel) onSent(routed bool, err error) {
	switch {
	case err != nil:
		ch.lost(err)
	case !routed:
		ch.conn.session.Drops().Add(core.DropUnroutable, 1)
	}
}

// lost is a publish that was refused without a confirm to say so. What only
// found no room is dropped, as RabbitMQ does; for the rest the channel closes.
func (ch *channel) lost(err error) {
	if errors.Is(err, core.ErrFull) || errors.Is(err, core.ErrClosed) {
		ch.conn.session.Drops().Add(core.DropOverflow, 1)
		return
	}
	ch.refuse(ch.publishFault(err))
}

// publishFault is what the client is told of a publish that was refused. From
// any goroutine: the exchange is what the refusal names.
func (ch *channel) publishFault(err error) *fault {
	x, of := errors.AsType[*core.ExchangeError](err)
	about := ch.conn.exchangeNoun("")
	if of {
		about = ch.conn.exchangeNoun(x.Exchange)
	}
	f := ch.conn.faultOf(err, about)
	switch {
	case of && x.Internal:
		f.text = "cannot publish to internal " + about.String()
	case errors.Is(err, core.ErrNotAllowed):
		f.text = "publish refused for user '" + ch.conn.login.user() + "': " + err.Error()
	}
	f.method = frame.BasicPublish
	return f
}
