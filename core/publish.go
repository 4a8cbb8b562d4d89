package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"entrepot/routing"
)

// Publish sends m on its way; l may be nil. done, which may be nil, is called
// as its type says; without done a refusal is counted as a drop, and so is a
// message that nobody gets. m and its payload must not change afterwards.
// Refusals: ErrNotAllowed, ErrTooLarge, ErrInvalid, ErrFull (a queue that
// rejects, the limit of retained messages), ErrNotFound (no such exchange),
// ErrUnsupported (retain outside of topics), ErrClosed.
func (s *Session) Publish(l *Lane, m *Message, done Done) { s.publish(l, m, nil, done) }

// publish is Publish with notes beside the message.
func (s *Session) publish(l *Lane, m *Message, notes []Op, done Done) {
	if l == nil {
		l = &Lane{Batch: &Batch{}}
		defer l.Batch.Flush()
	}
	if done = s.place(l, done); done == nil {
		done = s.unheard.get(m.Retain)
	}
	s.Traffic.In.Add(1)
	s.Traffic.InBytes.Add(uint64(len(m.Payload)))
	if m.special() {
		s.publishSpecial(l.Batch, m, done)
		return
	}
	if err := s.admit(m); err != nil {
		done(false, err)
		return
	}
	s.broker.publish(l.Batch, m, notes, done)
}

// place is the lane's place for done, nil for none.
func (s *Session) place(l *Lane, done Done) Done {
	if done == nil {
		return nil
	}
	return l.begin(done)
}

// Apply does all of ops or none: transactions, ack with publish. Refusals as
// of Publish, and ErrNotFound for a delivery that is not held, unless its queue
// was deleted: that is settled already. ErrInvalid for a consumer of another
// session, ErrUnsupported for a retained message. Calls and answers among them
// are made when all else is done.
func (s *Session) Apply(l *Lane, ops []Op, done Done) {
	if l == nil {
		l = &Lane{Batch: &Batch{}}
		defer l.Batch.Flush()
	}
	if done = s.place(l, done); done == nil {
		done = s.unheard.get(false)
	}
	ops, calls := specials(ops)
	own, err := s.admitOps(ops)
	for _, m := range calls {
		err = cmp.Or(err, m.atOnce())
	}
	if err != nil {
		done(false, err)
		return
	}
	if len(calls) > 0 {
		done = s.andCalls(calls, done)
	}
	s.broker.engine.Apply(l.Batch, own, done)
}

// specials takes out the messages that are calls or answers.
func specials(ops []Op) (rest []Op, calls []*Message) {
	is := func(op Op) bool { return op.Message != nil && op.Message.special() }
	if !slices.ContainsFunc(ops, is) {
		return ops, nil
	}
	for _, op := range ops {
		if is(op) {
			calls = append(calls, op.Message)
		} else {
			rest = append(rest, op)
		}
	}
	return rest, calls
}

// andCalls is a Done that makes calls before it calls done, with what the first
// that failed came to.
func (s *Session) andCalls(calls []*Message, done Done) Done {
	return func(routed bool, err error) {
		b := &Batch{}
		defer b.Flush()
		for _, m := range calls {
			if err == nil {
				s.publishSpecial(b, m, func(r bool, e error) { routed, err = r || routed, e })
			}
		}
		done(routed, err)
	}
}

// admitOps checks every step and gives the engine its own consumers.
func (s *Session) admitOps(ops []Op) ([]Op, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	own := make([]Op, len(ops))
	for i, op := range ops {
		var err error
		if op.Note != nil {
			op = s.ownNote(*op.Note)
		} else if op.Message == nil {
			op.Consumer, err = s.ownConsumer(op.Consumer)
		} else {
			s.Traffic.In.Add(1)
			s.Traffic.InBytes.Add(uint64(len(op.Message.Payload)))
			err = s.admit(op.Message)
			if err == nil && op.Message.Retain {
				err = fmt.Errorf("retained message in a transaction: %w", ErrUnsupported)
			}
		}
		if err != nil {
			return nil, err
		}
		own[i] = op
	}
	return own, nil
}

// ownNote puts a note among those of the client session.
func (s *Session) ownNote(n Note) Op {
	if s.broker.vault == nil {
		return Op{Note: &n}
	}
	n.Key = s.broker.vault.note(s.ID(), n.Key)
	return Op{Note: &n}
}

func (s *Session) ownConsumer(c Consumer) (Consumer, error) {
	h, ok := c.(*heldConsumer)
	if !ok || h.session != s {
		return nil, invalid("settlement for a consumer of another session")
	}
	return h.Consumer, nil
}

// unheard is told the end of publishes whose publisher asked for no Done, and
// counts what came to nothing.
type unheard struct {
	live, kept Done // for messages, for retained ones
}

func newUnheard(d *Drops) unheard {
	refused := func(_ bool, err error) {
		if err != nil {
			d.Add(refusal(err), 1)
		}
	}
	return unheard{kept: refused, live: func(routed bool, err error) {
		if !routed && err == nil {
			d.Add(DropUnroutable, 1)
			return
		}
		refused(routed, err)
	}}
}

func (u unheard) get(retain bool) Done {
	if retain {
		return u.kept
	}
	return u.live
}

// refusal is the reason that a refused message is counted under.
func refusal(err error) DropReason {
	switch {
	case errors.Is(err, ErrTooLarge):
		return DropTooLarge
	case errors.Is(err, ErrFull):
		return DropOverflow
	case errors.Is(err, ErrNotFound):
		return DropUnroutable
	case errors.Is(err, ErrClosed):
		return DropEnded
	}
	return DropNotAllowed
}

// admit checks rights and form, and stamps what the broker writes.
func (s *Session) admit(m *Message) error {
	if m.Topic.IsZero() {
		return invalid("message without a topic")
	}
	if err := s.allowTopics(m); err != nil {
		return err
	}
	if len(m.Payload) > s.broker.cfg.MaxMessage {
		return fmt.Errorf("message of %d bytes, limit %d: %w", len(m.Payload), s.broker.cfg.MaxMessage, ErrTooLarge)
	}
	if a := m.address(); a.brokersOwn() {
		return fmt.Errorf("topic %q: %w: topics that start with $ are the broker's own", a.Topic, ErrNotAllowed)
	}
	if m.Retain && m.Exchange != TopicExchange {
		return fmt.Errorf("retain outside of topics: %w", ErrUnsupported)
	}
	m.Origin = s.origin
	if m.Props == nil {
		return nil
	}
	return m.Props.stamp(m.Retain)
}

// stamp starts the message's clocks and removes what only the broker writes.
func (p *Properties) stamp(retain bool) error {
	if p.HasTTL && p.TTL < 0 {
		return invalid("message with a negative TTL")
	}
	if err := p.readDelay(); err != nil {
		return err
	}
	if retain && !p.Due.IsZero() {
		return fmt.Errorf("retained message with a delay: %w", ErrUnsupported)
	}
	if p.HasTTL {
		p.Expires = time.Now().Add(p.TTL)
	}
	for i, h := range p.Headers {
		if brokerHeader(h.Name) {
			p.Headers = withoutBrokerHeaders(p.Headers, i)
			break
		}
	}
	return nil
}

// brokerHeader tells the names that clients cannot set.
func brokerHeader(name string) bool {
	if len(name) < 6 || !strings.EqualFold(name[:2], "x-") {
		return false
	}
	switch strings.ToLower(name) {
	case "x-death", "x-delay", "x-origin", "x-user", "x-topic", "x-error":
		return true
	}
	return strings.HasPrefix(strings.ToLower(name), "x-first-death-") || strings.HasPrefix(strings.ToLower(name), "x-last-death-")
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

// publish routes a message that was admitted, or is the broker's own, with
// notes that are written as one with it.
func (b *Broker) publish(batch *Batch, m *Message, notes []Op, done Done) {
	if !m.Retain {
		if len(notes) > 0 {
			b.engine.Apply(batch, append([]Op{{Message: m}}, notes...), done)
			return
		}
		b.engine.Publish(batch, m, done)
		return
	}
	kept := b.vault.keeps(m)
	if err := b.vault.room(); kept && len(m.Payload) > 0 && err != nil {
		if done != nil {
			done(false, err)
		}
		return
	}
	var later lateDone
	if done != nil {
		later.done = done
		done = later.end
	}
	err := b.retained.publish(m, func() {
		if kept {
			b.engine.Apply(batch, append(b.kept(m), notes...), done)
			return
		}
		b.engine.Publish(batch, m, done)
	})
	if err != nil && done != nil {
		done(false, err)
	}
	later.release()
}

// lateDone holds a Done back until the publisher has let go of its locks.
type lateDone struct {
	done Done

	mu       sync.Mutex
	released bool
	ended    bool
	routed   bool
	err      error
}

func (d *lateDone) end(routed bool, err error) {
	d.mu.Lock()
	d.ended, d.routed, d.err = true, routed, err
	now := d.released
	d.mu.Unlock()
	if now {
		d.done(routed, err)
	}
}

func (d *lateDone) release() {
	d.mu.Lock()
	d.released = true
	now := d.ended
	d.mu.Unlock()
	if now {
		d.done(d.routed, d.err)
	}
}

// PublishOwn publishes a message of the broker itself (its figures under
// $SYS, for one), which no policy is asked about.
func (b *Broker) PublishOwn(m *Message) { b.publishOwn(m, nil) }

func (b *Broker) publishOwn(m *Message, done Done) {
	if m.Props != nil && m.Props.HasTTL {
		m.Props.Expires = time.Now().Add(m.Props.TTL)
	}
	batch := &Batch{}
	b.publish(batch, m, nil, done)
	batch.Flush()
}
