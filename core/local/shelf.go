package local

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// A queue with a store keeps a window of its oldest messages in memory and the
// rest on disk only. What is on disk only is younger than all that is in ready,
// and is read back in order when ready is used up.
type windowSize struct {
	count int   // entries in ready from which on new ones are on disk only
	bytes int64 // or payload bytes of what waits, while ready has some
}

// The window of every queue; half of it is read back at once.
const (
	wholeCount = 2048
	wholeBytes = 2 << 20
)

const retryFetch = time.Second

// shelf is a queue's part on disk. Under queue.mu, as its methods expect.
type shelf struct {
	spool   *spool
	to      *target
	part                  // all that is on disk only
	dated   bool          // some of them may expire
	dates   dates         // theirs
	latest  time.Duration // deadline of the youngest
	due     time.Duration // while they are in order, none is before
	applied uint64        // numbers up to here can be read
	epoch   uint64        // counts purges
	open    []uint64      // seqs placed here, and their batch not yet applied
	flying  int           // callbacks of whenApplied that are to come
	landed  chan struct{} // closed when one came, where somebody waits for it
	starved bool          // a drainer found nothing readable: wake it
	loading chan struct{}
	settled store.Batch // what was settled since mu was taken
	owed    store.Batch // and what the store could not take
	tries   map[uint64]uint32
	void    map[uint64]bool // refused, so no messages, but perhaps on disk; true: removed there
	revoked map[uint64]bool // refused by the disk, while they were out
	fault   error           // what is on disk is damaged
}

// newShelf is for a queue's part of the store; without a store it has none.
func newShelf(q *queue, s *spool) *shelf {
	s.ranked = q.ready.levels != nil
	return &shelf{spool: s, to: &target{queue: q}}
}

// onDisk is the number of messages that are on disk only.
func (q *queue) onDisk() int {
	if q.shelf == nil {
		return 0
	}
	return q.shelf.n
}

// keeps tells whether a message that a route brings here is written to disk
// before it is confirmed. Without mu.
func (q *queue) keeps(m *core.Message, t *target) bool {
	return q.durable.Load() && q.shelf != nil && m.Guarantee >= core.Durable && !t.atMostOnce
}

// takes tells whether a new message of that seq goes on disk only.
func (s *shelf) takes(q *queue, seq uint64) bool {
	if s == nil || q.args.LastValueKey != "" {
		return false
	}
	w := &q.engine.window
	if v := q.ready.levels; v != nil {
		level := v.level(seq)
		r := &v.rings[level]
		return v.parts[level].n > 0 || r.n > 0 && r.n >= w.count/(1+len(v.rings)/16) ||
			r.n > 0 && q.waitBytes-q.aside.size() >= w.bytes
	}
	return s.n > 0 || q.ready.len() >= w.count ||
		q.ready.len() > 0 && q.waitBytes-q.aside.size() >= w.bytes
}

// crammed tells whether the queue has no place for a message that is to wait in
// memory: what is beyond the window would go to a disk that is nearly full.
func (s *shelf) crammed(q *queue) bool {
	seq := uint64(0)
	if v := q.ready.levels; v != nil {
		seq = v.first(len(v.rings) - 1)
	}
	return s.takes(q, seq) && s.spool.store.Room() != nil
}

// spill lets a new entry wait on disk only. One that nobody wrote yet is
// written now, to be forgotten at a restart; a subscription's QoS 0 is not
// worth it, and a disk that is nearly full has no room for it.
func (q *queue) spill(e entry) {
	s := q.shelf
	if !e.stored {
		if e.transient && q.forgets() || s.spool.store.Room() != nil {
			q.drop(e, core.DropOverflow)
			return
		}
		var b store.Batch
		s.spool.put(&b, &e, q.wall(&e), true)
		s.spool.store.Commit(&b, false, q.whenApplied(&e))
	}
	if s.n == 0 {
		s.next = number(e.seq)
		s.dates, s.due, s.latest = dates{}, e.deadline, q.ready.lastDeadline()
		if q.dates.soonest != 0 || len(q.back) > 0 {
			s.latest = 0
		}
	}
	q.shelve(e.seq, e.size())
	s.dated = s.dated || e.deadline != 0
	q.noteDisk(e.deadline)
	q.waitBytes += e.size()
}

// wall is an entry's deadline as a time of day.
func (q *queue) wall(e *entry) time.Time {
	if e.deadline == 0 {
		return time.Time{}
	}
	return time.Now().Add(e.deadline - q.engine.clock())
}

// whenApplied is the callback for an entry that is on disk only.
func (q *queue) whenApplied(e *entry) func(error) {
	seq, size, epoch := e.seq, e.size(), q.shelf.epoch
	q.shelf.flying++
	return func(err error) {
		q.mu.Lock()
		defer q.unlock()
		s := q.shelf
		s.land(seq)
		switch {
		case s.epoch != epoch || q.dead:
		case err != nil:
			q.unspill(seq, size)
		default:
			s.applied = max(s.applied, number(seq))
		}
		q.wakeStarved()
	}
}

// unspill takes back an entry that the store refused: its publisher is told so.
func (q *queue) unspill(seq uint64, size int64) {
	s := q.shelf
	q.unshelve(seq, size)
	q.bytes -= size
	q.waitBytes -= size
	if s.void == nil {
		s.void = map[uint64]bool{}
	}
	s.void[seq] = false
}

// wakeStarved lets a drainer look again.
func (q *queue) wakeStarved() {
	if !q.shelf.starved {
		return
	}
	q.shelf.starved = false
	go q.drainAlone()
}

// datedOnDisk: the oldest is on disk, and may expire there.
func (q *queue) datedOnDisk() bool {
	return q.shelf != nil && q.shelf.dated && q.shelf.n > 0 && q.shelf.fault == nil && q.head() == nil
}

// fetchOver reads the oldest when it has to go and is on disk.
func (q *queue) fetchOver() bool {
	if q.onDisk() == 0 || q.shelf.fault != nil || q.refuses() || !q.over(0, 0) {
		return false
	}
	if q.ready.levels != nil {
		return q.fetchPart(q.lowestToRead())
	}
	return q.fetch()
}

// fetch reads the oldest of what is on disk only. False: there is nothing to
// read now. mu is given up meanwhile.
func (q *queue) fetch() bool { return q.fetchPart(q.toRead()) }

func (q *queue) fetchPart(p *part, rank uint64) bool {
	if p == nil {
		return false
	}
	s := q.shelf
	last := s.readable()
	if s.loading != nil || last < p.next {
		if s.starved = true; s.loading == nil && s.flying == 0 && len(s.open) == 0 {
			q.phantoms(p)
		}
		return false
	}
	from, epoch := p.next, s.epoch
	s.loading = make(chan struct{})
	q.unlock()
	want := max(q.engine.window.count/2, 1)
	msgs, err := s.spool.load(rank|from, rank|last, want, q.engine.window.bytes/2)
	q.mu.Lock()
	close(s.loading)
	s.loading = nil
	q.wakeStarved()
	switch {
	case q.dead:
		return false
	case s.epoch != epoch:
		return true
	case err != nil:
		q.unreadable(err)
		return false
	}
	q.takeIn(p, msgs, last, want)
	return true
}

// takeIn puts what was read, up to last or at most want, into ready.
func (q *queue) takeIn(p *part, msgs []loaded, last uint64, want int) {
	s := q.shelf
	p.next = last + 1
	if len(msgs) == want || len(msgs) > 0 && msgs[len(msgs)-1].more {
		p.next = number(msgs[len(msgs)-1].seq) + 1
	}
	for i := range msgs {
		if _, void := s.void[msgs[i].seq]; !void {
			q.shelved(&msgs[i])
		}
	}
	for seq, removed := range s.void {
		if removed && p == q.partOf(seq) && number(seq) < p.next {
			delete(s.void, seq)
		}
	}
	if p.next > q.lastSeq {
		q.phantoms(p)
	}
	s.due = q.ready.lastDeadline()
	s.dated = s.dated && s.n > 0
}

// readable is the seq up to which all that is on disk only can be read.
func (s *shelf) readable() uint64 {
	last := s.applied
	for _, seq := range s.open {
		last = min(last, number(seq)-1)
	}
	return last
}

// land: the batch of a message is in the store, or was refused.
func (s *shelf) land(seq uint64) {
	s.flying--
	if s.landed != nil {
		close(s.landed)
		s.landed = nil
	}
	if i := slices.Index(s.open, seq); i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// shelved puts a message that was read back into ready.
func (q *queue) shelved(l *loaded) {
	s := q.shelf
	if l.stale {
		s.remove(l.seq, false)
		return
	}
	q.unshelve(l.seq, l.size)
	e := entry{msg: l.msg, to: s.to, seq: l.seq, stored: true, transient: l.msg.Guarantee == core.AtMostOnce}
	e.deadline = q.deadline(l.deadline)
	if n, ok := s.tries[l.seq]; ok {
		e.attempts = n
		delete(s.tries, l.seq)
	}
	if e.deadline != 0 {
		q.noteDate(&e)
	}
	q.ready.pushBack(e)
}

// deadline is a time of day on the engine's clock.
func (q *queue) deadline(wall time.Time) time.Duration {
	if wall.IsZero() {
		return 0
	}
	return max(q.engine.clock()+time.Until(wall), 1)
}

// unreadable: damage stops the queue at that place, other errors may pass.
func (q *queue) unreadable(err error) {
	switch {
	case errors.Is(err, store.ErrClosed):
		return
	case errors.Is(err, store.ErrCorrupt):
		q.shelf.fault = err
		q.engine.log.Error("queue stopped: its messages on disk are damaged", "queue", q.key.String(), "error", err)
		return
	}
	q.engine.log.Warn("queue cannot read its messages, trying again", "queue", q.key.String(), "error", err)
	q.shelf.starved = true
	time.AfterFunc(retryFetch, func() {
		q.mu.Lock()
		defer q.unlock()
		q.wakeStarved()
	})
}

// takeAnywhere is take for who is not the drainer: it reads from disk, or
// waits for who does, and for what is on its way to the disk.
func (q *queue) takeAnywhere() (entry, bool) {
	for {
		if e, ok := q.take(); ok {
			return e, true
		}
		if q.fetch() {
			continue
		}
		wait := q.shelf.coming(q)
		if wait == nil {
			return entry{}, false
		}
		q.unlock()
		<-wait
		q.mu.Lock()
		if q.dead {
			return entry{}, false
		}
	}
}

// coming is closed when there may be more in ready; nil when there is nothing
// to wait for.
func (s *shelf) coming(q *queue) chan struct{} {
	p, _ := q.toRead()
	switch {
	case p == nil:
		return nil
	case s.loading != nil:
		return s.loading
	case s.flying == 0 || s.readable() >= p.next:
		return nil
	}
	if s.landed == nil {
		s.landed = make(chan struct{})
	}
	return s.landed
}

// remove takes a settled message off the disk, when mu is given up; tried tells
// that its attempts are there too.
func (s *shelf) remove(seq uint64, tried bool) { s.spool.remove(&s.settled, seq, tried) }

// tried notes on disk that a message came back.
func (s *shelf) tried(seq uint64, attempts uint32) { s.spool.tried(&s.settled, seq, attempts) }

// again writes a message anew whose removal the store refused and may have
// done nevertheless.
func (s *shelf) again(q *queue, e *entry) {
	s.settled.Delete(s.spool.key(e.seq))
	s.spool.put(&s.settled, e, q.wall(e), false)
	s.tried(e.seq, e.attempts)
}

// maxOwed bounds what is kept for a store that works again. What is beyond
// comes back after a restart.
const maxOwed = 32 << 20

// pass gives what was settled to the store. Losing it in a crash means a
// redelivery, so it waits for no sync.
func (s *shelf) pass() {
	st := s.spool.store
	switch {
	case st.Err() != nil:
		if s.owed.Size() < maxOwed {
			s.owed.Append(&s.settled)
		}
	case s.owed.Len() > 0:
		s.owed.Append(&s.settled)
		st.Commit(&s.owed, false, nil)
		s.owed = store.Batch{}
	default:
		st.Commit(&s.settled, false, nil)
	}
	s.settled.Reset()
}

// purge removes what waits from the disk, damaged or not, and leaves what is
// out.
func (s *shelf) purge(q *queue) {
	if s == nil {
		return
	}
	drop := func(e *entry) bool {
		if e.stored {
			s.remove(e.seq, e.attempts > 0)
		}
		return false
	}
	q.ready.keep(drop)
	q.back.keep(drop)
	q.late.keep(drop)
	q.aside.keep(drop)
	if s.n > 0 || s.fault != nil {
		q.clearDisk()
	}
	s.n, s.bytes, s.dated, s.dates, s.tries, s.fault = 0, 0, false, dates{}, nil, nil
	s.epoch++
}

// refuse is why the queue takes nothing durable; nil when it does. It takes mu.
func (q *queue) refuse() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.faultError()
}

// faultError says in core's terms that what is on disk is damaged.
func (q *queue) faultError() error {
	if q.shelf == nil || q.shelf.fault == nil {
		return nil
	}
	return fmt.Errorf("%v is stopped until it is purged or repaired: %w: %w", q.key, core.ErrFull, q.shelf.fault)
}

// putStored writes a message that goes to one queue only and hands it over at
// once; done is called when it is on the disk. It takes mu.
func (q *queue) putStored(b *core.Batch, m *core.Message, to *target, done core.Done) {
	q.mu.Lock()
	defer q.unlock()
	s := q.shelf
	if err := q.faultError(); err != nil {
		finish(done, false, err)
		return
	}
	e, ok := q.enter(m, to)
	if ok && e.instant && s.takes(q, e.seq) {
		q.drop(e, core.DropExpired)
		ok = false
	}
	if !ok {
		finish(done, true, nil)
		return
	}
	e.stored = true
	batches, seq := &q.engine.disk.batches, e.seq
	batch, _ := batches.Get().(*store.Batch)
	if batch == nil {
		batch = &store.Batch{}
	}
	s.spool.put(batch, &e, q.wall(&e), false)
	var applied func(error)
	if s.takes(q, seq) {
		applied = q.whenApplied(&e)
	}
	s.spool.store.Commit(batch, done != nil, func(err error) {
		switch {
		case applied != nil:
			applied(err)
		case err != nil:
			q.revoke(seq)
		}
		finish(done, err == nil, core.DiskError(err))
	})
	batch.Reset()
	batches.Put(batch)
	q.admit(b, e)
}

func finish(done core.Done, routed bool, err error) {
	if done != nil {
		done(routed, err)
	}
}
