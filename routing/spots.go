package routing

import (
	"math/bits"
	"strings"
)

// spots is a set of places in a list of at most 128 levels or segments.
type spots struct{ lo, hi uint64 }

func spot(i int) spots {
	if i < 64 {
		return spots{lo: 1 << i}
	}
	return spots{hi: 1 << (i - 64)}
}

// span is the places from i to before n.
func span(i, n int) spots { return below(n).without(below(i)) }

// below is the places before n.
func below(n int) spots {
	switch {
	case n >= 128:
		return spots{^uint64(0), ^uint64(0)}
	case n >= 64:
		return spots{^uint64(0), 1<<(n-64) - 1}
	}
	return spots{lo: 1<<n - 1}
}

func (s spots) empty() bool           { return s.lo|s.hi == 0 }
func (s spots) or(o spots) spots      { return spots{s.lo | o.lo, s.hi | o.hi} }
func (s spots) and(o spots) spots     { return spots{s.lo & o.lo, s.hi & o.hi} }
func (s spots) without(o spots) spots { return spots{s.lo &^ o.lo, s.hi &^ o.hi} }
func (s spots) has(i int) bool        { return !s.and(spot(i)).empty() }

// shifted is every place one further; place 127 falls out.
func (s spots) shifted() spots { return spots{s.lo << 1, s.hi<<1 | s.lo>>63} }

// lowest is the first place of a set that is not empty.
func (s spots) lowest() int {
	if s.lo != 0 {
		return bits.TrailingZeros64(s.lo)
	}
	return 64 + bits.TrailingZeros64(s.hi)
}

// cut is a canonical text cut into its segments, with the places where the same text stands. It is made where a match
// has to look at many places at once: one step of such a match takes all of them in a few machine words.
type cut struct {
	text string
	n    int
	from [MaxLevels + 1]int32 // where segment i begins; from[n] is behind the end and one '/'
	same [MaxLevels]spots     // the places with the text of segment i, its own among them
}

// fill cuts text, which is in the form of several levels: see soleLevel.
func (c *cut) fill(text string) {
	c.text = text
	at := 0
	for at <= len(text) {
		c.from[c.n] = int32(at)
		c.n++
		i := strings.IndexByte(text[at:], '/')
		if i < 0 {
			break
		}
		at += i + 1
	}
	c.from[c.n] = int32(len(text) + 1)
	todo := below(c.n)
	for !todo.empty() {
		i := todo.lowest()
		s := c.segment(i)
		set := spot(i)
		for j := i + 1; j < c.n; j++ {
			if todo.has(j) && c.segment(j) == s {
				set = set.or(spot(j))
			}
		}
		for rest := set; !rest.empty(); rest = rest.without(spot(rest.lowest())) {
			c.same[rest.lowest()] = set
		}
		todo = todo.without(set)
	}
}

func (c *cut) segment(i int) string { return c.text[c.from[i] : c.from[i+1]-1] }

// only is the places of a set where a text stands. The cost is the number of different texts in the set.
func (c *cut) only(set spots, text string) spots {
	for left := set; !left.empty(); {
		i := left.lowest()
		if c.segment(i) == text {
			return c.same[i].and(set)
		}
		left = left.without(c.same[i])
	}
	return spots{}
}

// place is all the places in a topic that a filter may have come to: the levels that may be next, the lowest of them
// (the number of levels when there is none), and whether it may have come to the end.
type place struct {
	next spots
	low  int
	end  bool
}

// at is the place before level i.
func (c *cut) at(i int) place {
	if i == c.n {
		return place{low: i, end: true}
	}
	return place{next: spot(i), low: i}
}

// anywhere is the place behind an any-levels that was met before level i.
func (c *cut) anywhere(i int) place { return place{next: span(i, c.n), low: i, end: true} }

// after is the place behind levels of which one was taken; last is not empty.
func (c *cut) after(last spots) place {
	return place{next: last.shifted().and(below(c.n)), low: last.lowest() + 1, end: last.has(c.n - 1)}
}

// pass is the place behind the segments of a path; the zero place when they do not match.
func (c *cut) pass(path string, p place) place {
	for path != "" {
		var segment string
		segment, path = split(path)
		last := p.next
		switch segment {
		case "#":
			p = c.anywhere(p.low)
			continue
		case "+":
		default:
			last = c.only(last, segment)
		}
		if last.empty() {
			return place{}
		}
		p = c.after(last)
	}
	return p
}
