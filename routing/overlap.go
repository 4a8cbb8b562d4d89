package routing

// Overlaps tells whether there is a topic that both filters match. The zero values overlap with nothing. The cost is
// bounded by the product of their numbers of segments.
func (f Filter) Overlaps(g Filter) bool {
	if f.text == "" || g.text == "" || f.hides(g) || g.hides(f) {
		return false
	}
	return meet(f.Segments(), g.Segments())
}

// hides: g is of topics that begin with '$', which f's wildcard does not match.
func (f Filter) hides(g Filter) bool { return g.text[0] == '$' && beginsWild(f.text) && !f.dollars }

// meet goes from the ends of both lists to their beginnings: row[j] tells whether what is left of a, from i on, and of
// b, from j on, have a topic in common.
func meet(a, b []Segment) bool {
	row, below := make([]bool, len(b)+1), make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		row, below = below, row
		for j := len(b); j >= 0; j-- {
			row[j] = meetAt(a[i:], b[j:], row[j:], below[j:])
		}
	}
	return row[0]
}

// meetAt is one place of the table: row[1] has taken a segment off b, below[0] one off a, below[1] one off each.
func meetAt(a, b []Segment, row, below []bool) bool {
	switch {
	case begins(a, AnyLevels):
		return below[0] || len(b) > 0 && row[1]
	case begins(b, AnyLevels):
		return row[1] || len(a) > 0 && below[0]
	case len(a) == 0 || len(b) == 0:
		return len(a) == len(b)
	}
	return below[1] && alike(a[0], b[0])
}

func begins(list []Segment, k SegmentKind) bool { return len(list) > 0 && list[0].Kind == k }

// alike tells whether two segments that take one level each may take the same.
func alike(a, b Segment) bool { return a.Kind == OneLevel || b.Kind == OneLevel || a.Level == b.Level }
