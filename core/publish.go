package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"entrepot/routing"
)

// Publish sends m on its way; l may be nil. done, which may be nil, is called
// as its type says; a refusal without done is counted as a drop. m and its
// payload must not change afterwards. Refusals:
// ErrNotAllowed, ErrTooLarge, ErrInvalid, ErrFull (a queue that rejects, the
// limit of retained messages), ErrNotFound (no such exchange), ErrClosed.
func (s *Session) Publish(l *Lane, m *Message, done Done) {
	if l == nil {
		l = &Lane{Batch: &Batch{}}
		defer l.Batch.Flush()
	}
	done = l.begin(done)
	s.Traffic.In.Add(1)
	s.Traffic.InBytes.Add(uint64(len(m.Payload)))
	if err := s.admit(m); err != nil {
		s.refuse(done, err)
		return
	}
	s.broker.publish(l.Batch, m, done)
}

// Apply does all of ops or none: transactions, ack with publish. Refusals as
// of Publish, and ErrNotFound for a delivery that is not held.
func (s *Session) Apply(l *Lane, ops []Op, done Done) {
	if l == nil {
		l = &Lane{Batch: &Batch{}}
		defer l.Batch.Flush()
	}
	done = l.begin(done)
	own := make([]Op, len(ops))
	for i, op := range ops {
		if h, ok := op.Consumer.(*heldConsumer); ok {
			op.Consumer = h.Consumer
		}
		own[i] = op
		if op.Message == nil {
			continue
		}
		s.Traffic.In.Add(1)
		s.Traffic.InBytes.Add(uint64(len(op.Message.Payload)))
		if err := s.admit(op.Message); err != nil {
			finish(done, false, err)
			return
		}
		if op.Message.Retain {
			finish(done, false, fmt.Errorf("retained message in a transaction: %w", ErrUnsupported))
			return
		}
	}
	s.broker.engine.Apply(l.Batch, own, done)
}

// refuse tells the publisher, or counts where nobody asked to be told.
func (s *Session) refuse(done Done, err error) {
	if done != nil {
		done(false, err)
		return
	}
	reason := DropNotAllowed
	if errors.Is(err, ErrTooLarge) {
		reason = DropTooLarge
	}
	s.drops.Add(reason, 1)
}

func finish(done Done, routed bool, err error) {
	if done != nil {
		done(routed, err)
	}
}

// admit checks rights and form, and stamps what the broker writes.
func (s *Session) admit(m *Message) error {
	if m.Topic.IsZero() {
		return invalid("message without a topic")
	}
	if err := s.allowPublish(m.address()); err != nil {
		return err
	}
	if len(m.Payload) > s.broker.cfg.MaxMessage {
		return fmt.Errorf("message of %d bytes, limit %d: %w", len(m.Payload), s.broker.cfg.MaxMessage, ErrTooLarge)
	}
	if m.Exchange == TopicExchange && m.Topic.Dollar() {
		return fmt.Errorf("topic %q: %w: topics that start with $ are the broker's own", m.Topic, ErrNotAllowed)
	}
	if m.Retain && m.Exchange != TopicExchange {
		return fmt.Errorf("retain outside of topics: %w", ErrUnsupported)
	}
	m.Origin = s.origin
	if m.Props != nil {
		stamp(m.Props)
	}
	return nil
}

// stamp starts the message's clock and removes what only the broker writes.
func stamp(p *Properties) {
	if p.HasTTL {
		p.Expires = time.Now().Add(p.TTL)
	}
	for i, h := range p.Headers {
		if brokerHeader(h.Name) {
			p.Headers = withoutBrokerHeaders(p.Headers, i)
			return
		}
	}
}

// brokerHeader tells the names that clients cannot set.
func brokerHeader(name string) bool {
	if len(name) < 6 || !strings.EqualFold(name[:2], "x-") {
		return false
	}
	switch strings.ToLower(name) {
	case "x-death", "x-origin", "x-user", "x-topic", "x-error":
		return true
	}
	return strings.HasPrefix(strings.ToLower(name), "x-first-death-")
}

func withoutBrokerHeaders(hs routing.Headers, from int) routing.Headers {
	kept := append(routing.Headers{}, hs[:from]...)
	for _, h := range hs[from:] {
		if !brokerHeader(h.Name) {
			kept = append(kept, h)
		}
	}
	return kept
}

// publish routes a message that was admitted, or is the broker's own.
func (b *Broker) publish(batch *Batch, m *Message, done Done) {
	if !m.Retain {
		b.engine.Publish(batch, m, done)
		return
	}
	err := b.retained.publish(m, func() { b.engine.Publish(batch, m, done) })
	if err != nil {
		finish(done, false, err)
	}
}

// PublishOwn publishes a message of the broker itself (its figures under
// $SYS, for one), which no policy is asked about.
func (b *Broker) PublishOwn(m *Message) {
	batch := &Batch{}
	b.publish(batch, m, nil)
	batch.Flush()
}
