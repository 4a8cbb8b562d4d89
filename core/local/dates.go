package local

import (
	"errors"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// Deadlines out of order. Mostly each message expires after the one before it
// and the head is all that a timer has to look at. A queue notes when that is
// not so, and the earliest deadline then; when it comes all that wait are
// looked through, in memory and on disk, no more often than a small part of
// the time that takes. So a message goes at its time behind others that wait
// longer.
type dates struct {
	soonest time.Duration // no deadline is before; 0: they are in order
}

const (
	sweepPerEntry = 200 * time.Nanosecond // pause after a look through memory, for each entry
	sweepShare    = 50                    // and after one through the disk, times what it took
	leastPause    = time.Millisecond
	sweepAtOnce   = 1000 // expired messages that are read at once
)

// note takes the deadline of an entry behind one with another.
func (d *dates) note(before, deadline time.Duration) (sooner bool) {
	if deadline == 0 || before != 0 && before <= deadline && d.soonest == 0 {
		return false
	}
	return d.hurry(deadline)
}

func (d *dates) hurry(deadline time.Duration) (sooner bool) {
	sooner = d.soonest == 0 || deadline < d.soonest
	if sooner {
		d.soonest = deadline
	}
	return sooner
}

// noteDate is told of an entry that goes behind all that is in ready.
func (q *queue) noteDate(e *entry) {
	if q.ready.levels != nil { // each level has an order of its own
		if q.dates.hurry(e.deadline) {
			q.arm(e.deadline)
		}
		return
	}
	before := e.deadline
	switch n := q.ready.len(); {
	case n > 0:
		before = q.ready.at(n - 1).deadline
	case len(q.back) > 0:
		before = 0
	case q.dates.soonest == 0:
		return
	}
	if q.dates.note(before, e.deadline) {
		q.arm(e.deadline)
	}
}

// sweepMemory drops what expired anywhere in memory.
func (q *queue) sweepMemory() {
	for e := q.head(); e != nil && !e.pending && q.expired(e); e = q.head() {
		q.drop(q.popHead(), core.DropExpired)
	}
	now := q.engine.clock()
	if q.dates.soonest == 0 || now < q.dates.soonest {
		return
	}
	q.weed(core.DropExpired, func(e *entry) bool { return !e.pending && q.expired(e) })
	q.recount()
	if q.dates.soonest != 0 {
		n := q.ready.len() + len(q.back)
		q.dates.soonest = max(q.dates.soonest, now+leastPause+time.Duration(n)*sweepPerEntry)
	}
}

// recount looks anew whether deadlines in memory are out of order.
func (q *queue) recount() {
	q.dates.soonest = 0
	if q.ready.levels != nil {
		q.ready.each(func(e *entry) {
			if e.deadline != 0 {
				q.dates.hurry(e.deadline)
			}
		})
	}
	for i := range q.ready.ring.n {
		switch e := q.ready.at(i); {
		case i > 0:
			q.dates.note(q.ready.at(i-1).deadline, e.deadline)
		case len(q.back) > 0:
			q.dates.note(0, e.deadline)
		}
	}
	for i := range q.back {
		if e := &q.back[i]; e.deadline != 0 && !e.started {
			q.dates.hurry(e.deadline)
		}
	}
	if e := q.head(); q.dates.soonest != 0 && e != nil && e.deadline != 0 && !e.started {
		q.dates.hurry(e.deadline)
	}
}

// headHides: an entry went before those that were in order.
func (q *queue) headHides() {
	if q.ready.len() > 0 && q.dates.note(0, q.ready.at(0).deadline) {
		q.arm(q.dates.soonest)
	}
	if s := q.shelf; s != nil && s.n > 0 && s.dated && s.dates.soonest == 0 && s.dates.note(0, s.due) {
		q.arm(s.due)
	}
}

// noteDisk is told of an entry that goes behind all that is on disk only.
func (q *queue) noteDisk(deadline time.Duration) {
	s := q.shelf
	if q.ready.levels != nil {
		s.latest = 0
	}
	if s.dates.note(s.latest, deadline) {
		q.arm(deadline)
	}
	s.latest = deadline
}

// sweepDisk drops what expired anywhere on disk. mu is given up meanwhile.
func (q *queue) sweepDisk() {
	s := q.shelf
	if s == nil || s.n == 0 || s.fault != nil || s.dates.soonest == 0 || q.engine.clock() < s.dates.soonest {
		return
	}
	last := s.readable()
	if s.loading != nil {
		s.dates.soonest = q.engine.clock() + 10*leastPause
		return
	}
	began := time.Now()
	unread := s.flying > 0 || len(s.open) > 0
	s.dates.soonest = 0
	s.loading = make(chan struct{})
	if v := q.ready.levels; v == nil {
		q.sweepUpTo(&s.part, 0, last, began)
	} else {
		for i := range v.parts {
			q.sweepUpTo(&v.parts[i], v.first(i), last, began)
		}
	}
	close(s.loading)
	s.loading = nil
	q.wakeStarved()
	if unread {
		s.dates.hurry(q.engine.clock() + 10*leastPause)
	}
	if now := q.engine.clock(); s.dates.soonest != 0 {
		s.dates.soonest = max(s.dates.soonest, now+leastPause+sweepShare*time.Since(began))
	}
}

// sweepUpTo looks through a part of the disk in steps, up to a number. mu is
// given up meanwhile.
func (q *queue) sweepUpTo(p *part, rank, last uint64, began time.Time) {
	s := q.shelf
	from, epoch := p.next, s.epoch
	for done := p.n == 0 || last < from; !done; {
		q.unlock()
		o, err := s.spool.overdue(rank|from, rank|last, began)
		q.mu.Lock()
		if q.dead || s.epoch != epoch || err != nil {
			q.sweepFailed(err)
			return
		}
		q.dropOverdue(o.expired)
		if !o.soonest.IsZero() {
			s.dates.hurry(max(q.engine.clock()+time.Until(o.soonest), 1))
		}
		from, done = number(o.next), number(o.next) > last
	}
}

// sweepFailed leaves it to a reader to say that messages are damaged.
func (q *queue) sweepFailed(err error) {
	if err != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrCorrupt) {
		q.shelf.dates.hurry(q.engine.clock() + retryFetch)
	}
}

// dropOverdue drops messages that were on disk only.
func (q *queue) dropOverdue(list []loaded) {
	s := q.shelf
	for i := range list {
		l := &list[i]
		if _, void := s.void[l.seq]; void {
			continue
		}
		if s.void == nil {
			s.void = map[uint64]bool{}
		}
		s.void[l.seq] = true // readers may see it yet
		s.latest = 0         // what is before may wait for ever
		q.unshelve(l.seq, l.size)
		q.waitBytes -= l.size
		e := entry{msg: l.msg, to: s.to, seq: l.seq, stored: true, attempts: s.tries[l.seq]}
		delete(s.tries, l.seq)
		q.drop(e, core.DropExpired)
	}
}

// overdue is one step of a look through a queue's messages on disk.
type overdue struct {
	expired []loaded
	soonest time.Time // deadline of the others; zero: none
	next    uint64    // where to go on
}

// overdue looks at the messages from a seq on, up to and including last.
func (s *spool) overdue(from, last uint64, now time.Time) (o overdue, err error) {
	o.next = last + 1
	var bad error
	err = s.store.Scan(s.key(from), s.key(last+1), func(key, value []byte) bool {
		l := loaded{seq: seqOf(key)}
		var rest []byte
		if rest, bad = s.head(value, &l); bad != nil {
			return false
		}
		switch {
		case l.stale || l.deadline.IsZero():
		case l.deadline.After(now):
			if o.soonest.IsZero() || l.deadline.Before(o.soonest) {
				o.soonest = l.deadline
			}
		default:
			if l.msg, bad = core.DecodeMessage(rest); bad != nil {
				return false
			}
			o.expired = append(o.expired, l)
		}
		if len(o.expired) < sweepAtOnce {
			return true
		}
		o.next = l.seq + 1
		return false
	})
	return o, errors.Join(err, bad)
}
