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

// checkText finds the first NUL or ill-formed byte of a text.
func checkText(text string) (Fault, int) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return FaultNUL, i
	}
	if utf8.ValidString(text) {
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

// separated is what the spellings that part levels with a dot have in common.
type separated struct {
	levels *alphabet
	one    string // the text of a one-level segment
	many   string // the text of an any-levels segment; "" and one == "": there is none
	wild   bool   // the texts above are wildcards
}

// plain tells whether text can be translated by exchanging separators: ASCII without anything that either side escapes.
func (s *separated) plain(text string, from byte) bool {
	if len(text) > MaxBytes || text == "" {
		return false
	}
	last := from
	count := 0
	for i := range len(text) {
		c := text[i]
		switch {
		case c == from:
			if last == from && s.levels == uriLevels {
				return false
			}
			count++
		case c >= utf8.RuneSelf || c == 0 || c == '%' || s.levels.starts[c] || canonical.starts[c]:
			return false
		}
		last = c
	}
	return count < MaxLevels && (last != from || s.levels != uriLevels)
}

func (s *separated) parse(of error, text string) (string, error) {
	if !s.wild && s.plain(text, '.') {
		return strings.ReplaceAll(text, ".", "/"), nil
	}
	if len(text) > maxSpelled {
		return "", &TextError{Of: of, Fault: FaultLong, Byte: maxSpelled}
	}
	if fault, at := checkText(text); fault != 0 {
		return "", refuse(of, fault, text, ".", at)
	}
	w := writer{of: of, buf: make([]byte, 0, len(text)+len(text)/8+3)}
	at := 0
	for {
		end := strings.IndexByte(text[at:], '.')
		last := end < 0
		level := text[at:]
		if !last {
			level = text[at : at+end]
		}
		if i := s.add(&w, level); i >= 0 {
			w.fail(FaultCharacter)
			at += i
		}
		if w.err != nil {
			return "", &TextError{Of: of, Fault: w.err.(*TextError).Fault, Level: w.count, Byte: at}
		}
		if last {
			break
		}
		at += len(level) + 1
	}
	return w.text()
}

// add reads one segment; it returns where it holds what should have been escaped, or -1.
func (s *separated) add(w *writer, text string) int {
	if s.wild {
		switch text {
		case s.one:
			w.wildcard('+')
			return -1
		case s.many:
			w.wildcard('#')
			return -1
		}
	}
	if i := s.levels.raw(text); i >= 0 {
		return i
	}
	w.level(s.levels.decoded(text))
	return -1
}

func (s *separated) print(of error, text string) (string, error) {
	if text == "" {
		return "", &TextError{Of: of, Fault: FaultEmpty, Byte: -1}
	}
	if !s.wild && s.plain(text, '/') {
		return strings.ReplaceAll(text, "/", "."), nil
	}
	buf := make([]byte, 0, len(text)+8)
	n := 0
	for l := openLevels(text); l.more; n++ {
		var segment string
		segment, l = l.next()
		if n > 0 {
			buf = append(buf, '.')
		}
		switch {
		case segment == "+":
			buf = append(buf, s.one...)
		case segment == "#" && s.many == "":
			return "", &TextError{Of: of, Fault: FaultUnspellable, Level: n, Byte: -1}
		case segment == "#":
			buf = append(buf, s.many...)
		default:
			buf = s.levels.encode(buf, canonical.decoded(segment))
		}
	}
	return string(buf), nil
}
