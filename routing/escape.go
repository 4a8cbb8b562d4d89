package routing

import "strings"

// code is one escape: what it stands for, and the hex digits that follow its '%'.
type code struct{ plain, hex string }

// alphabet is the closed set of codes that one spelling knows. A '%' that begins no code of the set, be it with any
// number of "25" between, is an ordinary character.
type alphabet struct {
	inner []code // stand for characters anywhere in a level
	whole []code // stand for a level as a whole

	starts [256]bool // first bytes of the inner characters
}

func newAlphabet(inner, whole []code) *alphabet {
	a := &alphabet{inner: inner, whole: whole}
	for _, c := range inner {
		a.starts[c.plain[0]] = true
	}
	return a
}

// run returns where the "25"s that follow the '%' at text[i] end.
func run(text string, i int) int {
	j := i + 1
	for j+1 < len(text) && text[j] == '2' && text[j+1] == '5' {
		j += 2
	}
	return j
}

// token tells whether a code, or a code kept apart by "25"s, begins with the '%' at text[i]: its code, where its hex
// digits begin, and where it ends.
func (a *alphabet) token(text string, i int) (c code, hex, end int, ok bool) {
	hex = run(text, i)
	for _, c := range a.inner {
		if strings.HasPrefix(text[hex:], c.hex) {
			return c, hex, hex + len(c.hex), true
		}
	}
	return code{}, 0, 0, false
}

// wholeToken is token for a level that is nothing else than one whole-level code.
func (a *alphabet) wholeToken(level string) (c code, hex int, ok bool) {
	if len(a.whole) == 0 || level == "" || level[0] != '%' {
		return code{}, 0, false
	}
	hex = run(level, 0)
	for _, c := range a.whole {
		if level[hex:] == c.hex {
			return c, hex, true
		}
	}
	return code{}, 0, false
}

// raw finds what must not stand unescaped in the text of a level: its offset, or -1.
func (a *alphabet) raw(text string) int {
	for _, c := range a.whole {
		if text == c.plain {
			return 0
		}
	}
	for i := range len(text) {
		if a.starts[text[i]] && a.innerAt(text[i:]) >= 0 {
			return i
		}
	}
	return -1
}

// innerAt gives the index of the inner code whose character text begins with, or -1.
func (a *alphabet) innerAt(text string) int {
	for i, c := range a.inner {
		if strings.HasPrefix(text, c.plain) {
			return i
		}
	}
	return -1
}

// encode appends a decoded level as this spelling writes it.
func (a *alphabet) encode(dst []byte, level string) []byte {
	for _, c := range a.whole {
		if level == c.plain {
			return append(append(dst, '%'), c.hex...)
		}
	}
	if _, _, ok := a.wholeToken(level); ok {
		return append(append(dst, "%25"...), level[1:]...)
	}
	for i := 0; i < len(level); {
		if level[i] == '%' {
			if _, _, end, ok := a.token(level, i); ok {
				dst = append(append(dst, "%25"...), level[i+1:end]...)
				i = end
				continue
			}
		} else if a.starts[level[i]] {
			if n := a.innerAt(level[i:]); n >= 0 {
				dst = append(append(dst, '%'), a.inner[n].hex...)
				i += len(a.inner[n].plain)
				continue
			}
		}
		dst = append(dst, level[i])
		i++
	}
	return dst
}

// decode appends what the text of a level stands for.
func (a *alphabet) decode(dst []byte, text string) []byte {
	if c, hex, ok := a.wholeToken(text); ok {
		if hex == 1 {
			return append(dst, c.plain...)
		}
		return append(append(dst, '%'), text[3:]...)
	}
	for i := 0; i < len(text); {
		if text[i] != '%' {
			dst = append(dst, text[i])
			i++
			continue
		}
		c, hex, end, ok := a.token(text, i)
		switch {
		case !ok:
			dst = append(dst, '%')
			i++
		case hex == i+1:
			dst = append(dst, c.plain...)
			i = end
		default:
			dst = append(append(dst, '%'), text[i+3:end]...)
			i = end
		}
	}
	return dst
}

// decoded is decode to a string; it allocates only where there is something to decode.
func (a *alphabet) decoded(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	return string(a.decode(nil, text))
}

// The alphabets. The canonical text has one code more, which stands for the whole topic: see soleLevel.
var (
	canonical    = newAlphabet([]code{{"/", "2F"}, {"+", "2B"}, {"#", "23"}}, nil)
	dottedTopic  = newAlphabet([]code{{".", "2E"}}, nil)
	dottedFilter = newAlphabet([]code{{".", "2E"}}, []code{{"*", "2A"}, {"#", "23"}})
	uriLevels    = newAlphabet(append([]code{{".", "2E"}, {"#", "23"}}, whiteSpace()...), []code{{"", "00"}})
	pathLevels   = newAlphabet(nil, []code{{".", "2E"}, {"..", "2E%2E"}})
)

// whiteSpace is the codes of all characters with the Unicode property White_Space.
func whiteSpace() []code {
	return []code{
		{"\t", "09"}, {"\n", "0A"}, {"\v", "0B"}, {"\f", "0C"}, {"\r", "0D"}, {" ", "20"},
		{"\u0085", "C2%85"}, {"\u00a0", "C2%A0"}, {"\u1680", "E1%9A%80"},
		{"\u2000", "E2%80%80"}, {"\u2001", "E2%80%81"}, {"\u2002", "E2%80%82"}, {"\u2003", "E2%80%83"},
		{"\u2004", "E2%80%84"}, {"\u2005", "E2%80%85"}, {"\u2006", "E2%80%86"}, {"\u2007", "E2%80%87"},
		{"\u2008", "E2%80%88"}, {"\u2009", "E2%80%89"}, {"\u200a", "E2%80%8A"},
		{"\u2028", "E2%80%A8"}, {"\u2029", "E2%80%A9"}, {"\u202f", "E2%80%AF"}, {"\u205f", "E2%81%9F"},
		{"\u3000", "E3%80%80"},
	}
}

// soleLevel turns the canonical text of one single level into what the same level looks like among others. They differ
// for the empty level, "%00" when alone, and for the levels that look like that code: "%2500" alone is "%00" in company.
func soleLevel(text string) string {
	if !isSole(text) {
		return text
	}
	if len(text) == 3 {
		return ""
	}
	return "%" + text[3:]
}

// aloneLevel is the way back from soleLevel.
func aloneLevel(text string) string {
	if text == "" {
		return "%00"
	}
	if isSole(text) {
		return "%25" + text[1:]
	}
	return text
}

// isSole tells whether text is "%", any number of "25", "00".
func isSole(text string) bool {
	return len(text) >= 3 && text[0] == '%' && text[run(text, 0):] == "00"
}
