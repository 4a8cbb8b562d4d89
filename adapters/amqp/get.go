package amqp

import (
	"context"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// maxPulls is how many queues a channel keeps open for basic.get; those that
// hold something are kept beside.
const maxPulls = 64

// getMethod takes one message (AMQP 0-9-1, 1.8.3.10).
func (ch *channel) getMethod(r *frame.Reader) error {
	r.Short()
	name, noAck := string(r.ShortText()), r.Bits()&1 != 0
	if err := ended(r); err != nil {
		return err
	}
	name, err := ch.queueOr(name)
	if err != nil {
		return err
	}
	if c := ch.conn; !noAck && c.unacked.Full() {
		return refuse(frame.PreconditionFailed, "%d bytes are out for acknowledgement", c.unacked.Bytes())
	}
	s, d, ok, err := ch.pull(name, noAck)
	if err != nil {
		return ch.conn.faultOf(err, ch.conn.queueNoun(name))
	}
	if !ok {
		ch.conn.reply(ch, frame.BasicGetEmpty, func(b []byte) []byte { return frame.AppendShortText(b, "") })
		return nil
	}
	ch.sendGot(s, d)
	return nil
}

// pull takes the next message of a queue.
func (ch *channel) pull(queue string, noAck bool) (s *consumer, d core.Delivery, ok bool, err error) {
	c := ch.conn
	c.wait()
	c.conn.AwaitRoom()
	id := queue
	if noAck {
		id = "\x00" + queue
	}
	s = ch.pulls[id]
	if s != nil {
		if d, ok = s.queue.Get(); ok {
			return s, d, true, nil
		}
		// Empty, or gone and perhaps declared anew.
		ch.endPull(id, s)
	}
	s = &consumer{channel: ch, noAck: noAck, pull: true}
	s.queue, err = c.session.Consume(context.Background(), core.Named(queue), core.ConsumeOptions{Pull: true, NoAck: noAck}, s)
	if err != nil {
		return nil, d, false, err
	}
	ch.keepPull(id, s)
	d, ok = s.queue.Get()
	return s, d, ok, nil
}

// keepPull makes room among the open ones.
func (ch *channel) keepPull(id string, s *consumer) {
	if ch.pulls == nil {
		ch.pulls = map[string]*consumer{}
	}
	for old, o := range ch.pulls {
		if len(ch.pulls) < maxPulls {
			break
		}
		ch.endPull(old, o)
	}
	ch.pulls[id] = s
}

// endPull lets go of one; it stays as long as something of it is out.
func (ch *channel) endPull(id string, s *consumer) {
	delete(ch.pulls, id)
	ch.mu.Lock()
	holds := s.out > 0
	ch.mu.Unlock()
	if holds {
		ch.cancelled = append(ch.cancelled, s)
		return
	}
	s.queue.Cancel(core.Requeue)
}

// sendGot writes basic.get-ok and its content.
func (ch *channel) sendGot(s *consumer, d core.Delivery) {
	c := ch.conn
	buf, ok := c.begin(ch)
	if !ok {
		return // what it holds goes back with the channel
	}
	ch.mu.Lock()
	ch.held.last++
	tag := ch.held.last
	if !s.noAck {
		c.unacked.Add(ch.held.add(s, d))
	}
	ch.mu.Unlock()
	at := c.printed.find(d.Address())
	start := len(buf)
	buf = frame.AppendLongLong(frame.Begin(buf, ch.id, frame.BasicGetOK), tag)
	buf = append(frame.AppendBit(buf, d.Attempts > 0), at.wire...)
	buf = frame.End(frame.AppendLong(buf, uint32(d.Left)), start)
	c.session.Traffic.CountOut(len(d.Payload))
	c.send(c.appendContent(buf, ch.id, d.Message, at.long))
}
