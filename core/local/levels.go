package local

import "sort"

// A queue with x-max-priority has a level for each priority. The highest byte
// of a seq is the level, 255 less the priority, so that the order of seqs is
// the order of the queue, in memory and on disk: by priority, and within one
// as published. Below it is the number that counts the queue's messages. In
// queues without priorities that byte is 0.
const (
	rankShift  = 56
	numberMask = 1<<rankShift - 1
)

// number is a seq without its level.
func number(seq uint64) uint64 { return seq & numberMask }

// line is what waits in memory and was never handed over: one ring, or with
// priorities one for each level.
type line struct {
	ring
	levels *levels
}

// levels are those of a queue with priorities, the highest first. Under
// queue.mu.
type levels struct {
	highest uint64 // the level of the highest priority
	rings   []ring
	parts   []part
	n       int // in all rings
	bound   int // how many in a row may pass those that wait; 0: any number
	passed  int // in a row by now
}

func newLevels(most, bound int) *levels {
	return &levels{highest: uint64(255 - most), bound: bound, rings: make([]ring, most+1), parts: make([]part, most+1)}
}

// level is the level of a seq, counted from the highest.
func (l *levels) level(seq uint64) int { return int(seq>>rankShift - l.highest) }

// first is the lowest seq that a level may have.
func (l *levels) first(level int) uint64 { return (l.highest + uint64(level)) << rankShift }

// empty tells whether nothing of a level waits, in rings or on disk.
func (l *levels) empty(level int) bool { return l.rings[level].n == 0 && l.parts[level].n == 0 }

// oldest is the lowest seq of a level that is not empty.
func (l *levels) oldest(level int) uint64 {
	if r := &l.rings[level]; r.n > 0 {
		return r.at(0).seq
	}
	return l.first(level) | l.parts[level].next
}

// turn is the level whose oldest comes next: the highest that is not empty,
// except when so many have passed that it is the turn of the oldest of those
// below. -1: all are empty.
func (l *levels) turn() int {
	top := 0
	for top < len(l.rings) && l.empty(top) {
		top++
	}
	if top == len(l.rings) {
		return -1
	}
	if l.bound == 0 || l.passed < l.bound {
		return top
	}
	best := -1
	for i := top + 1; i < len(l.rings); i++ {
		if !l.empty(i) && (best < 0 || number(l.oldest(i)) < number(l.oldest(best))) {
			best = i
		}
	}
	if best < 0 {
		return top
	}
	return best
}

// count notes that one of a level was taken.
func (l *levels) count(level int) {
	if l.bound == 0 {
		return
	}
	for i := len(l.rings) - 1; i > level; i-- {
		if !l.empty(i) {
			l.passed++
			break
		}
		if i == level+1 {
			l.passed = 0
		}
	}
	if l.passed > l.bound || level == len(l.rings)-1 {
		l.passed = 0
	}
}

// lowest is the lowest level that is not empty, -1 for none.
func (l *levels) lowest() int {
	for i := len(l.rings) - 1; i >= 0; i-- {
		if !l.empty(i) {
			return i
		}
	}
	return -1
}

func (l *line) len() int {
	if l.levels != nil {
		return l.levels.n
	}
	return l.ring.n
}

func (l *line) pushBack(e entry) {
	if v := l.levels; v != nil {
		v.n++
		v.rings[v.level(e.seq)].pushBack(e)
		return
	}
	l.ring.pushBack(e)
}

func (l *line) find(seq uint64) *entry {
	if v := l.levels; v != nil {
		return v.rings[v.level(seq)].find(seq)
	}
	return l.ring.find(seq)
}

// remove takes out the entry with that seq, if it is here.
func (l *line) remove(seq uint64) {
	v := l.levels
	if v == nil {
		l.ring.remove(seq)
		return
	}
	r := &v.rings[v.level(seq)]
	before := r.n
	r.remove(seq)
	v.n -= before - r.n
}

// keep removes the entries that f refuses.
func (l *line) keep(f func(*entry) bool) {
	v := l.levels
	if v == nil {
		l.ring.keep(f)
		return
	}
	v.n = 0
	for i := range v.rings {
		v.rings[i].keep(f)
		v.n += v.rings[i].n
	}
}

// each calls f for every entry, level by level.
func (l *line) each(f func(*entry)) {
	rings := []ring{l.ring}
	if l.levels != nil {
		rings = l.levels.rings
	}
	for i := range rings {
		for at := range rings[i].n {
			f(rings[i].at(at))
		}
	}
}

// empty forgets all.
func (l *line) empty() {
	l.ring = ring{}
	if l.levels != nil {
		l.keep(func(*entry) bool { return false })
	}
}

// deepest is how far from an end of its level an entry is put back among the
// others; one further in goes to those that came back.
const deepest = 128

// insert puts an entry into its place in its level, unless that is too deep.
func (v *levels) insert(e entry) bool {
	r := &v.rings[v.level(e.seq)]
	i := sort.Search(r.n, func(i int) bool { return r.at(i).seq > e.seq })
	if i > deepest && v.bound == 0 {
		return false
	}
	r.pushFront(e)
	for at := range i {
		*r.at(at), *r.at(at + 1) = *r.at(at + 1), *r.at(at)
	}
	v.n++
	return true
}

// rankedHead is head with levels.
func (q *queue) rankedHead() *entry {
	v := q.ready.levels
	level := v.turn()
	if len(q.back) > 0 && (level < 0 || q.back[0].seq < v.oldest(level)) {
		return &q.back[0]
	}
	if level < 0 || v.rings[level].n == 0 {
		return nil
	}
	return v.rings[level].at(0)
}

// popRanked removes what rankedHead shows.
func (q *queue) popRanked() entry {
	h := q.rankedHead()
	if len(q.back) > 0 && h == &q.back[0] {
		return q.back.pop()
	}
	v := q.ready.levels
	level := v.level(h.seq)
	v.n--
	e := v.rings[level].popFront()
	v.count(level)
	return e
}

// rankedToRead is the level whose oldest comes next and is on disk only.
func (q *queue) rankedToRead() (*part, uint64) {
	v := q.ready.levels
	level := v.turn()
	if level < 0 || v.rings[level].n > 0 || len(q.back) > 0 && q.back[0].seq < v.oldest(level) {
		return nil, 0
	}
	return &v.parts[level], v.first(level)
}

// readsBefore tells whether something comes before a seq that is on disk only;
// without levels nothing there is older than what is aside.
func (q *queue) readsBefore(seq uint64) bool {
	if q.ready.levels == nil {
		return false
	}
	p, first := q.toRead()
	return p != nil && first|p.next < seq
}

// lowestToRead is the lowest level, where its oldest is on disk only.
func (q *queue) lowestToRead() (*part, uint64) {
	v := q.ready.levels
	level := v.lowest()
	if level < 0 || v.rings[level].n > 0 {
		return nil, 0
	}
	return &v.parts[level], v.first(level)
}

// lowestAside is the oldest of the lowest level where that is aside, and
// nothing older of it is in memory or on disk.
func (q *queue) lowestAside(level int) *entry {
	if q.aside.first() == nil {
		return nil
	}
	v := q.ready.levels
	lowest := v.level(q.aside.last().seq)
	if lowest < level {
		return nil
	}
	p := q.aside.after(v.first(lowest) - 1)
	if lowest == level && v.oldest(level) < p.seq {
		return nil
	}
	return p
}

// dropLowest drops the oldest of the lowest level: a full queue gives up what
// matters least. What came back goes when nothing else is there.
func (q *queue) dropLowest() (entry, bool) {
	v := q.ready.levels
	level := v.lowest()
	if p := q.lowestAside(level); p != nil {
		return q.popAside(p), true
	}
	if level < 0 {
		if len(q.back) == 0 {
			return entry{}, false
		}
		e := q.back.pop()
		q.waitBytes -= e.size()
		return e, true
	}
	r := &v.rings[level]
	if r.n == 0 || r.at(0).pending {
		return entry{}, false
	}
	v.n--
	e := r.popFront()
	q.waitBytes -= e.size()
	return e, true
}
