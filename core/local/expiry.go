package local

import (
	"time"

	"entrepot/core"
)

// Time in a queue: messages with a TTL, the queue's own x-expires. Timers fire
// no later than something is due and look again; as deadlines mostly grow from
// message to message, one timer serves many.

// date sets an entry's deadline and whether it is instant.
func (q *queue) date(e *entry) {
	a, p := q.args, e.msg.Props
	if a.HasMessageTTL {
		e.deadline = later(q.engine.clock(), a.MessageTTL)
		e.instant = a.MessageTTL == 0
	}
	if p == nil || !p.HasTTL {
		return
	}
	d := max(p.Expires.Sub(q.engine.start), 1)
	if e.deadline == 0 || d < e.deadline {
		e.deadline = d
	}
	e.instant = e.instant || p.TTL <= 0
}

// later is a time after now; 0, which is never, when it is too far away.
func later(now, wait time.Duration) time.Duration {
	if d := now + wait; d >= now {
		return max(d, 1)
	}
	return 0
}

// expired tells whether an entry's time is over. An instant one is given up
// by settleDown, not here: while a drainer works there is a consumer with room.
func (q *queue) expired(e *entry) bool {
	return e.deadline != 0 && !e.started && !e.instant && q.engine.clock() >= e.deadline
}

// settleDown is done when a drainer ends: nobody has room, or nothing waits.
func (q *queue) settleDown() {
	q.tidy()
	if q.waiting() > 0 {
		q.watch()
	}
}

// tidy drops what cannot wait: instant messages, and what is over the limits.
func (q *queue) tidy() {
	if q.instants {
		q.instants = false
		q.weed(core.DropExpired, func(e *entry) bool {
			q.instants = q.instants || e.instant && e.pending
			return e.instant && !e.pending
		})
	}
	q.trim()
}

// watch sees to it that a timer fires no later than the oldest is due.
func (q *queue) watch() {
	if a := q.aside; a != nil && a.due != 0 {
		q.arm(a.due)
	}
	if len(q.late) > 0 {
		q.arm(q.late[0].due)
	}
	if q.dates.soonest != 0 {
		q.arm(q.dates.soonest)
	}
	if s := q.shelf; s != nil && s.dates.soonest != 0 && s.n > 0 {
		q.arm(s.dates.soonest)
	}
	e := q.head()
	switch {
	case q.datedOnDisk():
		q.arm(q.engine.clock()) // to be read first
	case e != nil && e.deadline != 0 && !e.started:
		q.arm(e.deadline)
	}
}

func (q *queue) arm(at time.Duration) {
	if q.armed != 0 && q.armed <= at {
		return
	}
	q.armed = at
	wait := at - q.engine.clock()
	if q.expiry == nil {
		q.expiry = time.AfterFunc(wait, q.sweep)
		return
	}
	q.expiry.Reset(wait)
}

func (q *queue) disarm() {
	if q.expiry != nil {
		q.expiry.Stop()
	}
	q.expiry, q.armed = nil, 0
}

// sweep drops what expired. It takes mu.
func (q *queue) sweep() {
	q.mu.Lock()
	defer q.unlock()
	q.armed = 0
	q.sweepAside()
	if q.wakeLate() && !q.dead {
		go q.drainAlone()
	}
	q.unblock()
	for {
		q.sweepMemory()
		q.sweepDisk()
		if !q.datedOnDisk() {
			break
		}
		if !q.fetch() { // somebody else reads, or it cannot be read now
			q.arm(q.engine.clock() + retryFetch)
			return
		}
	}
	if q.watch(); q.armed == 0 {
		q.expiry = nil
	}
}

// used restarts the clock of x-expires. It takes mu.
func (q *queue) used() {
	if q.args.Expires == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastUsed = q.engine.clock()
	if q.idle == nil && !q.dead {
		q.idle = time.AfterFunc(q.args.Expires, q.unused)
	}
}

// idleFor is how long the queue may still live unused; its whole time while
// it has consumers.
func (q *queue) idleFor() time.Duration {
	if len(q.consumers) > 0 {
		return q.args.Expires
	}
	return q.args.Expires - (q.engine.clock() - q.lastUsed)
}

// unused deletes the queue when nobody used it for x-expires. Without mu.
func (q *queue) unused() {
	q.mu.Lock()
	left := q.idleFor()
	if left > 0 {
		q.rearm(left)
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	if _, err := q.engine.remove(q, closing{idle: true}); err == nil {
		return
	}
	// Somebody used it, or deleted it, at the last moment.
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rearm(max(q.idleFor(), time.Millisecond))
}

func (q *queue) rearm(d time.Duration) {
	if q.idle != nil {
		q.idle.Reset(d)
	}
}
