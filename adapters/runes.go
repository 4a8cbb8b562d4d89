package adapters

import "unicode/utf8"

// runes checks a text that comes in pieces, which may end within a character.
type runes struct {
	open [utf8.UTFMax]byte
	n    int // bytes of a character that is not whole yet
}

// take is false when the text can not be UTF-8 any more.
func (r *runes) take(b []byte) bool {
	for r.n > 0 && len(b) > 0 {
		r.open[r.n] = b[0]
		r.n++
		b = b[1:]
		if utf8.FullRune(r.open[:r.n]) {
			if !utf8.Valid(r.open[:r.n]) {
				return false
			}
			r.n = 0
		}
	}
	for i := len(b) - 1; i >= 0 && len(b)-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				r.n = copy(r.open[:], b[i:])
				b = b[:i]
			}
			break
		}
	}
	return utf8.Valid(b)
}

// whole tells whether no character is open.
func (r *runes) whole() bool { return r.n == 0 }
