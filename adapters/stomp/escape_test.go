package stomp

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzHeaderEscapes: what is written is read back, in one header, whatever it holds
// [1.2 Value Encoding, fault 99].
func FuzzHeaderEscapes(f *testing.F) {
	f.Add("name", "value")
	f.Add("a:b\n", "\r\n\n\x00SEND\ndestination:/queue/x\n\n\x00")
	f.Add(" destination", "\\c\\n:")
	f.Fuzz(func(t *testing.T, name, value string) {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return
		}
		for v := v10; v <= v12; v++ {
			if !v.carriesName(name) {
				continue
			}
			text := v.appendHeader([]byte("SEND"), name, value)
			text = append(text, "\nlast:1\n\n\x00"...)
			fr := frame{version: v, limits: limits{headers: 10, headerBytes: 1 << 20, body: 10}}
			fr.reset()
			n, err := fr.parse(text)
			if err != nil || n != len(text) || len(fr.spans) != 2 {
				t.Fatalf("%v: %q is read as %d of %d bytes, %d headers: %v", v, text, n, len(text), len(fr.spans), err)
			}
			if got := fr.decode(fr.nameOf(fr.spans[0])); got != name {
				t.Errorf("%v: name %q became %q", v, name, got)
			}
			if got := fr.decode(fr.valueOf(fr.spans[0])); got != carried(v, value) {
				t.Errorf("%v: value %q became %q", v, value, got)
			}
		}
	})
}

// carried is what a version can carry of a value.
func carried(v version, value string) string {
	value = strings.ReplaceAll(value, "\x00", "\uFFFD")
	if v < v12 {
		value = strings.ReplaceAll(value, "\r", " ")
	}
	if v < v11 {
		value = strings.ReplaceAll(value, "\n", " ")
		value = strings.Trim(value, " \t")
	}
	return value
}
