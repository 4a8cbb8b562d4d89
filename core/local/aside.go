package local

import (
	"sort"
	"time"

	"entrepot/core"
)

// Consumers with Accepts. The oldest message goes to the next consumer in turn
// that has room and accepts it; when there is none it is set aside, so that
// those behind it come up. Every consumer knows up to which message it has seen
// what is aside, and one that gets room looks through the rest of it before it
// gets younger ones. So each is asked about once for a message, and each gets
// what it accepts in order.

// aside is what such consumers passed over, in order of seq. A queue has one
// while it has such a consumer. Under queue.mu, as its methods expect.
type aside struct {
	entries   ring // a hole has no message
	holes     int
	bytes     int64
	due       time.Duration // no deadline of an entry is before; 0: none has one
	selective int           // consumers with Accepts

	// lag: a consumer that has room may not have seen all.
	lag bool
	// blocked: the oldest of the queue had to be set aside, and there was no room.
	blocked bool
}

// What a queue sets aside at most: beyond either, its oldest message waits for
// a consumer that accepts it, and all others behind it.
const (
	asideCount = 10_000
	asideBytes = 16 << 20
)

func (a *aside) len() int { return a.entries.len() - a.holes }

// size is its payload bytes.
func (a *aside) size() int64 {
	if a == nil {
		return 0
	}
	return a.bytes
}

// setAside is the number of entries that are aside.
func (q *queue) setAside() int {
	if q.aside == nil {
		return 0
	}
	return q.aside.len()
}

// first is the oldest; nil when there is none.
func (a *aside) first() *entry {
	if a == nil || a.len() == 0 {
		return nil
	}
	return a.entries.at(0)
}

// last is the youngest; there is one.
func (a *aside) last() *entry { return a.entries.at(a.entries.len() - 1) }

// after is the oldest behind a seq.
func (a *aside) after(seq uint64) *entry {
	n := a.entries.len()
	for i := sort.Search(n, func(i int) bool { return a.entries.at(i).seq > seq }); i < n; i++ {
		if e := a.entries.at(i); e.msg != nil {
			return e
		}
	}
	return nil
}

func (a *aside) add(e entry) {
	a.bytes += e.size()
	if e.deadline != 0 && (a.due == 0 || e.deadline < a.due) {
		a.due = e.deadline
	}
	r := &a.entries
	if p := r.find(e.seq); p != nil {
		*p = e
		a.holes--
		return
	}
	r.pushBack(e)
	for i := r.len() - 1; i > 0 && r.at(i-1).seq > e.seq; i-- {
		*r.at(i), *r.at(i - 1) = *r.at(i - 1), *r.at(i)
	}
}

// remove takes out an entry that is here.
func (a *aside) remove(p *entry) entry {
	e := *p
	*p = entry{seq: e.seq}
	a.holes++
	a.bytes -= e.size()
	r := &a.entries
	for r.len() > 0 && r.at(0).msg == nil {
		r.popFront()
		a.holes--
	}
	for r.len() > 0 && r.at(r.len()-1).msg == nil {
		r.popBack()
		a.holes--
	}
	if a.holes > ringKeep && a.holes > r.len()/2 {
		r.keep(func(e *entry) bool { return e.msg != nil })
		a.holes = 0
	}
	return e
}

// keep removes the entries that f refuses.
func (a *aside) keep(f func(*entry) bool) {
	if a == nil {
		return
	}
	a.bytes, a.due, a.holes = 0, 0, 0
	a.entries.keep(func(e *entry) bool {
		if e.msg == nil || !f(e) {
			return false
		}
		a.bytes += e.size()
		if e.deadline != 0 && (a.due == 0 || e.deadline < a.due) {
			a.due = e.deadline
		}
		return true
	})
}

// asideFull tells whether no more may be set aside.
func (q *queue) asideFull() bool {
	a, most := q.aside, &q.engine.aside
	return a.len() >= most.count || a.bytes >= most.bytes
}

// selects: the consumer begins to choose.
func (q *queue) selects() {
	if q.aside == nil {
		q.aside = &aside{}
	}
	q.aside.selective++
}

// selectsNot: a consumer that chose has left. After the last, what is aside goes
// back to its places.
func (q *queue) selectsNot() {
	a := q.aside
	if a.selective--; a.selective > 0 {
		return
	}
	q.aside = nil
	for i := a.entries.len() - 1; i >= 0; i-- {
		if e := a.entries.at(i); e.msg != nil {
			q.waitBytes -= e.size()
			q.giveBack(*e)
		}
	}
}

// deed is what a match came to.
type deed uint8

const (
	nothing deed = iota // nobody is there for what waits, or it cannot be had now
	looked              // one message less to look at
	matched             // one is to be handed over
)

// match looks at one message, the oldest that a consumer with room has not seen.
func (q *queue) match() (*consumer, entry, deed) {
	if len(q.replays) > 0 {
		q.refill()
	}
	p, h := q.unseen(), q.head()
	if h != nil && !h.pending && (p == nil || h.seq < p.seq) {
		return q.matchHead()
	}
	if p == nil || q.readsBefore(p.seq) {
		return nil, entry{}, nothing
	}
	if q.expired(p) {
		q.drop(q.popAside(p), core.DropExpired)
		return nil, entry{}, looked
	}
	if c := q.choose(p, true); c != nil {
		return c, q.popAside(p), matched
	}
	return nil, entry{}, looked
}

func (q *queue) popAside(p *entry) entry {
	e := q.aside.remove(p)
	q.waitBytes -= e.size()
	return e
}

// unseen is the oldest that is aside and that a consumer with room has not
// seen.
func (q *queue) unseen() *entry {
	if !q.aside.lag {
		return nil
	}
	least := ^uint64(0)
	for _, c := range q.consumers {
		if !c.full {
			least = min(least, c.seen)
		}
	}
	p := q.aside.after(least)
	q.aside.lag = p != nil
	return p
}

// matchHead offers the oldest that is not aside.
func (q *queue) matchHead() (*consumer, entry, deed) {
	e := q.popHead()
	if q.expired(&e) {
		q.drop(e, core.DropExpired)
		return nil, e, looked
	}
	if c := q.choose(&e, false); c != nil {
		return c, e, matched
	}
	return nil, e, q.passOver(e)
}

// passOver sets an entry aside that was taken out and that nobody with room
// accepts. What is aside is never younger than what is kept waiting for room
// there: it gives its room to an older one.
func (q *queue) passOver(e entry) deed {
	if e.instant {
		q.drop(e, core.DropExpired)
		return looked
	}
	a := q.aside
	for q.asideFull() && a.last().seq > e.seq {
		q.giveBack(q.popAside(a.last()))
	}
	if q.asideFull() {
		return q.keepWaiting(e)
	}
	a.blocked = false
	a.add(e)
	q.waitBytes += e.size()
	for _, c := range q.consumers {
		if c.full && c.opts.Accepts != nil {
			c.seen = min(c.seen, e.seq-1)
		}
	}
	return looked
}

// keepWaiting gives back an entry that has no room aside. The limits and time
// may make some.
func (q *queue) keepWaiting(e entry) deed {
	q.giveBack(e)
	q.tidy()
	q.sweepAside()
	if h := q.head(); !q.asideFull() || h == nil || h.seq != e.seq {
		return looked
	}
	q.aside.blocked = true
	return nothing
}

// choose is the next consumer in turn that has room for e and accepts it, among
// those of the highest priority; nil when there is none. It goes behind the
// others, so that all who accept the same have their turn. Of what is aside
// only those are asked that have not seen it.
func (q *queue) choose(e *entry, isAside bool) *consumer {
	for from, to := 0, 0; from < len(q.consumers); from = to {
		for to < len(q.consumers) && q.consumers[to].opts.Priority == q.consumers[from].opts.Priority {
			to++
		}
		for at := from; at < to; at++ {
			c := q.consumers[at]
			if !c.full && !(isAside && c.seen >= e.seq) && c.accepts(e) {
				copy(q.consumers[at:], q.consumers[at+1:to])
				q.consumers[to-1] = c
				return c
			}
		}
	}
	return nil
}

// accepts asks the consumer. It has seen all older ones that are aside then.
func (c *consumer) accepts(e *entry) bool {
	if c.opts.Accepts == nil {
		return true
	}
	c.seen = max(c.seen, e.seq)
	return c.opts.Accepts(e.msg)
}

// sweepAside drops what expired aside.
func (q *queue) sweepAside() {
	if a := q.aside; a == nil || a.due == 0 || q.engine.clock() < a.due {
		return
	}
	q.aside.keep(func(e *entry) bool {
		if !q.expired(e) {
			return true
		}
		q.waitBytes -= e.size()
		q.drop(*e, core.DropExpired)
		return false
	})
}

// unblock wakes the queue when something may be set aside again, for who is no
// drainer.
func (q *queue) unblock() {
	if q.aside == nil || !q.aside.blocked || q.dead || q.asideFull() {
		return
	}
	q.aside.blocked = false
	go q.drainAlone()
}
