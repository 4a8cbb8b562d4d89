package routing

import "strings"

// Table holds (filter, value) pairs and finds those whose filter matches a topic. The zero value is an empty table.
// Reads may run beside each other, not beside writes.
type Table[V comparable] struct {
	plain   trie[values[V]]
	dollars trie[values[V]] // the filters with the mark of WithDollars; all begin with a wildcard
	pairs   int
}

func (t *Table[V]) of(f Filter) *trie[values[V]] {
	if f.dollars {
		return &t.dollars
	}
	return &t.plain
}

// Add puts a pair in; false when it was there. The zero filter is not taken. The table keeps the text of f.
func (t *Table[V]) Add(f Filter, v V) bool {
	if f.text == "" {
		return false
	}
	n := t.of(f).insert(f.text)
	switch {
	case !n.full:
		n.full, n.entry.one = true, v
	case !n.entry.add(v):
		return false
	}
	t.pairs++
	return true
}

// Remove takes a pair out; false when it was not there.
func (t *Table[V]) Remove(f Filter, v V) bool {
	if f.text == "" {
		return false
	}
	trie := t.of(f)
	n := trie.find(f.text)
	if n == nil {
		return false
	}
	had, empty := n.entry.remove(v)
	if !had {
		return false
	}
	if empty {
		trie.remove(f.text)
	}
	t.pairs--
	return true
}

// Len is the number of pairs.
func (t *Table[V]) Len() int { return t.pairs }

// All visits every pair's value, in no order. visit must not change the table.
func (t *Table[V]) All(visit func(V)) {
	each := func(s *values[V]) bool { s.each(visit); return true }
	t.plain.root.each(each)
	t.dollars.root.each(each)
}

// Match visits every pair whose filter matches topic, each once, in no order. visit must not change the table. It visits
// a node of the table at most twice, whatever the filters are, and does not allocate (except for a topic whose only
// level looks like an escaped "%00").
func (t *Table[V]) Match(topic Topic, visit func(V)) {
	if topic.text == "" || t.pairs == 0 {
		return
	}
	text := topic.text
	if isSole(text) {
		text = soleLevel(text)
	}
	s := search[V]{text: text, visit: visit}
	s.run(t, topic.Dollar())
	if s.loose {
		t.sweep(topic.Dollar(), text, visit)
	}
}

// sweep is the second pass, for filters with any-levels before their end.
func (t *Table[V]) sweep(hidden bool, text string, visit func(V)) {
	var c cut
	c.fill(text)
	s := search[V]{text: text, visit: visit, sweep: &c}
	s.run(t, hidden)
}

// search is one pass through a table. A filter without any-levels, or with one at its end, is at one place of the topic
// at each of its segments: the first pass finds those, and notes whether there are others. A filter is at many places
// behind an any-levels that is not its last segment: the second pass finds those, and takes all places at once. So in
// either pass every node is visited at most once, since one path leads to it.
type search[V comparable] struct {
	text  string // of the topic, in the form of several levels
	visit func(V)
	loose bool // found out by the first pass: there is work for the second
	sweep *cut // the topic, in the second pass
}

func (s *search[V]) run(t *Table[V], hidden bool) {
	if f := t.plain.root.fork; f != nil {
		if hidden {
			s.literal(f, 0, 0)
		} else {
			s.walk(&t.plain.root, 0, 0)
		}
	}
	if t.dollars.root.fork != nil {
		s.walk(&t.dollars.root, 0, 0)
	}
}

// level is where the level ends that begins at byte at.
func (s *search[V]) level(at int) int {
	if i := strings.IndexByte(s.text[at:], '/'); i >= 0 {
		return at + i
	}
	return len(s.text)
}

// literal goes on in the literal child for level i, which begins at byte at.
func (s *search[V]) literal(f *fork[values[V]], at, i int) {
	end := s.level(at)
	if n := f.literal(s.text[at:end]); n != nil {
		s.walk(n, end+1, i+1)
	}
}

// walk goes on in node n, whose segment took level i-1; the next level begins at byte at.
func (s *search[V]) walk(n *node[values[V]], at, i int) {
	for {
		f := n.fork
		if f == nil {
			s.leaf(n, at, i)
			return
		}
		if n.rest != "" {
			if at, i = s.pass(n.rest, at, i); at < 0 {
				return
			}
		}
		if f.hash != nil {
			s.any(f.hash, i)
		}
		if at > len(s.text) {
			if n.full && s.sweep == nil {
				n.entry.each(s.visit)
			}
			return
		}
		end := s.level(at)
		if f.plus != nil {
			s.walk(f.plus, end+1, i+1)
		}
		if n = f.literal(s.text[at:end]); n == nil {
			return
		}
		at, i = end+1, i+1
	}
}

// pass takes a level for each segment of a path up to a "#"; at is less than 0 when they do not match.
func (s *search[V]) pass(path string, at, i int) (int, int) {
	for path != "" {
		var segment string
		segment, path = split(path)
		if segment == "#" {
			break
		}
		if at > len(s.text) {
			return -1, 0
		}
		end := s.level(at)
		if segment != "+" && segment != s.text[at:end] {
			return -1, 0
		}
		at, i = end+1, i+1
	}
	return at, i
}

// any is for the any-levels child of a node whose path took i levels.
func (s *search[V]) any(n *node[values[V]], i int) {
	switch {
	case s.sweep == nil:
		if n.full && n.rest == "" {
			n.entry.each(s.visit)
		}
		s.loose = s.loose || n.fork != nil || n.rest != ""
	case n.rest != "":
		s.enter(n, s.sweep.anywhere(i))
	case n.fork != nil:
		s.fan(n.fork, s.sweep.anywhere(i))
	}
}

// leaf is for a leaf whose segment took level i-1; the next level begins at byte at.
func (s *search[V]) leaf(n *node[values[V]], at, i int) {
	if s.sweep == nil && n.rest == s.text[at-1:] {
		n.entry.each(s.visit)
		return
	}
	hash := strings.Index(n.rest, "/#")
	switch {
	case hash < 0: // the rest has no any-levels
		if s.sweep == nil {
			if at, _ = s.pass(n.rest, at, i); at > len(s.text) {
				n.entry.each(s.visit)
			}
		}
	case hash == len(n.rest)-2: // at its end
		if s.sweep == nil {
			if at, _ = s.pass(n.rest, at, i); at >= 0 {
				n.entry.each(s.visit)
			}
		}
	case s.sweep == nil: // before its end
		if at, _ = s.pass(n.rest, at, i); at >= 0 {
			s.loose = true
		}
	default:
		s.enter(n, s.sweep.at(i))
	}
}

// enter goes on in a node with all the places that it may be at, in the second pass.
func (s *search[V]) enter(n *node[values[V]], p place) {
	p = s.sweep.pass(n.rest, p)
	if n.full && p.end {
		n.entry.each(s.visit)
	}
	if n.fork != nil && (p.end || !p.next.empty()) {
		s.fan(n.fork, p)
	}
}

// fan goes on in the children of a fork, in the second pass.
func (s *search[V]) fan(f *fork[values[V]], p place) {
	c := s.sweep
	if f.hash != nil {
		s.enter(f.hash, c.anywhere(p.low))
	}
	if f.plus != nil && !p.next.empty() {
		s.enter(f.plus, c.after(p.next))
	}
	for left := p.next; !left.empty(); {
		i := left.lowest()
		here := c.same[i].and(p.next)
		left = left.without(here)
		if n := f.literal(c.segment(i)); n != nil {
			s.enter(n, c.after(here))
		}
	}
}
