package stomp

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"entrepot/core"
	"entrepot/routing"
)

// ackMode is how a subscription's messages are settled (STOMP 1.2, SUBSCRIBE ack
// Header).
type ackMode uint8

const (
	autoAck   ackMode = iota // by handing them over
	clientAck                // by ACK, which counts for all earlier ones too
	eachAck                  // by ACK, one by one
)

// subscription receives what its queue holds and writes it to the client.
type subscription struct {
	conn     *conn
	id       string // as the client wrote it; the destination's text in 1.0 without id
	number   uint64
	mode     ackMode
	prefetch int

	queue    core.QueueKey
	owned    bool // its queue ends with it
	consumer core.Consumer
	gone     bool // unsubscribed; under conn.mu

	// Read by Deliver.
	head    []byte // a MESSAGE up to its message-id's last part
	ackHead []byte // the ack header likewise; nil where there is none
	fixed   []byte // destination header; nil: the message's own
	last    core.Address
	lastTo  []byte
	known   map[core.Address][]byte
	next    uint64 // number of the next delivery

	mu   sync.Mutex
	held held
}

// subscribe attaches a receiver to a queue (STOMP 1.2, SUBSCRIBE).
func (c *conn) subscribe(f *frame) error {
	s, p, err := c.newSubscription(f)
	if err != nil {
		return err
	}
	if err := c.openQueue(s, p); err != nil {
		return err
	}
	ctx := context.Background()
	s.consumer, err = c.session.Consume(ctx, s.queue,
		core.ConsumeOptions{NoAck: s.mode == autoAck, Paused: true}, s)
	if err != nil {
		c.closeQueue(s)
		return err
	}
	c.mu.Lock()
	if c.subs == nil {
		c.subs, c.numbers = map[string]*subscription{}, map[uint64]*subscription{}
	}
	c.subs[s.id], c.numbers[s.number] = s, s
	c.mu.Unlock()
	if err := c.bindTopic(s, p); err != nil {
		return err
	}
	// Before the first message, as clients expect.
	c.acknowledge(f)
	s.consumer.Resume(&c.batch)
	return nil
}

// newSubscription reads the frame.
func (c *conn) newSubscription(f *frame) (*subscription, place, error) {
	if !f.has.holds(destinationHeader) {
		return nil, place{}, malformed("SUBSCRIBE needs a destination header")
	}
	if !f.has.holds(idHeader) && f.version >= v11 {
		return nil, place{}, malformed("SUBSCRIBE needs an id header")
	}
	p, err := parsePlace(f.text(destinationHeader))
	if err != nil {
		return nil, place{}, err
	}
	s := &subscription{conn: c, id: subscriptionID(f)}
	if s.mode, err = ackModeOf(f); err != nil {
		return nil, place{}, err
	}
	if s.prefetch, err = c.prefetchOf(f); err != nil {
		return nil, place{}, err
	}
	c.mu.Lock()
	_, taken := c.subs[s.id]
	open := len(c.subs)
	c.mu.Unlock()
	if taken {
		return nil, place{}, bad("there is a subscription with that id already")
	}
	if open >= c.cfg.MaxSubscriptions {
		return nil, place{}, bad("more than %d subscriptions", c.cfg.MaxSubscriptions)
	}
	c.lastNumber++
	s.number = c.lastNumber
	s.writeHead(f)
	return s, p, nil
}

// subscriptionID is what names a subscription in later frames, as it is written there.
func subscriptionID(f *frame) string {
	if f.has.holds(idHeader) {
		return string(f.value(idHeader))
	}
	return "\n" + string(f.value(destinationHeader)) // no id can hold a line end
}

// writeHead prepares what all messages of the subscription begin with.
func (s *subscription) writeHead(f *frame) {
	s.head = append(s.head, "MESSAGE"...)
	if f.has.holds(idHeader) {
		s.head = append(append(s.head, "\nsubscription:"...), f.value(idHeader)...)
	}
	name := strconv.AppendUint(nil, uint64(s.conn.session.ID()), 10)
	name = strconv.AppendUint(append(name, '-'), s.number, 10)
	name = append(name, '-')
	s.head = append(append(s.head, "\nmessage-id:"...), name...)
	if s.mode != autoAck && f.version == v12 {
		s.ackHead = append([]byte("\nack:"), name...)
	}
}

func ackModeOf(f *frame) (ackMode, error) {
	switch v := f.value(ackHeader); string(v) {
	case "", "auto":
		return autoAck, nil
	case "client":
		return clientAck, nil
	case "client-individual":
		return eachAck, nil
	default:
		return 0, malformed("ack must be auto, client or client-individual: %.40q", v)
	}
}

// prefetchOf reads how many messages may be out for ACK, in RabbitMQ's name or
// ActiveMQ's.
func (c *conn) prefetchOf(f *frame) (int, error) {
	for _, id := range [...]headerID{prefetchCountHeader, xPrefetchHeader, amqPrefetchHeader} {
		if !f.has.holds(id) {
			continue
		}
		n, ok := decimal(f.value(id))
		if !ok {
			return 0, malformed("prefetch-count is not a number: %.40q", f.value(id))
		}
		return n, nil
	}
	return c.cfg.Prefetch, nil
}

// openQueue finds or makes the queue behind a destination.
func (c *conn) openQueue(s *subscription, p place) error {
	ctx := context.Background()
	switch p.kind {
	case queuePlace, amqQueuePlace, replyQueuePlace:
		s.queue = core.Named(p.name)
		s.fixed = s.conn.destinationHeader(prefixes[p.kind] + encodeName(p.name))
		passive := p.kind != queuePlace || privateName(p.name)
		_, err := c.session.DeclareQueue(ctx, core.QueueSpec{Key: s.queue, Durable: !passive, Passive: passive})
		if errors.Is(err, core.ErrConflict) {
			_, err = c.session.DeclareQueue(ctx, core.QueueSpec{Key: s.queue, Passive: true})
		}
		return err
	default:
		s.queue, s.owned = core.Key(core.TopicQueue, strconv.FormatUint(uint64(c.session.ID()), 10),
			strconv.FormatUint(s.number, 10)), true
		_, err := c.session.DeclareQueue(ctx, core.QueueSpec{Key: s.queue, Exclusive: true, Args: core.QueueArgs{
			MaxLength: c.cfg.SubscriptionLength, HasMaxLength: true,
			MaxBytes: c.cfg.SubscriptionBytes, HasMaxBytes: true, Overflow: core.DropHead}})
		return err
	}
}

// bindTopic lets messages in; retained ones come first.
func (c *conn) bindTopic(s *subscription, p place) error {
	b := core.BindSpec{Queue: s.queue, Replay: core.ReplayAlways}
	var err error
	switch p.kind {
	case topicPlace:
		b.Source = core.TopicExchange
		b.Filter, err = c.server.names.filter(p.key)
	case exchangePlace:
		b.Source = p.name
		b.Filter, err = routing.Dotted.ParseFilter(p.key)
	default:
		return nil
	}
	if err != nil {
		return badName(err)
	}
	return c.session.Bind(context.Background(), b)
}

// closeQueue deletes the queue of a subscription that ended.
func (c *conn) closeQueue(s *subscription) {
	if s.owned {
		// Gone already is as good.
		_, _ = c.session.DeleteQueue(context.Background(), s.queue, core.DeleteOptions{})
	}
}

// unsubscribe (STOMP 1.2, UNSUBSCRIBE). Messages that are out for ACK go back.
func (c *conn) unsubscribe(f *frame) error {
	if !f.has.holds(idHeader) && (f.version >= v11 || !f.has.holds(destinationHeader)) {
		return malformed("UNSUBSCRIBE needs an id header")
	}
	id := subscriptionID(f)
	c.mu.Lock()
	s := c.subs[id]
	if s != nil {
		s.gone = true
		delete(c.subs, id)
		delete(c.numbers, s.number)
	}
	c.mu.Unlock()
	if s == nil {
		return bad("no such subscription")
	}
	s.consumer.Cancel(core.Requeue)
	c.closeQueue(s)
	c.acknowledge(f)
	return nil
}

// resume tells all consumers that there is room; called by the outbox, from another
// goroutine.
func (c *conn) resume(b *core.Batch) {
	c.mu.Lock()
	open := make([]core.Consumer, 0, len(c.subs))
	for _, s := range c.subs {
		open = append(open, s.consumer)
	}
	c.mu.Unlock()
	for _, s := range open {
		s.Resume(b)
	}
}

// QueueGone implements core.QueueGone: the queue was deleted by somebody else.
func (s *subscription) QueueGone() {
	s.conn.mu.Lock()
	gone := s.gone
	s.conn.mu.Unlock()
	if !gone {
		s.conn.fail(&fault{message: "subscription ended", detail: s.queue.String() + " was deleted"}, nil)
	}
}
