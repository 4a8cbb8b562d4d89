package stomp

import (
	"context"

	"entrepot/core"
)

// subscribe attaches a receiver to a queue (STOMP 1.2, SUBSCRIBE).
func (c *conn) subscribe(f *frame) error {
	if !f.has.holds(destinationHeader) {
		return malformed("SUBSCRIBE needs a destination header")
	}
	p, err := parsePlace(f.text(destinationHeader))
	if err != nil {
		return err
	}
	s, err := c.newSubscription(f)
	if err != nil {
		return err
	}
	c.batch.Flush() // what follows may wait for the disk
	if s.source, err = c.sourceOf(f, p, s); err != nil {
		return err
	}
	c.dropImplicit(s)
	if err := c.attach(s); err != nil {
		if s.source.durable != "" {
			s.source.leave(false, core.CloseNormal)
		}
		return err
	}
	// Before the first message, as clients expect.
	c.acknowledge(f)
	s.consumer.Resume(&c.batch)
	return nil
}

// attach opens the source and begins to consume, without letting messages through yet.
func (c *conn) attach(s *subscription) error {
	if err := s.source.open(); err != nil {
		return err
	}
	c.setAttaching(true)
	var err error
	s.consumer, err = s.source.session.Consume(context.Background(), s.source.spec.Key, core.ConsumeOptions{
		NoAck: s.mode == autoAck, Priority: s.source.priority, Accepts: s.source.accepts, Paused: true}, s)
	if err != nil {
		c.setAttaching(false)
		s.source.close()
		return err
	}
	c.mu.Lock()
	if c.subs == nil {
		c.subs, c.numbers = map[string]*subscription{}, map[uint64]*subscription{}
	}
	c.subs[s.id], c.numbers[s.number] = s, s
	c.attaching = false
	c.mu.Unlock()
	return s.source.bind()
}

func (c *conn) setAttaching(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attaching = is
}

// detach takes a subscription out of the connection; nil when there is none.
func (c *conn) detach(id string) *subscription {
	c.mu.Lock()
	s := c.subs[id]
	if s != nil {
		s.gone = true
		delete(c.subs, id)
		delete(c.numbers, s.number)
	}
	c.mu.Unlock()
	if s != nil {
		s.consumer.Cancel(core.Requeue)
		c.free(s.forgetAll())
	}
	return s
}

// dropImplicit makes way for a SUBSCRIBE to a temporary queue that was subscribed to
// for a reply-to.
func (c *conn) dropImplicit(s *subscription) {
	c.mu.Lock()
	var old *subscription
	for _, o := range c.subs {
		if o.implicit && o.source.spec.Key == s.source.spec.Key {
			old = o
		}
	}
	c.mu.Unlock()
	if old != nil {
		c.detach(old.id)
	}
}

// unsubscribe (STOMP 1.2, UNSUBSCRIBE). Messages that are out for ACK go back. With
// durable:true a durable subscription ends, also one that is not attached.
func (c *conn) unsubscribe(f *frame) error {
	if !f.has.holds(idHeader) && (f.version >= v11 || !f.has.holds(destinationHeader)) {
		return malformed("UNSUBSCRIBE needs an id header")
	}
	c.batch.Flush() // what follows may wait for the disk
	s := c.detach(subscriptionID(f))
	switch {
	case s != nil && s.source.durable != "":
		s.source.leave(f.isTrue(durableHeader), core.CloseNormal)
	case s != nil:
		s.source.close()
	case f.isTrue(durableHeader):
		if err := c.endDurable(f); err != nil {
			return err
		}
	default:
		return bad("no such subscription")
	}
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

// leaveDurables lets go of the durable subscriptions when the connection ends.
func (c *conn) leaveDurables(reason core.CloseReason) {
	c.mu.Lock()
	var durable []*subscription
	for _, s := range c.subs {
		s.gone = true
		if s.source.durable != "" {
			durable = append(durable, s)
		}
	}
	c.mu.Unlock()
	for _, s := range durable {
		s.source.leave(false, reason)
	}
}
