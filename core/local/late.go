package local

import (
	"time"

	"entrepot/core"
)

// A message that was given back may have to wait before it is tried again, so
// that one which nobody can do does not keep everybody busy: with
// x-redelivery-delay from the first time on, and where nothing ends the tries
// (no limit, no session) after a good number of them. It keeps its place in
// the queue, others pass it meanwhile. After a restart it is due at once.

const (
	freeTries     = 10 // without x-redelivery-delay
	firstWait     = 100 * time.Millisecond
	longestWait   = 10 * time.Second
	waitDoublings = 6         // of x-redelivery-delay: up to 64 times
	waitCeiling   = time.Hour // but no longer than this
)

// backOff is how long an entry waits that was given back so many times.
func (q *queue) backOff(attempts uint32) time.Duration {
	d := q.args.RedeliverWait
	switch {
	case q.key.Kind == core.SessionQueue:
		return 0
	case d > 0:
		return max(d, min(d<<min(attempts-1, waitDoublings), waitCeiling))
	case q.limit >= 0 || attempts <= q.engine.tries:
		return 0
	}
	return min(firstWait<<min(attempts-q.engine.tries-1, 8), longestWait)
}

// lateEntry waits until due, on the engine's clock.
type lateEntry struct {
	entry
	due time.Duration
}

// late is a heap by due, then seq. A queue has one while something is in it.
type late []lateEntry

func (h late) before(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].seq < h[j].seq
}

func (h *late) push(e lateEntry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		p := (i - 1) / 2
		if !s.before(i, p) {
			break
		}
		s[p], s[i] = s[i], s[p]
		i = p
	}
}

func (h *late) pop() lateEntry {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = lateEntry{}
	s = s[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(s) {
			break
		}
		if c+1 < len(s) && s.before(c+1, c) {
			c++
		}
		if !s.before(c, i) {
			break
		}
		s[i], s[c] = s[c], s[i]
		i = c
	}
	if *h = s; last == 0 {
		*h = nil
	}
	return top
}

// keep removes the entries that f refuses.
func (h *late) keep(f func(*entry) bool) {
	var left late
	for i := range *h {
		if f(&(*h)[i].entry) {
			left.push((*h)[i])
		}
	}
	*h = left
}

// putOff lets an entry that was given back wait for its next try.
func (q *queue) putOff(e entry, wait time.Duration) {
	due := later(q.engine.clock(), wait)
	if due == 0 || e.deadline != 0 && e.deadline < due {
		due = e.deadline
	}
	q.waitBytes += e.size()
	q.late.push(lateEntry{e, due})
	q.arm(q.late[0].due)
}

// wakeLate gives back what is due; it tells whether there was some.
func (q *queue) wakeLate() (some bool) {
	for len(q.late) > 0 && q.late[0].due <= q.engine.clock() {
		e := q.late.pop().entry
		q.waitBytes -= e.size()
		q.giveBack(e)
		some = true
	}
	return some
}
