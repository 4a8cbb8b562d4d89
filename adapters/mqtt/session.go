package mqtt

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"entrepot/core"
)

// session is what outlives a connection: subscriptions and packet identifiers.
// It belongs to one connection at a time, conn; another one, taken over, may
// change nothing any more.
type session struct {
	drops *core.Drops

	mu   sync.Mutex
	conn *conn

	subs    subscriptions
	queued  bool               // the session's queue is declared
	sources []*source          // of conn
	shares  map[string]*source // those of shared and work, by filter

	// Sent to the client, by packet identifier.
	flight flight
	quota  int // messages that may be sent before the client confirms one
	window int // what quota started with on this connection
	// returning are the identifiers of deliveries that come again from the
	// session's queue, by place.
	returning map[uint64]uint16
	again     []uint16    // a group's messages, see nextAgain
	starved   []*source   // refused because the quota was used up
	parting   []*source   // leaving, and nothing of them is out any more
	late      []uint16    // to be released, see overdue
	rebuilt   bool        // of notes: what is in flight may be in no queue
	whole     atomic.Bool // and all of that came or was given up
	bound     bool        // and its bindings have their subscriptions again
	one       []byte      // the note of that name, nil for none

	// incoming are the QoS 2 identifiers that the client has not released;
	// pending those of them whose outcome is not known, with the connections
	// that asked again.
	incoming map[uint16]struct{}
	pending  map[uint16][]*conn
}

// stage is how far a delivery has come.
type stage uint8

const (
	free     stage = iota
	sent1          // QoS 1, waits for PUBACK
	sent2          // QoS 2, waits for PUBREC
	released       // waits for PUBCOMP; seq is the order of release
)

// parcel is one delivery that the client has not confirmed.
type parcel struct {
	seq   uint64
	from  *source
	msg   *core.Message // of a group's QoS 2, which the group gave up (MQTT 5, 4.8.2)
	sub   *subscription // with msg
	id    uint16
	stage stage
	waits bool // for the disk, see gate and session.releasing
	fresh bool // has not been sent yet
	pages uint16
}

// coming tells that a group's message is on its way to the session, and the
// group's until then.
func (p *parcel) coming() bool { return p.msg != nil && p.waits && p.fresh }

// flight finds parcels by packet identifier: the one with identifier id is at
// id modulo the length, a power of two. Identifiers whose place is taken are
// passed over.
type flight struct {
	parcels []parcel
	count   int
	last    uint16 // identifier given out last
	order   uint64 // counts releases, and a group's messages
	pages   int    // of payloads that are out, see load
}

// find is the parcel of an identifier, nil when there is none.
func (f *flight) find(id uint16) *parcel {
	if len(f.parcels) == 0 {
		return nil
	}
	p := &f.parcels[int(id)&(len(f.parcels)-1)]
	if p.stage == free || p.id != id {
		return nil
	}
	return p
}

// add gives out an identifier; nil when all are in use.
func (f *flight) add() *parcel {
	if 2*f.count >= len(f.parcels) && !f.grow() {
		return nil
	}
	for {
		f.last++
		if f.last == 0 { // [MQTT-2.2.1-3]
			f.last = 1
		}
		if p := &f.parcels[int(f.last)&(len(f.parcels)-1)]; p.stage == free {
			p.id = f.last
			f.count++
			return p
		}
	}
}

func (f *flight) grow() bool {
	if len(f.parcels) > 0xFFFF {
		return f.count < 0xFFFF
	}
	old := f.parcels
	f.parcels = make([]parcel, max(8, 2*len(old)))
	for i := range old {
		if old[i].stage != free {
			f.parcels[int(old[i].id)&(len(f.parcels)-1)] = old[i]
		}
	}
	return true
}

// clear frees the identifier of p.
func (f *flight) clear(p *parcel) {
	f.unload(p)
	*p = parcel{}
	f.count--
}

// drop frees the identifier of p, and with the last one a large table.
func (f *flight) drop(p *parcel) {
	f.clear(p)
	if f.count == 0 && len(f.parcels) > 64 {
		f.parcels = nil
	}
}

// release notes that the client has the message of p.
func (f *flight) release(p *parcel) {
	f.unload(p)
	f.order++
	*p = parcel{id: p.id, from: p.from, stage: released, seq: f.order}
}

// attach makes c the session's connection. window is what the client takes;
// release are the identifiers that it has to be told to release, in order. A
// group's messages come by nextAgain, the session queue's from there.
func (s *session) attach(c *conn, window int) (release []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.window, s.quota = c, window, window
	s.starved, s.returning, s.again = nil, nil, nil
	s.sources, s.shares, s.parting, s.late = nil, nil, nil, nil
	s.unpark()
	s.flight.unloadAll()
	var rel []parcel
	for i := range s.flight.parcels {
		p := &s.flight.parcels[i]
		switch {
		case p.stage == free:
			continue
		case p.stage != released && p.msg != nil:
			if !p.coming() { // otherwise see taken
				p.waits = false
				s.again = append(s.again, p.id)
			}
			continue
		case p.stage != released && p.from.kind == topics:
			p.waits = p.waits && p.stage == sent2 && c.gate != nil
			s.comesBack(p)
			continue
		case p.stage == sent1:
			s.flight.clear(p)
			continue
		case p.stage == sent2:
			// Its message went back to its queue. The client may know the
			// identifier, and forgets it when it is released.
			s.flight.release(p)
		}
		rel = append(rel, *p)
	}
	slices.SortFunc(rel, func(a, b parcel) int { return cmp.Compare(a.seq, b.seq) })
	for _, p := range rel {
		release = append(release, p.id)
	}
	slices.SortFunc(s.again, func(a, b uint16) int { return cmp.Compare(s.flight.find(a).seq, s.flight.find(b).seq) })
	return release
}

func (s *session) comesBack(p *parcel) {
	if s.returning == nil {
		s.returning = map[uint64]uint16{}
	}
	s.returning[p.seq] = p.id
}

// owned tells whether the session is still c's. With mu held.
func (s *session) owned(c *conn) error {
	if s.conn != c {
		return fault{takenOver, "another connection took the session over"}
	}
	return nil
}

// SessionEnded implements core.SessionEnded: a group's messages that the client
// did not take for good end with the session ([MQTT-4.8.2-5]).
func (s *session) SessionEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i := range s.flight.parcels {
		if p := &s.flight.parcels[i]; p.stage == sent2 && p.msg != nil && !p.coming() {
			n++
		}
	}
	s.drops.Add(core.DropEnded, n)
}

// send takes an identifier and a place in the window for a delivery at qos 1 or
// 2, which waits at the gate or not. ok is false when there is none; src is
// resumed later.
func (s *session) send(src *source, d *core.Delivery, qos byte, waits bool) (id uint16, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() || src.leaving.Load() {
		s.reachedBytes(src)
		s.starve(src)
		return 0, false
	}
	p := s.flight.add()
	if p == nil {
		s.starve(src)
		return 0, false
	}
	p.seq, p.from, p.stage, p.waits, p.fresh = d.Seq, src, stage(qos), waits, waits
	if src.kind == shared && qos == 2 {
		s.flight.order++
		p.seq, p.msg, p.sub = s.flight.order, d.Message, src.sub.Load()
	} else {
		src.out++
	}
	s.quota--
	s.flight.load(p, d.Message)
	return p.id, true
}

// starve notes that a source waits for the window; one that is leaving waits
// for nothing.
func (s *session) starve(src *source) {
	if !src.starved && !src.leaving.Load() {
		src.starved = true
		s.starved = append(s.starved, src)
	}
}

// sendAgain finds the parcel, as it was, that a returning delivery had on an
// earlier connection (known), and takes a place in the window for it (ok). One
// that the disk is still asked about on this connection has to wait.
func (s *session) sendAgain(src *source, d *core.Delivery) (was parcel, known, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, known := s.returning[d.Seq]
	p := s.flight.find(id)
	if !known || p == nil {
		return was, false, false
	}
	if p.waits && p.from == src {
		return was, true, false
	}
	if s.full() {
		s.starve(src)
		return was, true, false
	}
	delete(s.returning, d.Seq)
	s.flight.load(p, d.Message)
	s.recalled()
	s.quota--
	src.out++
	p.from = src
	return *p, true, true
}

// nextAgain takes the next of a group's messages that this connection has to
// send again; ok is false when there is none or no place in the window.
func (s *session) nextAgain(c *conn) (p parcel, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.conn == c && !s.full() && len(s.again) > 0 {
		id := s.again[0]
		s.again = s.again[1:]
		if q := s.flight.find(id); q != nil && q.msg != nil {
			s.quota--
			s.flight.load(q, q.msg)
			p = *q
			q.fresh = false
			return p, true
		}
	}
	return p, false
}

// notAgain puts what nextAgain took back in front.
func (s *session) notAgain(p *parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota++
	if q := s.flight.find(p.id); q != nil {
		s.flight.unload(q)
		q.fresh = p.fresh
	}
	s.again = append([]uint16{p.id}, s.again...)
}

// unsend takes send back: the message is too large for the client.
func (s *session) unsend(id uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.flight.find(id); p != nil {
		s.quota++
		s.arrived(p)
		if p.stage == sent2 {
			s.keep(core.Note{Key: idKey(outNote, id)})
		}
		s.flight.drop(p)
	}
}

// settled is what a confirmation of the client ends.
type settled struct {
	from *source
	seq  uint64
	kept bool // the session had the message: there is nothing to settle
	last bool // from is leaving, and nothing of it is out any more
}

// confirm takes PUBACK, or a PUBREC that refuses, for a parcel in stage at; ok
// is false when there is none.
func (s *session) confirm(c *conn, id uint16, at stage) (done settled, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.flight.find(id)
	if !s.current(c, p) || p.stage != at || p.waits {
		return done, false
	}
	done = s.settle(p)
	s.flight.drop(p)
	s.refund()
	return done, true
}

// received takes PUBREC: fresh when it is the first for its identifier; known
// is false when the identifier waits for no PUBREC.
func (s *session) received(c *conn, id uint16) (done settled, fresh, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.flight.find(id)
	switch {
	case !s.current(c, p) || p.stage == sent1:
		return done, false, false
	case p.stage == released:
		return done, false, true
	}
	done = s.settle(p)
	s.flight.release(p)
	return done, true, true
}

// complete takes PUBCOMP.
func (s *session) complete(c *conn, id uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.flight.find(id); s.current(c, p) && p.stage == released {
		s.keep(core.Note{Key: idKey(outNote, id)})
		s.flight.drop(p)
		s.refund()
	}
}

// current tells whether c may confirm p: its session is c's, and p was sent,
// or released, on this connection.
func (s *session) current(c *conn, p *parcel) bool {
	return s.conn == c && p != nil && (p.stage == released || p.msg != nil || p.from.conn == c)
}

func (s *session) settle(p *parcel) settled {
	s.arrived(p)
	return settled{from: p.from, seq: p.seq, kept: p.msg != nil, last: p.from.leaving.Load() && p.from.out == 0}
}

// arrived notes that a delivery of a source is out no more.
func (s *session) arrived(p *parcel) {
	if p.msg == nil {
		p.from.out--
	}
}

// refund gives a place in the window back (MQTT 5, 4.9).
func (s *session) refund() {
	if s.quota < s.window {
		s.quota++
	}
}

// hungry takes the sources that wait for the window, when there is room in it.
func (s *session) hungry() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() {
		return nil
	}
	list := s.starved
	s.starved = nil
	for _, src := range list {
		src.starved = false
	}
	return list
}

// remember tells whether the client has not released a QoS 2 message's
// identifier since it sent it (again) and wants the same answer; waits: which
// is not known yet (accepted will name c). A new one is noted if add is set.
func (s *session) remember(c *conn, id uint16, add bool) (again, waits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.owned(c); err != nil {
		return false, false, err
	}
	if _, again = s.incoming[id]; again {
		list, waits := s.pending[id]
		if waits {
			s.pending[id] = append(list, c)
		}
		return true, waits, nil
	}
	if !add {
		return false, false, nil
	}
	if s.incoming == nil {
		s.incoming, s.pending = map[uint16]struct{}{}, map[uint16][]*conn{}
	}
	s.incoming[id] = struct{}{}
	s.pending[id] = nil
	return false, false, nil
}

// accepted notes the outcome of a QoS 2 message; a refused one is forgotten
// ([MQTT-4.3.3-9]). It returns who else waits to know.
func (s *session) accepted(id uint16, code reason) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.pending[id]
	delete(s.pending, id)
	if code >= unspecified {
		delete(s.incoming, id)
	}
	return list
}

// forget releases the identifier of a QoS 2 message; false when it is not known.
func (s *session) forget(c *conn, id uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.incoming[id]; !ok || s.conn != c {
		return false
	}
	delete(s.incoming, id)
	return true
}
