package amqp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/routing"
)

// consumer receives what its queue holds and writes it to the client, or is
// what basic.get takes from.
type consumer struct {
	channel *channel
	tag     string
	key     core.QueueKey
	noAck   bool
	pull    bool
	head    []byte // a basic.deliver up to its delivery tag

	queue   core.Consumer
	gone    atomic.Bool // its queue was deleted
	refused atomic.Bool // rights were withdrawn before it was known

	// Under the channel's mu.
	prefetch int // 0: no limit
	out      int // deliveries that wait for their acknowledgement
}

// consumeMethod starts a consumer (AMQP 0-9-1, 1.8.3.3).
func (ch *channel) consumeMethod(r *frame.Reader) error {
	r.Short()
	name, tag, flags, args := string(r.ShortText()), string(r.ShortText()), r.Bits(), r.Table()
	if err := ended(r); err != nil {
		return err
	}
	noLocal, noAck, exclusive, noWait := flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	if noLocal {
		return refuse(frame.NotImplemented, "no-local=true")
	}
	if name == replyTo {
		return ch.consumeReplies(tag, noAck, exclusive, noWait)
	}
	name, err := ch.queueOr(name)
	if err != nil {
		return err
	}
	priority, err := consumeArgs(args)
	if err != nil {
		return err
	}
	s, err := ch.newConsumer(tag, name, noAck)
	if err != nil {
		return err
	}
	return ch.consume(s, core.ConsumeOptions{NoAck: noAck, Exclusive: exclusive, Priority: priority}, noWait)
}

// newConsumer gives a consumer its tag.
func (ch *channel) newConsumer(tag, queue string, noAck bool) (*consumer, error) {
	for tag == "" {
		ch.tags++
		if made := fmt.Sprintf("amq.ctag-%d.%d", ch.id, ch.tags); ch.tagged(made) == nil {
			tag = made
		}
	}
	switch {
	case ch.tagged(tag) != nil:
		return nil, refuse(frame.NotAllowed, "attempt to reuse consumer tag '%s'", tag)
	case ch.countConsumers() >= ch.conn.cfg.MaxConsumers:
		return nil, refuse(frame.ResourceError, "more than %d consumers on a channel", ch.conn.cfg.MaxConsumers)
	}
	s := &consumer{channel: ch, tag: tag, key: core.Named(queue), noAck: noAck, prefetch: ch.prefetch}
	s.head = frame.AppendShortText(frame.Begin(nil, ch.id, frame.BasicDeliver), tag)
	return s, nil
}

// tagged is the consumer of a tag, nil for none.
func (ch *channel) tagged(tag string) *consumer {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	return ch.consumers[tag]
}

func (ch *channel) countConsumers() int {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	return len(ch.consumers)
}

// consume attaches a consumer; the client is told before its first message.
func (ch *channel) consume(s *consumer, o core.ConsumeOptions, noWait bool) error {
	c := ch.conn
	o.Paused = true
	c.wait()
	c.attach(s)
	var err error
	if s.queue, err = c.session.Consume(context.Background(), s.key, o, s); err != nil {
		c.attach(nil)
		about := c.queueNoun(s.key.Name)
		if errors.Is(err, core.ErrInUse) {
			return refuse(frame.AccessRefused, "%v in exclusive use", about)
		}
		return c.faultOf(err, about)
	}
	c.mu.Lock()
	if ch.consumers == nil {
		ch.consumers = map[string]*consumer{}
	}
	ch.consumers[s.tag] = s
	c.attaching = nil
	c.mu.Unlock()
	if s.refused.Load() {
		defer s.withdraw()
	}
	if s.gone.Load() { // before it was known
		defer s.QueueGone()
	}
	if !noWait {
		c.reply(ch, frame.BasicConsumeOK, func(b []byte) []byte { return frame.AppendShortText(b, s.tag) })
	}
	s.queue.Resume(&c.batch)
	return nil
}

// attach says which consumer is about to be known; nil for none.
func (c *conn) attach(s *consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attaching = s
}

// consumeArgs reads x-priority; others mean nothing to the broker.
func consumeArgs(args routing.Headers) (priority int, err error) {
	v, ok := args.Get("x-priority")
	if !ok {
		return 0, nil
	}
	n, ok := whole(v)
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, refuse(frame.PreconditionFailed, "invalid arg 'x-priority': a whole number")
	}
	return int(n), nil
}

// whole is a whole number of any type.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// cancelMethod ends a consumer; what is out for acknowledgement stays out (AMQP
// 0-9-1, 1.8.3.5).
func (ch *channel) cancelMethod(r *frame.Reader) error {
	tag, noWait := string(r.ShortText()), r.Bits()&1 != 0
	if err := ended(r); err != nil {
		return err
	}
	if s := ch.tagged(tag); s != nil {
		ch.conn.wait()
		ch.cancel(s)
	}
	if !noWait {
		ch.conn.reply(ch, frame.BasicCancelOK, func(b []byte) []byte { return frame.AppendShortText(b, tag) })
	}
	return nil
}

// cancel ends a consumer and keeps what it holds. Its queue may go with it.
func (ch *channel) cancel(s *consumer) {
	ch.drop(s)
	s.queue.Cancel(core.Keep)
	if s == ch.reply {
		ch.reply = nil
		ch.endReply(s)
		return
	}
	ch.mu.Lock()
	holds := s.out > 0
	ch.mu.Unlock()
	if !holds {
		s.queue.Cancel(core.Requeue)
		return
	}
	ch.cancelled = append(ch.cancelled, s)
}

// drop takes a consumer out of the channel, and tells whether it was there.
func (ch *channel) drop(s *consumer) bool {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	known := ch.consumers[s.tag] == s
	if known {
		delete(ch.consumers, s.tag)
	}
	return known
}

// cancelAll ends all consumers and gives back what is out for acknowledgement.
func (ch *channel) cancelAll() {
	c := ch.conn
	c.mu.Lock()
	all := ch.cancelled
	for _, s := range ch.consumers {
		all = append(all, s)
	}
	for _, s := range ch.pulls {
		all = append(all, s)
	}
	ch.consumers, ch.pulls, ch.cancelled = nil, nil, nil
	c.mu.Unlock()
	c.wait()
	for _, s := range all {
		s.queue.Cancel(core.Requeue)
	}
	if s := ch.reply; s != nil {
		ch.reply = nil
		ch.endReply(s)
	}
	ch.mu.Lock()
	freed := ch.held.bytes
	ch.held = held{last: ch.held.last}
	ch.mu.Unlock()
	ch.free(freed, false)
}

// QueueGone implements core.QueueGone: the queue was deleted. The client is told
// if it can be (RabbitMQ, consumer cancel notification).
func (s *consumer) QueueGone() {
	ch := s.channel
	s.gone.Store(true)
	if !ch.drop(s) {
		return
	}
	s.queue.Cancel(core.Requeue)
	if ch.conn.client.cancelNotify {
		s.sendCancel()
	}
}

// qosMethod sets how many deliveries may be out for acknowledgement: for each
// consumer to come, or with global for the channel, as RabbitMQ reads it.
func (ch *channel) qosMethod(r *frame.Reader) error {
	size, count, global := r.Long(), int(r.Short()), r.Bits()&1 != 0
	if err := ended(r); err != nil {
		return err
	}
	if size != 0 {
		return refuse(frame.NotImplemented, "prefetch_size!=0 (%d)", size)
	}
	ch.conn.reply(ch, frame.BasicQosOK, nil)
	if !global {
		ch.prefetch = count
		return nil
	}
	ch.mu.Lock()
	ch.held.limit = count
	ch.mu.Unlock()
	ch.resume()
	return nil
}

// flowMethod: as RabbitMQ, the broker does not stop its deliveries by
// channel.flow (AMQP 0-9-1, 1.5.2.3); basic.qos bounds them.
func (ch *channel) flowMethod(r *frame.Reader) error {
	active := r.Bits()&1 != 0
	if err := ended(r); err != nil {
		return err
	}
	if !active {
		return refuse(frame.NotImplemented, "active=false")
	}
	ch.conn.reply(ch, frame.ChannelFlowOK, func(b []byte) []byte { return frame.AppendBit(b, true) })
	return nil
}

// resume tells all consumers of the channel that there may be room.
func (ch *channel) resume() {
	ch.conn.mu.Lock()
	all := make([]*consumer, 0, len(ch.consumers))
	for _, s := range ch.consumers {
		all = append(all, s)
	}
	ch.conn.mu.Unlock()
	for _, s := range all {
		s.queue.Resume(&ch.conn.batch)
	}
}
