package stomp

import (
	"strings"
	"unicode/utf8"
)

// pattern is that of a LIKE: '%' is any text, '_' one character. It is a list of pieces
// between the '%'; each is looked for once, from where the one before ended, so that a
// match costs no more than the text is long.
type pattern struct {
	pieces []piece
}

// piece is the text between two '%'. With a '_' in it, it is found by following all
// places where it may have begun at once, one bit for each of its characters.
type piece struct {
	text  string          // without '_': the piece itself
	masks map[rune]uint64 // with '_': the places of each character
	any   uint64          // the places of '_'
	last  uint64          // the last place
	runes int             // its length in characters
}

// maxPiece is how many characters a piece with '_' may have.
const maxPiece = 64

// newPattern reads a pattern; escape, when not 0, makes the next character an ordinary
// one. ok is false for an escape with nothing behind it, or a piece that is too long.
func newPattern(text string, escape rune) (p *pattern, ok bool) {
	p = &pattern{}
	var b pieceBuilder
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			b.add(r, false)
			escaped = false
		case r == escape && escape != 0:
			escaped = true
		case r == '%':
			p.pieces = append(p.pieces, b.take())
		default:
			b.add(r, r == '_')
		}
		if b.tooLong() {
			return nil, false
		}
	}
	p.pieces = append(p.pieces, b.take())
	return p, !escaped
}

type pieceBuilder struct {
	runes []rune
	free  []bool
	some  bool
}

func (b *pieceBuilder) add(r rune, free bool) {
	b.runes = append(b.runes, r)
	b.free = append(b.free, free)
	b.some = b.some || free
}

func (b *pieceBuilder) tooLong() bool { return b.some && len(b.runes) > maxPiece }

func (b *pieceBuilder) take() piece {
	p := piece{runes: len(b.runes)}
	if !b.some {
		p.text = string(b.runes)
	} else {
		p.masks = map[rune]uint64{}
		p.last = 1 << (len(b.runes) - 1)
		for i, r := range b.runes {
			if b.free[i] {
				p.any |= 1 << i
			} else {
				p.masks[r] |= 1 << i
			}
		}
	}
	*b = pieceBuilder{}
	return p
}

// match tells whether the whole of s fits.
func (p *pattern) match(s string) bool {
	first := p.pieces[0]
	end, ok := first.prefix(s)
	if len(p.pieces) == 1 {
		return ok && end == len(s)
	}
	if !ok {
		return false
	}
	s = s[end:]
	for _, x := range p.pieces[1 : len(p.pieces)-1] {
		if end, ok = x.find(s); !ok {
			return false
		}
		s = s[end:]
	}
	return p.pieces[len(p.pieces)-1].suffix(s)
}

// prefix tells whether s begins with the piece, and where that ends.
func (x *piece) prefix(s string) (end int, ok bool) {
	if x.masks == nil {
		return len(x.text), strings.HasPrefix(s, x.text)
	}
	at := 0
	for i := range x.runes {
		if at == len(s) {
			return 0, false
		}
		r, n := utf8.DecodeRuneInString(s[at:])
		if (x.any|x.masks[r])&(1<<i) == 0 {
			return 0, false
		}
		at += n
	}
	return at, true
}

// suffix tells whether s ends with the piece.
func (x *piece) suffix(s string) bool {
	if x.masks == nil {
		return strings.HasSuffix(s, x.text)
	}
	from := len(s)
	for range x.runes {
		if from == 0 {
			return false
		}
		_, n := utf8.DecodeLastRuneInString(s[:from])
		from -= n
	}
	_, ok := x.prefix(s[from:])
	return ok
}

// find is where the first place of the piece in s ends.
func (x *piece) find(s string) (end int, ok bool) {
	if x.masks == nil {
		at := strings.Index(s, x.text)
		return at + len(x.text), at >= 0
	}
	var reached uint64
	for i, r := range s {
		reached = (reached<<1 | 1) & (x.any | x.masks[r])
		if reached&x.last != 0 {
			return i + utf8.RuneLen(r), true
		}
	}
	return 0, false
}
