package routing

import "strings"

// SegmentKind says what a segment of a filter matches.
type SegmentKind uint8

// The kinds.
const (
	Literal   SegmentKind = iota // one level, that one
	OneLevel                     // exactly one level, any
	AnyLevels                    // zero or more levels
)

// Segment is one part of a filter. Level is the decoded level of a literal.
type Segment struct {
	Kind  SegmentKind
	Level string
}

// Filter is an immutable list of 1 to 128 segments, of which at most two are any-levels. It is held as its canonical
// text, the MQTT spelling in which '#' may stand anywhere; so == compares filters and a Filter may be a map key. It also
// carries whether a wildcard in its first segment matches topics whose first level begins with '$' (as AMQP bindings
// do; the filters of other protocols do not). The zero value is no filter and matches nothing.
type Filter struct {
	text    string
	dollars bool
}

// NewFilter makes a filter of segments. Errors wrap [ErrFilter]; their byte is -1.
func NewFilter(segments ...Segment) (Filter, error) {
	w := writer{of: ErrFilter}
	for _, s := range segments {
		switch s.Kind {
		case OneLevel:
			w.wildcard('+')
		case AnyLevels:
			w.wildcard('#')
		default:
			w.level(s.Level)
		}
	}
	return w.filter()
}

// ParseFilter reads a canonical text, in which '#' may stand anywhere; it gives back what [Filter.String] gave, without
// the mark of [Filter.WithDollars]. Errors wrap [ErrFilter]. It does not allocate.
func ParseFilter(text string) (Filter, error) {
	if fault, at := scanFilter(text, true); fault != 0 {
		return Filter{}, refuse(ErrFilter, fault, text, "/", at)
	}
	return Filter{text: text}, nil
}

// ParseTopic reads a canonical text; it gives back what [Topic.String] gave. Errors wrap [ErrTopic]. It does not
// allocate.
func ParseTopic(text string) (Topic, error) { return MQTT.ParseTopic(text) }

// String is the canonical text; "" for the zero value.
func (f Filter) String() string { return f.text }

// IsZero tells whether f is no filter.
func (f Filter) IsZero() bool { return f.text == "" }

// Len is the number of segments, 0 for the zero value.
func (f Filter) Len() int { return Topic{f.text}.Len() }

// Segments is the list that f stands for.
func (f Filter) Segments() []Segment {
	if f.text == "" {
		return nil
	}
	texts := strings.Split(f.text, "/")
	if len(texts) == 1 {
		texts[0] = soleLevel(texts[0])
	}
	segments := make([]Segment, len(texts))
	for i, s := range texts {
		switch s {
		case "+":
			segments[i].Kind = OneLevel
		case "#":
			segments[i].Kind = AnyLevels
		default:
			segments[i].Level = canonical.decoded(s)
		}
	}
	return segments
}

// First is the first segment in canonical text: "+", "#", or a literal as [Topic.First] gives it.
func (f Filter) First() string { return firstOf(f.text) }

// WithDollars is f with a first segment that, when a wildcard, matches levels that begin with '$' too. A filter that
// begins with a literal level is returned as it is.
func (f Filter) WithDollars() Filter {
	f.dollars = beginsWild(f.text)
	return f
}

// Dollars tells whether f is marked by [Filter.WithDollars].
func (f Filter) Dollars() bool { return f.dollars }

// HasWildcard tells whether f is more than one literal topic. In a canonical text '+' and '#' are wildcards only.
func (f Filter) HasWildcard() bool { return strings.ContainsAny(f.text, "+#") }

// Topic is the one topic that f matches, when f has no wildcard.
func (f Filter) Topic() (Topic, bool) {
	if f.text == "" || f.HasWildcard() {
		return Topic{}, false
	}
	return Topic{f.text}, true
}

// Drop is the filter without its first n segments; the zero filter when none is left. The mark of WithDollars is lost.
func (f Filter) Drop(n int) Filter { return Filter{text: drop(f.text, n)} }

// Match tells whether f matches t: the levels of t can be dealt out to the segments of f in order, one to each literal
// and to each one-level, any number to each any-levels. The zero values match nothing. The cost is bounded by the
// number of levels times the number of segments.
func (f Filter) Match(t Topic) bool {
	if f.text == "" || t.text == "" || !f.dollars && t.Dollar() && beginsWild(f.text) {
		return false
	}
	return matchLevels(openLevels(f.text), openLevels(t.text))
}

// Covers tells that f matches every topic that g matches, for rules that grant filters. It is never wrong when it says
// so; it may say no where different lists of wildcards come to the same ("+/#" and "#/+"). The zero values cover nothing
// and are not covered. The cost is bounded as that of Match.
func (f Filter) Covers(g Filter) bool {
	if f.text == "" || g.text == "" {
		return false
	}
	hidden := g.dollars || g.text[0] == '$' // g matches topics that begin with '$'
	if hidden && !f.dollars && beginsWild(f.text) {
		return false
	}
	return matchLevels(openLevels(f.text), openLevels(g.text))
}

// beginsWild tells whether the first segment of a canonical text is a wildcard.
func beginsWild(text string) bool { return text != "" && (text[0] == '+' || text[0] == '#') }

// levels is what is left of a canonical text to go through; more is false at its end. Comparable, cheap to copy.
type levels struct {
	text string
	more bool
}

func openLevels(text string) levels {
	if strings.IndexByte(text, '/') < 0 {
		text = soleLevel(text)
	}
	return levels{text, true}
}

// cut takes the next level off; sep is what parts the levels.
func (l levels) cut(sep string) (string, levels) {
	head, tail, more := strings.Cut(l.text, sep)
	return head, levels{tail, more}
}

// matchLevels goes through both lists at once. After a mismatch behind an any-levels segment that segment takes one
// level more and what follows it is tried again; only the last any-levels needs that, since what an earlier one took
// is the least it could. A level "#" is one of a filter that is to be covered, which no topic has.
func matchLevels(f, t levels) bool {
	var retryF, retryT levels
	retry := false
	for f.more || t.more {
		if f.more {
			segment, rest := f.cut("/")
			if segment == "#" {
				if !rest.more {
					return true
				}
				f, retryF, retryT, retry = rest, rest, t, true
				continue
			}
			if t.more {
				level, left := t.cut("/")
				if segment == level || segment == "+" && level != "#" {
					f, t = rest, left
					continue
				}
			}
		}
		if !retry || !retryT.more {
			return false
		}
		_, retryT = retryT.cut("/")
		f, t = retryF, retryT
	}
	return true
}
