package local

import (
	"fmt"
	"sync"
	"time"

	"entrepot/core"
)

// queue is what waits and what is out for settlement. An idle one costs no
// goroutine and no timer.
type queue struct {
	engine *Engine
	spec   core.QueueSpec

	mu       sync.Mutex
	ready    ring     // never handed over, in order of seq
	back     returned // handed over and returned; all older than ready
	held     map[uint64]heldEntry
	replays  []replay
	lastSeq  uint64
	bytes    int64 // payload of ready, back and held
	reserved int   // places promised to an Apply

	heldBytes int64 // payload of held, which limits do not count

	consumers []*consumer
	next      int // where the round of consumers goes on

	// One drainer at a time: busy is the consumer whose Deliver runs, out the
	// entry that it got, early what Settle said of it meanwhile.
	draining bool
	busy     *consumer
	out      entry
	early    *core.Outcome
	waiters  chan struct{} // closed when busy ends

	dead     bool
	expiry   *time.Timer   // of the oldest message
	armed    time.Duration // what expiry is set for
	idle     *time.Timer   // x-expires
	lastUsed time.Duration
}

type heldEntry struct {
	entry
	by *consumer
}

// replay is a retained snapshot that goes in as there is room.
type replay struct {
	src core.Source
	to  *target
}

// replayAhead bounds how many replayed messages wait in the queue.
const replayAhead = 256

func newQueue(e *Engine, s core.QueueSpec) *queue {
	s.Passive = false
	return &queue{engine: e, spec: s}
}

// refuses: a full queue answers the publisher instead of dropping.
func (q *queue) refuses() bool { return q.spec.Args.Overflow != core.DropHead }

// owner refuses other sessions on an exclusive queue.
func (q *queue) owner(by core.SessionID) error {
	if q.spec.Exclusive && by != 0 && by != q.spec.By {
		return fmt.Errorf("%v: %w", q.spec.Key, core.ErrLocked)
	}
	return nil
}

func (q *queue) info() core.QueueInfo {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, c := range q.consumers {
		if !c.opts.Pull {
			n++
		}
	}
	return core.QueueInfo{Key: q.spec.Key, Messages: q.waiting(), Unsettled: len(q.held), Bytes: q.bytes, Consumers: n}
}

// waiting is the number of ready messages. With mu held, as all that follows
// here unless said otherwise.
func (q *queue) waiting() int { return q.ready.len() + len(q.back) }

// put takes a message and hands over what it can. Without mu.
func (q *queue) put(b *core.Batch, m *core.Message, to *target) {
	q.mu.Lock()
	q.putLocked(b, m, to)
	q.mu.Unlock()
}

func (q *queue) putLocked(b *core.Batch, m *core.Message, to *target) {
	if q.dead {
		q.spec.Drops.Add(core.DropEnded, 1)
		return
	}
	e := entry{msg: m, to: to, transient: m.Guarantee == core.AtMostOnce || to.atMostOnce}
	if e.transient && len(q.consumers) == 0 && q.spec.Key.Kind != core.NamedQueue {
		q.spec.Drops.Add(core.DropOffline, 1)
		return
	}
	q.lastSeq++
	e.seq = q.lastSeq
	q.bytes += e.size()
	if m.Props != nil || q.spec.Args.HasMessageTTL {
		e.deadline = q.deadline(m)
	}
	if !q.handNow(b, e) {
		q.ready.pushBack(e)
		q.drain(b)
	}
	if q.waiting() > 0 {
		q.trim()
		q.watch()
	}
}

// handNow skips the ring when the queue is idle and a consumer waits.
func (q *queue) handNow(b *core.Batch, e entry) bool {
	if q.draining || q.waiting() > 0 || len(q.replays) > 0 {
		return false
	}
	c := q.pick()
	if c == nil {
		return false
	}
	q.draining = true
	q.hand(b, c, e)
	q.handAll(b)
	return true
}

// deadline of a message in this queue, 0 for none.
func (q *queue) deadline(m *core.Message) time.Duration {
	ttl, has := q.spec.Args.MessageTTL, q.spec.Args.HasMessageTTL
	if m.Props != nil && m.Props.HasTTL {
		left := time.Until(m.Props.Expires)
		if !has || left < ttl {
			ttl, has = left, true
		}
	}
	if !has {
		return 0
	}
	return max(q.engine.clock()+ttl, 1)
}

// over tells whether the queue is beyond its limits, with n messages more.
// What is out for settlement does not count.
func (q *queue) over(n int, bytes int64) bool {
	a := &q.spec.Args
	return a.HasMaxLength && q.waiting()+n > a.MaxLength ||
		a.HasMaxBytes && q.bytes-q.heldBytes+bytes > a.MaxBytes
}

// trim drops the oldest until the queue is within its limits.
func (q *queue) trim() {
	if !q.spec.Args.HasMaxLength && !q.spec.Args.HasMaxBytes {
		return
	}
	for q.waiting() > 0 && q.over(0, 0) {
		if !q.dropOldest() {
			return
		}
	}
}

// dropOldest leaves out what a session's client may know by its packet id.
func (q *queue) dropOldest() bool {
	if len(q.back) > 0 && q.spec.Key.Kind != core.SessionQueue {
		q.drop(q.back.pop(), core.DropOverflow)
		return true
	}
	if q.ready.len() == 0 {
		return false
	}
	q.drop(q.ready.popFront(), core.DropOverflow)
	return true
}

func (q *queue) drop(e entry, why core.DropReason) {
	q.bytes -= e.size()
	q.spec.Drops.Add(why, 1)
}

// expired tells whether an entry's time is over.
func (q *queue) expired(e *entry) bool {
	return e.deadline != 0 && !e.started && q.engine.clock() >= e.deadline
}

// take removes the oldest message that is still good.
func (q *queue) take() (entry, bool) {
	q.refill()
	for q.waiting() > 0 {
		var e entry
		if len(q.back) > 0 {
			e = q.back.pop()
		} else {
			e = q.ready.popFront()
		}
		if !q.expired(&e) {
			return e, true
		}
		q.drop(e, core.DropExpired)
		q.refill()
	}
	return entry{}, false
}

// giveBack puts an entry that was taken and not handed over into its place.
func (q *queue) giveBack(e entry) {
	if e.started || e.attempts > 0 || len(q.back) > 0 {
		q.back.push(e)
		return
	}
	q.ready.pushFront(e)
}

// refill takes replayed messages in. The source is asked under mu, so that a
// live message of the same topic is either seen by it or comes after.
func (q *queue) refill() {
	for len(q.replays) > 0 && q.waiting() < replayAhead {
		r := &q.replays[0]
		m, ok := r.src()
		if !ok {
			q.replays[0] = replay{}
			if q.replays = q.replays[1:]; len(q.replays) == 0 {
				q.replays = nil
			}
			continue
		}
		q.lastSeq++
		e := entry{msg: m, to: r.to, seq: q.lastSeq, replayed: true,
			transient: m.Guarantee == core.AtMostOnce || r.to.atMostOnce}
		if m.Props != nil || q.spec.Args.HasMessageTTL {
			e.deadline = q.deadline(m)
		}
		q.bytes += e.size()
		q.ready.pushBack(e)
	}
}

// replay starts a snapshot. Without mu.
func (q *queue) replay(src core.Source, value any) {
	b := &core.Batch{}
	q.mu.Lock()
	if !q.dead {
		q.replays = append(q.replays, replay{src, &target{queue: q, matched: []any{value}}})
		q.drain(b)
	}
	q.mu.Unlock()
	b.Flush()
}

// watch sets the timer for the oldest message's deadline.
func (q *queue) watch() {
	var head *entry
	if len(q.back) > 0 {
		head = &q.back[0]
	} else if q.ready.len() > 0 {
		head = q.ready.at(0)
	}
	if head == nil || head.deadline == 0 || head.started || q.expiry != nil && q.armed == head.deadline {
		return
	}
	q.stopWatch()
	q.armed = head.deadline
	q.expiry = time.AfterFunc(head.deadline-q.engine.clock(), q.sweep)
}

func (q *queue) stopWatch() {
	if q.expiry != nil {
		q.expiry.Stop()
		q.expiry = nil
	}
}

// sweep drops what expired at the head. Without mu.
func (q *queue) sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expiry = nil
	for len(q.back) > 0 && q.expired(&q.back[0]) {
		q.drop(q.back.pop(), core.DropExpired)
	}
	for len(q.back) == 0 && q.ready.len() > 0 && q.expired(q.ready.at(0)) {
		q.drop(q.ready.popFront(), core.DropExpired)
	}
	q.watch()
}

// purge drops all ready messages. Without mu.
func (q *queue) purge() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.waiting()
	for i := range q.ready.n {
		q.bytes -= q.ready.at(i).size()
	}
	for i := range q.back {
		q.bytes -= q.back[i].size()
	}
	q.ready, q.back, q.replays = ring{}, nil, nil
	q.stopWatch()
	return n
}

// used restarts the clock of x-expires. Without mu.
func (q *queue) used() {
	if q.spec.Args.Expires == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastUsed = q.engine.clock()
	if q.idle == nil && !q.dead {
		q.idle = time.AfterFunc(q.spec.Args.Expires, q.unused)
	}
}

// unused deletes the queue when nobody used it for x-expires. Without mu.
func (q *queue) unused() {
	q.mu.Lock()
	left := q.spec.Args.Expires - (q.engine.clock() - q.lastUsed)
	if len(q.consumers) > 0 {
		left = q.spec.Args.Expires
	}
	if left > 0 {
		q.idle.Reset(left)
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	// Somebody else deleting it first is as good.
	_, _ = q.engine.remove(q, core.DeleteOptions{})
}

// close checks the conditions of a delete and makes the queue take no more.
// Without mu.
func (q *queue) close(o core.DeleteOptions) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o.IfUnused && len(q.consumers) > 0 {
		return fmt.Errorf("%v has consumers: %w", q.spec.Key, core.ErrInUse)
	}
	if o.IfEmpty && q.waiting() > 0 {
		return fmt.Errorf("%v has messages: %w", q.spec.Key, core.ErrInUse)
	}
	q.dead = true
	return nil
}

// end drops everything and tells the consumers. Without mu.
func (q *queue) end() int {
	n := q.purge()
	q.mu.Lock()
	left := q.consumers
	q.consumers = nil
	for _, c := range left {
		c.cancelled = true
	}
	q.held, q.bytes, q.heldBytes = nil, 0, 0
	if q.idle != nil {
		q.idle.Stop()
	}
	q.mu.Unlock()
	for _, c := range left {
		if g, ok := c.recv.(core.QueueGone); ok {
			g.QueueGone()
		}
	}
	return n
}
