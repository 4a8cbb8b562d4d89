package local

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// queue is what waits and what is out for settlement. An idle one costs no
// goroutine and no timer. Fields after mu are under it, and so are methods
// unless they say otherwise.
type queue struct {
	engine *Engine
	key    core.QueueKey
	args   *core.QueueArgs // with the policy's; the engine's own when there are none
	drops  *core.Drops
	by     core.SessionID
	named  *target // of the default exchange; nil for queues that have no name there
	limit  int     // how often a message may be given back; negative: for ever
	ruling *ruling // nil: no policy

	durable               atomic.Bool
	exclusive, autoDelete bool
	user                  string // whose it is; "": nobody's

	mu        sync.Mutex
	ready     line     // never handed over
	back      returned // handed over and returned
	late      late     // returned, and not yet to be tried again
	aside     *aside   // passed over; nil: no consumer chooses
	shelf     *shelf   // what waits on disk only, younger than ready; nil: no store
	replays   []replay
	letters   *letters // given up, on the way to the dead-letter exchange
	lastSeq   uint64   // without its level
	bytes     int64    // payload of all that is here, out or waiting
	waitBytes int64    // payload of what waits, which the limits count
	held      int      // out for settlement

	// Places promised to Applies on a queue that refuses.
	reserved      int
	reservedBytes int64

	consumers []*consumer // without those that pull; highest priority first
	active    *consumer   // with single active consumer: it
	next      int         // where the round of consumers goes on
	free      int         // consumers that have room

	// One drainer at a time: busy is the consumer whose Deliver runs, out the
	// seq of what it got, early what Settle said of that meanwhile.
	draining bool
	settled  bool // early counts
	early    core.Outcome
	busy     *consumer
	out      uint64
	waiters  chan struct{} // closed when busy ends

	last map[string]uint64 // of a last-value queue: the youngest of each value

	dead     bool
	dates    dates         // of ready and back
	instants bool          // ready or back may hold instant entries
	expiry   *time.Timer   // set for armed, no later than the oldest message's deadline
	armed    time.Duration // 0: not set
	idle     *time.Timer   // x-expires
	lastUsed time.Duration
}

func newQueue(e *Engine, s core.QueueSpec) *queue {
	q := &queue{engine: e, key: s.Key, drops: s.Drops, by: s.By, user: s.User, exclusive: s.Exclusive, autoDelete: s.AutoDelete}
	q.durable.Store(s.Durable)
	q.rule(&s.Args)
	if s.Key.Kind == core.NamedQueue {
		q.named = &target{queue: q}
	}
	return q
}

// adopt gives a queue that came back from disk its counter of drops.
func (q *queue) adopt(d *core.Drops) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.drops == nil {
		q.drops = d
	}
}

// differs tells in what a second declare is not as the queue is; a group's is as
// its first member said. Without mu.
func (q *queue) differs(s *core.QueueSpec) *core.Difference {
	if q.key.Kind == core.GroupQueue {
		return nil
	}
	a, b := *q.declared(), s.Args
	a.Shown, b.Shown = nil, nil
	switch {
	case s.Exclusive != q.exclusive || s.Exclusive && s.By != q.by:
		return &core.Difference{Property: "exclusive", Have: q.exclusive, Want: s.Exclusive}
	case s.Durable != q.durable.Load():
		return &core.Difference{Property: "durable", Have: q.durable.Load(), Want: s.Durable}
	case s.AutoDelete != q.autoDelete:
		return &core.Difference{Property: "auto_delete", Have: q.autoDelete, Want: s.AutoDelete}
	case !reflect.DeepEqual(a, b):
		return differentArgs(a.Headers(), b.Headers())
	}
	return nil
}

// differentArgs is the first argument that is not the same.
func differentArgs(have, want routing.Headers) *core.Difference {
	for _, h := range append(slices.Clone(want), have...) {
		a, _ := have.Get(h.Name)
		b, _ := want.Get(h.Name)
		if !reflect.DeepEqual(a, b) {
			return &core.Difference{Property: h.Name, Have: a, Want: b}
		}
	}
	return &core.Difference{Property: "arguments"}
}

// refuses: a full queue answers the publisher instead of dropping. Without mu.
func (q *queue) refuses() bool { return q.args.Overflow != core.DropHead }

// owner refuses other sessions on an exclusive queue. Without mu.
func (q *queue) owner(by core.SessionID) error {
	if q.exclusive && by != 0 && by != q.by {
		return fmt.Errorf("%v: %w", q.key, core.ErrLocked)
	}
	return nil
}

// forgets: a subscription's queue holds AtMostOnce messages only while a
// consumer is attached. Without mu.
func (q *queue) forgets() bool { return q.key.Kind != core.NamedQueue }

// info takes mu.
func (q *queue) info() core.QueueInfo {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := core.QueueInfo{Key: q.key, Messages: q.waiting(), Unsettled: q.held, Bytes: q.bytes, Consumers: len(q.consumers),
		DeadLetters: q.letters.count(), Policy: q.policy()}
	if q.busy != nil && !q.dead {
		i.Unsettled++ // on its way
	}
	return i
}

// waiting is the number of ready messages.
func (q *queue) waiting() int {
	return q.ready.len() + len(q.back) + q.setAside() + q.onDisk() + len(q.late)
}

// unlock gives up mu, and first passes what was settled under it to the store.
func (q *queue) unlock() {
	if q.shelf != nil && q.shelf.settled.Len() > 0 {
		q.shelf.pass()
	}
	q.mu.Unlock()
}

// put takes a message and hands over what it can. It takes mu.
func (q *queue) put(b *core.Batch, m *core.Message, to *target) {
	q.mu.Lock()
	q.putLocked(b, m, to)
	q.unlock()
}

func (q *queue) putLocked(b *core.Batch, m *core.Message, to *target) {
	e, ok := q.enter(m, to)
	if ok {
		q.admit(b, e)
	}
}

// enter gives a message its place; not ok when the queue does not take it.
func (q *queue) enter(m *core.Message, to *target) (e entry, ok bool) {
	if q.dead {
		q.drops.Add(core.DropEnded, 1)
		return e, false
	}
	e = entry{msg: m, to: to, transient: m.Guarantee == core.AtMostOnce || to.atMostOnce}
	if e.transient && len(q.consumers) == 0 && q.forgets() {
		q.drops.Add(core.DropOffline, 1)
		return e, false
	}
	e.seq = q.nextSeq(m)
	q.bytes += e.size()
	if q.args.LastValueKey != "" {
		q.replace(&e)
	}
	if m.Props != nil || q.args.HasMessageTTL {
		q.date(&e)
	}
	return e, true
}

// nextSeq is the place of a new message.
func (q *queue) nextSeq(m *core.Message) uint64 {
	q.lastSeq++
	v := q.ready.levels
	if v == nil {
		return q.lastSeq
	}
	level := len(v.rings) - 1
	if m.Props != nil {
		level = max(level-int(m.Props.Priority), 0)
	}
	return v.first(level) | q.lastSeq
}

// admit hands a new entry over, or lets it wait.
func (q *queue) admit(b *core.Batch, e entry) {
	if q.free > 0 && !q.draining && q.waiting() == 0 && len(q.replays) == 0 && q.aside == nil {
		q.draining = true
		q.hand(b, q.pick(), e)
		q.goOn(b)
		return
	}
	switch {
	case !q.shelf.takes(q, e.seq):
		q.push(e)
	case e.instant: // others wait before it
		q.drop(e, core.DropExpired)
	default:
		q.spill(e)
	}
	q.drain(b)
	if q.draining {
		q.trim() // the drainer may be busy for long
	}
}

// push adds a new entry.
func (q *queue) push(e entry) {
	q.waitBytes += e.size()
	q.instants = q.instants || e.instant
	if e.deadline != 0 {
		q.noteDate(&e)
	}
	if q.ready.levels == nil {
		q.ready.ring.pushBack(e)
		return
	}
	q.ready.pushBack(e)
}

// giveBack puts an entry that was out into its place.
func (q *queue) giveBack(e entry) {
	if q.shelf.wasRevoked(e.seq) {
		q.bytes -= e.size()
		return
	}
	if q.args.LastValueKey != "" {
		if q.outdated(&e) {
			q.drop(e, core.DropReplaced)
			return
		}
		q.noteValue(&e)
	}
	q.waitBytes += e.size()
	q.instants = q.instants || e.instant
	if e.deadline != 0 && !e.started && q.dates.hurry(e.deadline) {
		q.arm(e.deadline)
	}
	if v := q.ready.levels; v != nil {
		if !v.insert(e) {
			q.back.push(e)
		}
		return
	}
	q.headHides()
	if e.started || e.attempts > 0 || q.ready.len() > 0 && q.ready.at(0).seq < e.seq {
		q.back.push(e)
		return
	}
	q.ready.pushFront(e)
}

// oldest is the oldest in memory; nil when nothing waits there.
func (q *queue) oldest() *entry {
	e := q.head()
	if p := q.aside.first(); p != nil && (e == nil || p.seq < e.seq) && !q.readsBefore(p.seq) {
		return p
	}
	return e
}

// head is the oldest that is not aside.
func (q *queue) head() *entry {
	switch {
	case q.ready.levels != nil:
		return q.rankedHead()
	case q.backFirst():
		return &q.back[0]
	case q.ready.len() > 0:
		return q.ready.at(0)
	}
	return nil
}

func (q *queue) backFirst() bool {
	return len(q.back) > 0 && (q.ready.len() == 0 || q.back[0].seq < q.ready.at(0).seq)
}

// pop removes the oldest; something waits.
func (q *queue) pop() entry {
	p := q.aside.first()
	if h := q.head(); p != nil && (h == nil || p.seq < h.seq) {
		return q.popAside(p)
	}
	return q.popHead()
}

// popHead removes the oldest that is not aside; there is one.
func (q *queue) popHead() entry {
	var e entry
	if q.ready.levels != nil {
		e = q.popRanked()
	} else if q.backFirst() {
		e = q.back.pop()
	} else {
		e = q.ready.popFront()
	}
	q.waitBytes -= e.size()
	return e
}

// take removes the oldest message that is still good.
func (q *queue) take() (entry, bool) {
	if len(q.replays) > 0 {
		q.refill()
	}
	for q.oldest() != nil && !q.oldest().pending {
		e := q.pop()
		if !q.expired(&e) {
			return e, true
		}
		q.drop(e, core.DropExpired)
		q.refill()
	}
	return entry{}, false
}

// drop gives up an entry that was taken out. With a dead-letter exchange it
// stays here until a queue behind that has it.
func (q *queue) drop(e entry, why core.DropReason) {
	if q.args.DeadLetter != nil && q.post(e, why) {
		return
	}
	q.done(e)
	q.drops.Add(why, 1)
}

// done: an entry has left the queue for good.
func (q *queue) done(e entry) {
	q.bytes -= e.size()
	if q.last != nil {
		q.forgetValue(&e)
	}
	if e.stored {
		q.shelf.remove(e.seq, e.attempts > 0)
		q.shelf.wasRevoked(e.seq)
	}
}

// over tells whether the queue would be beyond its limits with so much more.
// What is out for settlement does not count.
func (q *queue) over(n int, bytes int64) bool {
	a := q.args
	return a.HasMaxLength && q.waiting()+n > a.MaxLength ||
		a.HasMaxBytes && q.waitBytes+bytes > a.MaxBytes
}

// trim drops the oldest until the queue is within its limits. One that
// refuses keeps what came back to it.
func (q *queue) trim() {
	a := q.args
	if !a.HasMaxLength && !a.HasMaxBytes || q.refuses() {
		return
	}
	if q.over(0, 0) {
		q.sweepMemory()
	}
	for q.waiting() > 0 && q.over(0, 0) && q.dropOldest() {
	}
}

// dropOldest leaves out what a session's client may know by its packet id.
// What waits for its next try goes when nothing else does.
func (q *queue) dropOldest() bool {
	if q.oldest() == nil && len(q.late) > 0 && q.onDisk() == 0 {
		e := q.late.pop().entry
		q.waitBytes -= e.size()
		q.drop(e, core.DropOverflow)
		return true
	}
	if q.ready.levels != nil {
		e, ok := q.dropLowest()
		if ok {
			q.drop(e, core.DropOverflow)
		}
		return ok
	}
	if q.oldest() == nil || q.oldest().pending {
		return false
	}
	if q.key.Kind == core.SessionQueue && len(q.back) > 0 {
		if q.ready.len() == 0 || q.ready.at(0).pending {
			return false
		}
		e := q.ready.popFront()
		q.waitBytes -= e.size()
		q.drop(e, core.DropOverflow)
		return true
	}
	q.drop(q.pop(), core.DropOverflow)
	return true
}

// weed removes what f tells of the waiting messages and counts it as dropped.
func (q *queue) weed(why core.DropReason, f func(*entry) bool) {
	keep := func(e *entry) bool {
		if !f(e) {
			return true
		}
		q.waitBytes -= e.size()
		q.drop(*e, why)
		return false
	}
	q.ready.keep(keep)
	q.back.keep(keep)
	q.late.keep(keep)
	q.aside.keep(keep)
}

// purge drops all ready messages.
func (q *queue) purge() int {
	n := q.waiting() + q.clearLetters()
	q.bytes -= q.waitBytes
	q.waitBytes = 0
	q.shelf.purge(q)
	q.aside.keep(func(*entry) bool { return false })
	q.ready.empty()
	q.back, q.late, q.replays, q.instants = nil, nil, nil, false
	q.last, q.dates = nil, dates{}
	q.disarm()
	return n
}

// forget: nobody consumes a subscription queue any more, so what was taken as
// AtMostOnce goes.
func (q *queue) forget() {
	if len(q.consumers) > 0 || !q.forgets() {
		return
	}
	q.weed(core.DropOffline, func(e *entry) bool { return e.transient })
	q.replays = keepReplays(q.replays, func(r *replay) bool { return !r.to.atMostOnce })
}
