package routing

import (
	"strings"
	"unicode/utf8"
)

// Spelling is a way to write topics and filters as one text. For each: Parse of what Print gave is the same list again,
// Print of what Parse took is the same text again.
//
// Parse refuses what is not in the spelling with a *[TextError] that wraps [ErrTopic] or [ErrFilter]. Print refuses what
// the spelling cannot write in the same way. The results keep the text that was parsed, so that text must not be part
// of a larger one that is meant to be forgotten.
type Spelling interface {
	ParseTopic(text string) (Topic, error)
	PrintTopic(t Topic) (string, error)
	ParseFilter(text string) (Filter, error)
	PrintFilter(f Filter) (string, error)
}

// maxSpelled is more than any spelling needs to write a canonical text of MaxBytes: a character of three bytes becomes
// nine, an empty level three.
const maxSpelled = 3*MaxBytes + 3*MaxLevels

// nonCharacter is no character: MQTT clients may close when they see it (1.5.4), so no topic has it.
const nonCharacter = "\uffff"

// checkText finds the first NUL, ill-formed byte or U+FFFF of a text.
func checkText(text string) (Fault, int) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return FaultNUL, i
	}
	if utf8.ValidString(text) {
		if i := strings.Index(text, nonCharacter); i >= 0 {
			return FaultNonCharacter, i
		}
		return 0, 0
	}
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return FaultUTF8, i
			}
		}
	}
	return FaultUTF8, 0
}

// dotted is what the spellings that part levels with a dot have in common: one of them, for topics or for filters.
type dotted struct {
	levels   *alphabet
	of       error  // ErrTopic or ErrFilter
	wild     bool   // it has wildcards
	one      string // the text of one-level
	many     string // the text of any-levels; "" when there is none
	nonempty bool   // an empty level must be escaped, or is a wildcard

	stops [256]bool // bytes that need more than an exchange of separators, on either side
}

var (
	dottedTopics  = newDotted(dotted{levels: dottedTopic, of: ErrTopic})
	dottedFilters = newDotted(dotted{levels: dottedFilter, of: ErrFilter, wild: true, one: "*", many: "#"})
	uriTopics     = newDotted(dotted{levels: uriLevels, of: ErrTopic, nonempty: true})
	uriPrefixes   = newDotted(dotted{levels: uriLevels, of: ErrFilter, nonempty: true}) // the complete levels of a prefix
	uriFilters    = newDotted(dotted{levels: uriLevels, of: ErrFilter, wild: true, nonempty: true})
)

func newDotted(d dotted) *dotted {
	for c := range d.stops {
		d.stops[c] = c >= utf8.RuneSelf || c == 0 || c == '%' || d.levels.starts[c] || canonical.starts[c]
	}
	return &d
}

// plain tells whether text can be translated by exchanging separators: a topic of ASCII without anything that either
// side escapes. sep is the separator of the side it comes from.
func (d *dotted) plain(text string, sep byte) bool {
	if d.wild || text == "" || len(text) > MaxBytes {
		return false
	}
	count, last := 1, sep
	for i := range len(text) {
		c := text[i]
		if c == sep {
			if d.nonempty && last == sep {
				return false
			}
			count++
		} else if d.stops[c] {
			return false
		}
		last = c
	}
	return count <= MaxLevels && !(d.nonempty && last == sep)
}

// exchanged is text with another separator; text itself when it has none.
func exchanged(text string, from, to byte) string {
	i := strings.IndexByte(text, from)
	if i < 0 {
		return text
	}
	var room [128]byte
	b := append(room[:0], text...)
	for ; i < len(b); i++ {
		if b[i] == from {
			b[i] = to
		}
	}
	return string(b)
}

// refuse is the error for a fault at a level and byte.
func (d *dotted) refuse(fault Fault, level, at int) error {
	return &TextError{Of: d.of, Fault: fault, Level: level, Byte: at}
}

// parse turns a text into canonical text.
func (d *dotted) parse(text string) (string, error) {
	if d.plain(text, '.') {
		return exchanged(text, '.', '/'), nil
	}
	if len(text) > maxSpelled {
		return "", d.refuse(FaultLong, 0, maxSpelled)
	}
	if strings.Count(text, ".") >= MaxLevels {
		return "", d.refuse(FaultLevels, MaxLevels, nth(text, '.', MaxLevels))
	}
	if fault, at := checkText(text); fault != 0 {
		return "", refuse(d.of, fault, text, ".", at)
	}
	w := writer{of: d.of, buf: make([]byte, 0, len(text)+len(text)/8+3)}
	for l, at := (levels{text, true}), 0; l.more; {
		var level string
		level, l = l.cut(".")
		if i := d.segment(&w, level); i >= 0 {
			return "", d.refuse(FaultCharacter, w.count, at+i)
		}
		if w.err != nil {
			return "", d.refuse(w.err.Fault, w.err.Level, at)
		}
		at += len(level) + 1
	}
	return w.text()
}

// nth is where the n-th c stands in text, from 1.
func nth(text string, c byte, n int) int {
	at := -1
	for range n {
		at += 1 + strings.IndexByte(text[at+1:], c)
	}
	return at
}

// segment reads one segment; it returns where it holds what should have been escaped, or -1.
func (d *dotted) segment(w *writer, text string) int {
	switch {
	case d.wild && text == d.one:
		w.wildcard('+')
		return -1
	case d.wild && text == d.many:
		w.wildcard('#')
		return -1
	}
	if i := d.levels.raw(text); i >= 0 {
		return i
	}
	w.level(d.levels.decoded(text))
	return -1
}

// print turns canonical text into a text.
func (d *dotted) print(text string) (string, error) {
	if text == "" {
		return "", d.refuse(FaultEmpty, 0, -1)
	}
	if d.plain(text, '/') {
		return exchanged(text, '/', '.'), nil
	}
	buf := make([]byte, 0, len(text)+len(text)/8+3)
	n := 0
	for l := openLevels(text); l.more; n++ {
		var segment string
		segment, l = l.cut("/")
		if n > 0 {
			buf = append(buf, '.')
		}
		switch {
		case segment == "+":
			buf = append(buf, d.one...)
		case segment == "#" && d.many == "":
			return "", d.refuse(FaultUnspellable, n, -1)
		case segment == "#":
			buf = append(buf, d.many...)
		default:
			buf = d.levels.encode(buf, canonical.decoded(segment))
		}
	}
	return string(buf), nil
}
