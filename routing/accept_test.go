package routing

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// What each spelling takes, in so many words. Sizes are left out: the texts here are short.
var accepts = []struct {
	name          string
	spelling      Spelling
	separator     string
	topic, filter func(levels []string) bool
}{
	{"MQTT", MQTT, "/", mqttTopic, mqttFilter},
	{"Dotted", Dotted, ".", dottedAny, dottedPattern},
	{"URI", URI, ".", uriExact, uriWildcard},
}

func mqttTopic(levels []string) bool {
	return len(levels) > 1 || levels[0] != ""
}

func mqttFilter(levels []string) bool {
	for i, l := range levels {
		if strings.ContainsAny(l, "+#") && l != "+" && (l != "#" || i < len(levels)-1) {
			return false
		}
	}
	return mqttTopic(levels)
}

func dottedAny([]string) bool { return true }

func dottedPattern(levels []string) bool {
	n := 0
	for _, l := range levels {
		if l == "#" {
			n++
		}
	}
	return n <= MaxAnyLevels
}

func uriExact(levels []string) bool {
	for _, l := range levels {
		if l == "" {
			return false
		}
	}
	return uriWildcard(levels)
}

func uriWildcard(levels []string) bool {
	for _, l := range levels {
		if strings.Contains(l, "#") || strings.IndexFunc(l, unicode.IsSpace) >= 0 {
			return false
		}
	}
	return true
}

func acceptIsDefinition(t *testing.T, text string) {
	t.Helper()
	for _, a := range accepts {
		levels := strings.Split(text, a.separator)
		sound := utf8.ValidString(text) && !strings.ContainsAny(text, "\x00\uffff") && len(levels) <= MaxLevels
		want := sound && a.topic(levels) && !(a.spelling == Spelling(MQTT) && strings.ContainsAny(text, "+#"))
		topic, err := a.spelling.ParseTopic(text)
		if (err == nil) != want {
			t.Errorf("%s topic %q: %v", a.name, text, err)
		}
		if err == nil && topic.Len() != len(levels) {
			t.Errorf("%s topic %q has %d levels", a.name, text, topic.Len())
		}
		placed(t, text, a.separator, ErrTopic, err)
		f, err := a.spelling.ParseFilter(text)
		if want := sound && a.filter(levels); (err == nil) != want {
			t.Errorf("%s filter %q: %v", a.name, text, err)
		}
		if err == nil && f.Len() != len(levels) {
			t.Errorf("%s filter %q has %d segments", a.name, text, f.Len())
		}
		placed(t, text, a.separator, ErrFilter, err)
	}
}

// placed looks whether an error points into the text, at the level that it names.
func placed(t *testing.T, text, separator string, of, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var e *TextError
	if !errors.As(err, &e) || !errors.Is(err, of) || e.Fault == 0 {
		t.Errorf("%q: %v", text, err)
		return
	}
	if e.Byte < 0 || e.Byte > len(text) || e.Fault != FaultLevels && e.Level != strings.Count(text[:e.Byte], separator) {
		t.Errorf("%q: %v points to level %d, byte %d", text, err, e.Level, e.Byte)
	}
}

func TestAcceptRandom(t *testing.T) {
	seeded(t, 20000, 20, func(t *testing.T, d *dice) {
		odd := append([]string{"\x00", "\uffff", "\xff", "\xe2\x80", "/", ".", "+", "#", "*", "/+", "/#", ".#", ".*."}, pieces...)
		var b strings.Builder
		for !d.done() {
			b.WriteString(odd[d.roll(len(odd))])
		}
		acceptIsDefinition(t, b.String())
	})
}

func FuzzSpellingAccept(f *testing.F) {
	for _, text := range []string{"", "a/b", "a/+/#", "#/a", "a.*.#", "a..b", ".", "%00", "\x00", "\xff", "a b", strings.Repeat("/", 200), strings.Repeat(".", 200)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 10000 {
			acceptIsDefinition(t, text)
		}
	})
}
