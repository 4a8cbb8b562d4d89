package routing

import (
	"strings"
	"unicode/utf8"
)

// Topic is an immutable list of 1 to 128 levels; a level is a UTF-8 string without NUL and U+FFFF, possibly empty. It is held as
// its canonical text, so == compares topics and a Topic may be a map key. The zero value is no topic.
type Topic struct{ text string }

// NewTopic makes a topic of decoded levels. Errors wrap [ErrTopic]; their byte is -1.
func NewTopic(levels ...string) (Topic, error) {
	w := writer{of: ErrTopic}
	for _, l := range levels {
		w.level(l)
	}
	return w.topic()
}

// String is the canonical text; "" for the zero value.
func (t Topic) String() string { return t.text }

// IsZero tells whether t is no topic.
func (t Topic) IsZero() bool { return t.text == "" }

// Len is the number of levels, 0 for the zero value.
func (t Topic) Len() int {
	if t.text == "" {
		return 0
	}
	return strings.Count(t.text, "/") + 1
}

// Levels is the decoded levels.
func (t Topic) Levels() []string {
	if t.text == "" {
		return nil
	}
	levels := strings.Split(t.text, "/")
	if len(levels) == 1 {
		levels[0] = soleLevel(levels[0])
	}
	for i, l := range levels {
		levels[i] = canonical.decoded(l)
	}
	return levels
}

// First is the first level as it stands in a canonical text of several levels, so that it is the same for all topics
// whose first levels are the same, and for all filters ([Filter.First]) that begin with that literal level. It does not
// allocate, except for a topic whose only level looks like an escaped "%00".
func (t Topic) First() string { return firstOf(t.text) }

// Dollar tells whether the first level begins with '$': such topics are hidden from wildcards in the first segment of a
// filter, unless the filter says otherwise ([Filter.WithDollars]).
func (t Topic) Dollar() bool { return t.text != "" && t.text[0] == '$' }

// Filter is the filter that matches exactly t; the zero filter for the zero topic.
func (t Topic) Filter() Filter { return Filter{text: t.text} }

// Drop is the topic without its first n levels; the zero topic when none is left.
func (t Topic) Drop(n int) Topic { return Topic{drop(t.text, n)} }

// Under is the topic with decoded levels put before it. It fails when the limits of a topic are passed.
func (t Topic) Under(levels ...string) (Topic, error) {
	w := writer{of: ErrTopic}
	for _, l := range levels {
		w.level(l)
	}
	for _, l := range t.Levels() {
		w.level(l)
	}
	return w.topic()
}

func firstOf(text string) string {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return text[:i]
	}
	return soleLevel(text)
}

// drop cuts the first n segments off a canonical text.
func drop(text string, n int) string {
	if n <= 0 || text == "" {
		return text
	}
	for range n {
		_, rest, more := strings.Cut(text, "/")
		if !more {
			return ""
		}
		text = rest
	}
	if strings.IndexByte(text, '/') < 0 {
		return aloneLevel(text)
	}
	return text
}

// writer builds a canonical text of decoded levels and wildcards, and keeps the first fault.
type writer struct {
	of    error
	buf   []byte
	count int // segments
	hash  int // any-levels among them
	wild  bool
	err   *TextError
}

func (w *writer) fail(fault Fault) {
	if w.err == nil {
		w.err = &TextError{Of: w.of, Fault: fault, Level: w.count, Byte: -1}
	}
}

// next begins a segment.
func (w *writer) next() bool {
	if w.err == nil && w.count == MaxLevels {
		w.fail(FaultLevels)
	}
	if w.err != nil {
		return false
	}
	if w.count > 0 {
		w.buf = append(w.buf, '/')
	}
	return true
}

func (w *writer) done() {
	if len(w.buf) > MaxBytes {
		w.fail(FaultLong)
	}
	w.count++
}

// level adds a decoded literal level.
func (w *writer) level(level string) {
	if !w.next() {
		return
	}
	switch {
	case len(level) > MaxBytes:
		w.fail(FaultLong)
	case strings.IndexByte(level, 0) >= 0:
		w.fail(FaultNUL)
	case !utf8.ValidString(level):
		w.fail(FaultUTF8)
	case strings.Contains(level, nonCharacter):
		w.fail(FaultNonCharacter)
	default:
		w.buf = canonical.encode(w.buf, level)
		w.done()
	}
}

// wildcard adds '+' or '#'.
func (w *writer) wildcard(c byte) {
	if !w.next() {
		return
	}
	if c == '#' {
		if w.hash++; w.hash > MaxAnyLevels {
			w.fail(FaultAnyLevels)
			return
		}
	}
	w.wild = true
	w.buf = append(w.buf, c)
	w.done()
}

func (w *writer) text() (string, error) {
	if w.err == nil && w.count == 0 {
		w.fail(FaultEmpty)
	}
	if w.err != nil {
		return "", w.err
	}
	text := string(w.buf)
	if w.count == 1 && !w.wild {
		text = aloneLevel(text)
	}
	if len(text) > MaxBytes {
		w.fail(FaultLong)
		return "", w.err
	}
	return text, nil
}

func (w *writer) topic() (Topic, error) {
	text, err := w.text()
	return Topic{text}, err
}

func (w *writer) filter() (Filter, error) {
	text, err := w.text()
	return Filter{text: text}, err
}
