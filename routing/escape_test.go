package routing

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var alphabets = map[string]*alphabet{
	"canonical": canonical, "dotted topic": dottedTopic, "dotted filter": dottedFilter, "uri": uriLevels, "path": pathLevels,
}

// Codes are the bytes of what they stand for, in upper-case hex; none begins as "25" does, and none begins another.
func TestCodesAreSound(t *testing.T) {
	for name, a := range alphabets {
		for _, c := range append(append([]code{}, a.inner...), a.whole...) {
			if want := hexOf(c.plain); c.plain != "" && c.hex != want {
				t.Errorf("%s: %q is %s", name, c.plain, c.hex)
			}
			if strings.HasPrefix(c.hex, "25") {
				t.Errorf("%s: %s begins as the code of '%%'", name, c.hex)
			}
		}
		for i, c := range a.inner {
			for j, d := range a.inner {
				if i != j && strings.HasPrefix(c.hex, d.hex) {
					t.Errorf("%s: %s begins %s", name, d.hex, c.hex)
				}
			}
		}
		unambiguous(t, name, a)
	}
	if canonical.whole != nil || len(dottedTopic.whole) > 0 {
		t.Error("a code of whole levels where none is")
	}
}

func hexOf(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if i > 0 {
			b.WriteByte('%')
		}
		b.WriteString(strings.ToUpper(string("0123456789abcdef"[s[i]>>4]) + string("0123456789abcdef"[s[i]&15])))
	}
	return b.String()
}

// unambiguous tries a part of a code, or of a code's beginning, before each character that is escaped: what is printed
// must not read as another code.
func unambiguous(t *testing.T, name string, a *alphabet) {
	t.Helper()
	for _, c := range a.inner {
		head := "%" + c.hex
		for n := 1; n <= len(head); n++ {
			for _, d := range a.inner {
				level := head[:n] + d.plain
				text := string(a.encode(nil, level))
				if got := a.decoded(text); got != level || a.raw(text) >= 0 {
					t.Errorf("%s: %q prints as %q, which is %q", name, level, text, got)
				}
			}
		}
	}
}

// The codes of white space are those of the Unicode property, all of them.
func TestWhiteSpaceIsUnicode(t *testing.T) {
	known := map[rune]bool{}
	for _, c := range whiteSpace() {
		r, n := utf8.DecodeRuneInString(c.plain)
		known[r] = n == len(c.plain)
	}
	for r := range rune(0x110000) {
		if unicode.IsSpace(r) != known[r] {
			t.Errorf("%U: %v", r, known[r])
		}
	}
}

func TestKeptApart(t *testing.T) {
	for _, c := range []struct {
		alphabet     string
		level, print string
	}{
		{"canonical", "a/b", "a%2Fb"},
		{"canonical", "%2F", "%252F"},
		{"canonical", "%252F", "%25252F"},
		{"canonical", "%25", "%25"},
		{"canonical", "%2", "%2"},
		{"canonical", "%", "%"},
		{"canonical", "%%2F", "%%252F"},
		{"canonical", "%2F%2B/", "%252F%252B%2F"},
		{"canonical", "%2E", "%2E"},
		{"canonical", "%2f", "%2f"},
		{"canonical", "%00", "%00"},
		{"dotted topic", "*", "*"},
		{"dotted topic", "a.b.", "a%2Eb%2E"},
		{"dotted filter", "*", "%2A"},
		{"dotted filter", "#", "%23"},
		{"dotted filter", "**", "**"},
		{"dotted filter", "%2A", "%252A"},
		{"dotted filter", "x%2A", "x%2A"},
		{"dotted filter", "%2525%2A", "%2525%2A"},
		{"dotted filter", "%25252A", "%2525252A"},
		{"uri", "", "%00"},
		{"uri", "%00", "%2500"},
		{"uri", "%00x", "%00x"},
		{"uri", "a b", "a%20b"},
		{"uri", "\u00a0", "%C2%A0"},
		{"uri", "%C2%A0", "%25C2%A0"},
		{"uri", "%25C2%A0", "%2525C2%A0"},
		{"uri", "%C2\u00a0", "%C2%C2%A0"},
		{"uri", "\r\n", "%0D%0A"},
		{"path", ".", "%2E"},
		{"path", "..", "%2E%2E"},
		{"path", "...", "..."},
		{"path", "%2E", "%252E"},
		{"path", "%2E%2E", "%252E%2E"},
		{"path", "%252E%2E", "%25252E%2E"},
		{"path", "%2E%252E", "%2E%252E"},
		{"path", "", ""},
	} {
		a := alphabets[c.alphabet]
		if got := string(a.encode(nil, c.level)); got != c.print {
			t.Errorf("%s: %q prints as %q, not %q", c.alphabet, c.level, got, c.print)
		}
		if got := a.decoded(c.print); got != c.level {
			t.Errorf("%s: %q is %q, not %q", c.alphabet, c.print, got, c.level)
		}
	}
}

func TestSoleLevel(t *testing.T) {
	for alone, company := range map[string]string{"%00": "", "%2500": "%00", "%252500": "%2500", "a": "a", "%0": "%0", "%25": "%25", "%00x": "%00x", "x%00": "x%00", "+": "+"} {
		if got := soleLevel(alone); got != company {
			t.Errorf("%q in company is %q", alone, got)
		}
		if got := aloneLevel(company); got != alone {
			t.Errorf("%q alone is %q", company, got)
		}
	}
}
