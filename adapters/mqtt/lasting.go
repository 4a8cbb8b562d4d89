package mqtt

import (
	"errors"

	"entrepot/core"
)

// The part of session that waits for the disk, where the session lasts.

// progress is how far a PUBREC finds a delivery.
type progress uint8

const (
	notOut      progress = iota // nothing of that identifier waits for PUBREC
	onItsWay                    // an earlier PUBREC is on its way to the disk
	wasReleased                 // PUBREL went out
	isOut
)

// sent notes that a delivery which waited at the gate goes out; false when it is
// not c's to send any more.
func (s *session) sent(c *conn, id uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.flight.find(id)
	if !s.current(c, p) || p.stage == released {
		return false
	}
	p.waits, p.fresh = false, false
	return true
}

// orderOf is the place of a group's message among those that the session takes.
func (s *session) orderOf(id uint16) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.flight.find(id)
	if p == nil || !p.coming() {
		return 0, false
	}
	return p.seq, true
}

// taken notes that the session has a group's message for good, or, with an
// error, that the group has. heir is another connection that has to send it.
func (s *session) taken(e *gated, err error) (heir *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.flight.find(e.id)
	if p == nil || !p.coming() || p.from != e.from {
		return nil
	}
	mine := s.conn == e.from.conn
	if err != nil {
		s.flight.drop(p)
		if mine {
			s.refund()
		}
		return nil
	}
	p.waits = false
	if mine {
		return nil
	}
	s.again = append(s.again, p.id)
	if !s.conn.greeted.Load() {
		return nil // it looks when it is
	}
	return s.conn
}

// releasing takes PUBREC: p is the parcel as it was, order the place of its
// PUBREL among others. While the disk works at it a redelivery is recognised,
// which comes when the disk refuses.
func (s *session) releasing(c *conn, id uint16, code reason) (p parcel, order uint64, at progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.flight.find(id)
	switch {
	case !s.current(c, q) || q.stage == sent1 || q.fresh:
		return p, 0, notOut
	case q.stage == released && code >= unspecified, q.waits:
		return p, 0, onItsWay
	case q.stage == released:
		return p, 0, wasReleased
	}
	p = *q
	q.waits = true
	s.flight.order++
	s.arrived(q)
	if code >= unspecified {
		s.refund()
		c.settling.hungry = true
	}
	if q.msg == nil && q.from.kind == topics {
		s.comesBack(q)
		q.from.recall.Store(true)
	}
	return p, s.flight.order, isOut
}

// release ends what releasing began, when the disk has it: the identifier is
// free after a refusal, else the client is to release it, and to is the
// connection to tell so.
func (s *session) release(c *conn, p *parcel, order uint64, code reason) (to *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.flight.find(p.id)
	if q == nil || q.stage != sent2 || q.from != p.from || q.seq != p.seq {
		return nil
	}
	if q.msg == nil && s.returning[p.seq] == p.id {
		delete(s.returning, p.seq)
		s.recalled()
	}
	if q.from.leaving.Load() && q.from.out == 0 {
		s.parting = append(s.parting, q.from)
	}
	if code >= unspecified {
		s.flight.drop(q)
		return nil
	}
	s.flight.unload(q)
	*q = parcel{id: p.id, from: p.from, stage: released, seq: order}
	if !s.conn.greeted.Load() {
		s.late = append(s.late, p.id)
		return nil
	}
	return s.conn
}

// recalled: when nothing is to come again the sources need not look.
func (s *session) recalled() {
	if len(s.returning) > 0 {
		return
	}
	s.returning = nil
	for _, src := range s.sources {
		src.recall.Store(false)
	}
}

// overdue takes what became due between attach and CONNACK.
func (s *session) overdue() (release []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	release, s.late = s.late, nil
	return release
}

// gone takes the sources that leave and have nothing out any more.
func (s *session) gone() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.parting
	s.parting = nil
	return list
}

// knows tells whether the client has not released an identifier of its own.
func (s *session) knows(id uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.incoming[id]
	return ok
}

// synced waits until what was noted is on the disk.
func (s *session) synced(c *conn) error {
	done := make(chan error, 1)
	if err := s.keepFor(c, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

// subscribed notes a subscription for the next start; the sync that the
// binding waits for has it too. Without a subscription the note of a filter
// goes.
func (s *session) subscribed(c *conn, text string, sub *subscription) error {
	n := core.Note{Key: []byte(subNote + text)}
	if sub != nil {
		n = sub.note()
	}
	err := s.keepFor(c, nil, n)
	if errors.Is(err, core.ErrClosed) {
		return fault{takenOver, "another connection took the session over"}
	}
	return err
}
