package local

import "sort"

// outstanding are the entries that a consumer holds, by seq. They come mostly
// in order of seq and are settled mostly in that order, so most lie in a ring,
// where settled ones leave a hole until those before them are settled too.
// The zero value is empty.
type outstanding struct {
	ring  ring             // in order of seq; a hole has no message
	holes int              // in ring
	late  map[uint64]entry // those that came after a younger one
}

func (o *outstanding) len() int { return o.ring.len() - o.holes + len(o.late) }

func (o *outstanding) add(e entry) {
	if n := o.ring.len(); n == 0 || o.ring.at(n-1).seq < e.seq {
		o.ring.pushBack(e)
		return
	}
	if o.late == nil {
		o.late = map[uint64]entry{}
	}
	o.late[e.seq] = e
}

// remove takes the entry with that seq out, if it is here.
func (o *outstanding) remove(seq uint64) (entry, bool) {
	if i := o.find(seq); i >= 0 {
		e := *o.ring.at(i)
		*o.ring.at(i) = entry{seq: seq}
		o.holes++
		o.tidy()
		return e, true
	}
	e, ok := o.late[seq]
	if ok {
		if delete(o.late, seq); len(o.late) == 0 {
			o.late = nil
		}
	}
	return e, ok
}

// find is the place in the ring of an entry that is no hole, or -1.
func (o *outstanding) find(seq uint64) int {
	n := o.ring.len()
	if n == 0 {
		return -1
	}
	i := 0
	if o.ring.at(0).seq != seq {
		i = sort.Search(n, func(i int) bool { return o.ring.at(i).seq >= seq })
	}
	if i == n || o.ring.at(i).seq != seq || o.ring.at(i).msg == nil {
		return -1
	}
	return i
}

// tidy removes the holes at the head, and all of them when they are many.
func (o *outstanding) tidy() {
	for o.ring.len() > 0 && o.ring.at(0).msg == nil {
		o.ring.popFront()
		o.holes--
	}
	if o.holes > 32 && o.holes > o.ring.len()/2 {
		o.ring.keep(func(e *entry) bool { return e.msg != nil })
		o.holes = 0
	}
}

// all calls f for each, the ring's in order of seq. f must not change o.
func (o *outstanding) all(f func(entry)) {
	for i := range o.ring.len() {
		if e := o.ring.at(i); e.msg != nil {
			f(*e)
		}
	}
	for _, e := range o.late {
		f(e)
	}
}
