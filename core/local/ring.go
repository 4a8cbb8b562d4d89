package local

import (
	"sort"
	"time"

	"entrepot/core"
)

// entry is one message in one queue.
type entry struct {
	msg *core.Message
	// to says which bindings brought it here; shared by the messages of a route.
	to  *target
	seq uint64
	// deadline is on the engine's clock (see clock), 0 for none.
	deadline time.Duration
	attempts uint32
	// transient: taken as AtMostOnce.
	transient bool
	replayed  bool
	// started: a session queue handed it over once; it neither expires nor
	// overflows any more, since the client may know its packet id.
	started bool
	// stored: a record of it is on disk, or on its way there.
	stored bool
	// pending: it has its place, and its publisher is about to make it ready.
	pending bool
	// instant: its TTL is zero, so it is for a consumer that has room now.
	instant bool
}

func (e *entry) size() int64 { return int64(len(e.msg.Payload)) }

// delivery is what a receiver sees of it.
func (e *entry) delivery(b *core.Batch) core.Delivery {
	return core.Delivery{Message: e.msg, Seq: e.seq, Attempts: e.attempts, Replayed: e.replayed,
		Matched: e.to.matched, Batch: b}
}

// ring is a double-ended queue of entries, in order of seq. The zero value is
// empty; an empty ring gives large memory back.
type ring struct {
	buf  []entry // length is a power of two
	head int
	n    int
}

const ringKeep = 32 // entries kept allocated when empty

func (r *ring) len() int { return r.n }

func (r *ring) at(i int) *entry { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// find returns the entry with that seq; nil when it is not here.
func (r *ring) find(seq uint64) *entry {
	i := sort.Search(r.n, func(i int) bool { return r.at(i).seq >= seq })
	if i < r.n && r.at(i).seq == seq {
		return r.at(i)
	}
	return nil
}

// lastDeadline is that of the youngest; 0 when it has none or nothing is here.
func (r *ring) lastDeadline() time.Duration {
	if r.n == 0 {
		return 0
	}
	return r.at(r.n - 1).deadline
}

func (r *ring) grow() {
	if r.n < len(r.buf) {
		return
	}
	size := 8
	switch n := len(r.buf); {
	case n >= 512:
		size = 2 * n
	case n > 0:
		size = 4 * n
	}
	buf := make([]entry, size)
	for i := range r.n {
		buf[i] = *r.at(i)
	}
	r.buf, r.head = buf, 0
}

func (r *ring) pushBack(e entry) {
	r.grow()
	r.n++
	*r.at(r.n - 1) = e
}

func (r *ring) pushFront(e entry) {
	r.grow()
	r.head = (r.head - 1) & (len(r.buf) - 1)
	r.n++
	*r.at(0) = e
}

func (r *ring) popFront() entry {
	p := r.at(0)
	e := *p
	*p = entry{}
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	if r.n == 0 && len(r.buf) > ringKeep {
		*r = ring{}
	}
	return e
}

func (r *ring) popBack() {
	*r.at(r.n - 1) = entry{}
	r.n--
}

// remove takes out the entry with that seq, if it is here.
func (r *ring) remove(seq uint64) {
	i := sort.Search(r.n, func(i int) bool { return r.at(i).seq >= seq })
	if i == r.n || r.at(i).seq != seq {
		return
	}
	if i < r.n/2 {
		for ; i > 0; i-- {
			*r.at(i) = *r.at(i - 1)
		}
		r.popFront()
		return
	}
	for ; i < r.n-1; i++ {
		*r.at(i) = *r.at(i + 1)
	}
	r.popBack()
}

// keep removes the entries that f refuses, in order.
func (r *ring) keep(f func(*entry) bool) {
	n := 0
	for i := range r.n {
		if p := r.at(i); f(p) {
			*r.at(n) = *p
			n++
		}
	}
	for i := n; i < r.n; i++ {
		*r.at(i) = entry{}
	}
	r.n = n
	if n == 0 && len(r.buf) > ringKeep {
		*r = ring{}
	}
}

// returned holds entries that were out and came back: a heap by seq.
type returned []entry

func (h *returned) push(e entry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		p := (i - 1) / 2
		if s[p].seq <= s[i].seq {
			break
		}
		s[p], s[i] = s[i], s[p]
		i = p
	}
}

func (h *returned) pop() entry {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = entry{}
	s = s[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(s) {
			break
		}
		if c+1 < len(s) && s[c+1].seq < s[c].seq {
			c++
		}
		if s[i].seq <= s[c].seq {
			break
		}
		s[i], s[c] = s[c], s[i]
		i = c
	}
	*h = s
	if last == 0 && cap(s) > ringKeep {
		*h = nil
	}
	return top
}

// keep removes the entries that f refuses.
func (h *returned) keep(f func(*entry) bool) {
	var left returned
	for i := range *h {
		if f(&(*h)[i]) {
			left.push((*h)[i])
		}
	}
	*h = left
}
