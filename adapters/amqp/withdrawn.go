package amqp

import (
	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// withdrawn is called by the core, from another goroutine, when rules that
// changed have ended something of the session. A binding has no consumer of its
// own: those of its queue end, so that the client looks what it still has.
func (c *conn) withdrawn(w core.Withdrawal) {
	for _, s := range c.consumersOf(w) {
		s.withdraw()
	}
}

// consumersOf are the consumers that a withdrawal is about.
func (c *conn) consumersOf(w core.Withdrawal) (all []*consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.channels {
		for _, s := range ch.consumers {
			if s.queue == w.Consumer || w.Binding != nil && s.key == w.Binding.Queue {
				all = append(all, s)
			}
		}
	}
	if s := c.attaching; s != nil && all == nil && (w.Consumer != nil || w.Binding != nil && s.key == w.Binding.Queue) {
		s.refused.Store(true)
	}
	return all
}

// withdraw ends a consumer whose client may not have it any more: by
// basic.cancel, or, for a client that does not know that, by the end of the
// channel.
func (s *consumer) withdraw() {
	ch := s.channel
	c := ch.conn
	if !ch.drop(s) {
		return
	}
	s.queue.Cancel(core.Requeue)
	if c.client.cancelNotify {
		s.sendCancel()
		return
	}
	f := c.faultOf(core.ErrNotAllowed, c.queueNoun(s.key.Name))
	f.method = frame.BasicConsume
	ch.refuse(f)
}

// sendCancel tells the client that a consumer has ended (RabbitMQ, consumer
// cancel notification).
func (s *consumer) sendCancel() {
	s.channel.conn.reply(s.channel, frame.BasicCancel, func(b []byte) []byte {
		return frame.AppendBit(frame.AppendShortText(b, s.tag), true)
	})
}
