package routing

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var spellings = []Spelling{MQTT, Dotted, URI}

// The first promise: what is printed is parsed to the same list. And what is printed is in the spelling.
func levelsComeBack(t *testing.T, d *dice) {
	levels := d.levels()
	topic := mustTopic(t, levels...)
	if got := topic.Levels(); !slices.Equal(got, levels) {
		t.Errorf("levels %q came back from %q as %q", levels, topic, got)
	}
	if topic.Len() != len(levels) {
		t.Errorf("%q has %d levels, not %d", topic, topic.Len(), len(levels))
	}
	for _, s := range spellings {
		text, err := s.PrintTopic(topic)
		if err != nil {
			t.Fatalf("%T refuses to print %q: %v", s, levels, err)
		}
		if back, err := s.ParseTopic(text); err != nil || back != topic {
			t.Errorf("%T: %q printed as %q, parsed as %q, %v", s, levels, text, back, err)
		}
		wellFormed(t, s, text, len(levels))
	}
	path, err := Path.PrintTopic(topic)
	if err != nil {
		t.Fatalf("path of %q: %v", levels, err)
	}
	if slices.Contains(path, ".") || slices.Contains(path, "..") {
		t.Errorf("path %q", path)
	}
	if back, err := Path.ParseTopic(path); err != nil || back != topic {
		t.Errorf("%q printed as %q, parsed as %q, %v", levels, path, back, err)
	}
}

// wellFormed looks at a printed topic with the eyes of the other side.
func wellFormed(t *testing.T, s Spelling, text string, levels int) {
	t.Helper()
	separator := "."
	switch s {
	case MQTT:
		separator = "/"
		if text == "" || strings.ContainsAny(text, "+#\x00") {
			t.Errorf("MQTT topic %q", text)
		}
	case URI:
		for _, component := range strings.Split(text, ".") {
			if component == "" || strings.ContainsRune(component, '#') || strings.IndexFunc(component, unicode.IsSpace) >= 0 {
				t.Errorf("WAMP URI %q", text)
			}
		}
	}
	if strings.Count(text, separator)+1 != levels {
		t.Errorf("%T: %q is not %d levels", s, text, levels)
	}
}

func segmentsComeBack(t *testing.T, d *dice) {
	segments := d.segments(d.level)
	f, err := NewFilter(segments...)
	if err != nil {
		t.Fatalf("%v: %v", segments, err)
	}
	if got := f.Segments(); !slices.Equal(got, segments) {
		t.Errorf("segments %q came back from %q as %q", segments, f, got)
	}
	if back, err := ParseFilter(f.String()); back != f || err != nil {
		t.Errorf("%q as canonical text: %q, %v", f, back, err)
	}
	for _, s := range spellings {
		text, err := s.PrintFilter(f)
		if err != nil {
			if !canRefuse(s, segments) || !isFault(err, FaultUnspellable) {
				t.Errorf("%T refuses to print %q: %v", s, f, err)
			}
			continue
		}
		if back, err := s.ParseFilter(text); err != nil || back != f {
			t.Errorf("%T: %q printed as %q, parsed as %q, %v", s, f, text, back, err)
		}
	}
}

// canRefuse tells whether a spelling has no way to write the filter.
func canRefuse(s Spelling, segments []Segment) bool {
	many := slices.Index(segments, Segment{Kind: AnyLevels})
	switch s {
	case MQTT:
		return many >= 0 && many < len(segments)-1
	case URI:
		return many >= 0
	}
	return false
}

// The second promise: what is parsed is printed as the same text.
func textComesBack(t *testing.T, text string) {
	t.Helper()
	for _, s := range spellings {
		topicTextComesBack(t, s, text)
		filterTextComesBack(t, s, text)
	}
	if p, err := URI.ParsePrefix(text); err == nil && p.String() != text {
		t.Errorf("prefix %q came back as %q", text, p)
	}
	path := strings.Split(text, "\n")
	if topic, err := Path.ParseTopic(path); err == nil {
		if back, err := Path.PrintTopic(topic); err != nil || !slices.Equal(back, path) {
			t.Errorf("path %q is %q, printed as %q, %v", path, topic, back, err)
		}
	}
}

func topicTextComesBack(t *testing.T, s Spelling, text string) {
	t.Helper()
	topic, err := s.ParseTopic(text)
	if err != nil {
		return
	}
	if back, err := s.PrintTopic(topic); err != nil || back != text {
		t.Errorf("%T: topic %q is %q, printed as %q, %v", s, text, topic, back, err)
	}
	if again, err := NewTopic(topic.Levels()...); err != nil || again != topic {
		t.Errorf("%q is not canonical: %q, %v", topic, again, err)
	}
}

func filterTextComesBack(t *testing.T, s Spelling, text string) {
	t.Helper()
	f, err := s.ParseFilter(text)
	if err != nil {
		return
	}
	if back, err := s.PrintFilter(f); err != nil || back != text {
		t.Errorf("%T: filter %q is %q, printed as %q, %v", s, text, f, back, err)
	}
	if again, err := NewFilter(f.Segments()...); err != nil || again != f {
		t.Errorf("%q is not canonical: %q, %v", f, again, err)
	}
}

// An ordinary name, without a separator, wildcard, white space or '%', is the same in all spellings.
func ordinaryStays(t *testing.T, d *dice) {
	levels := make([]string, 1+d.roll(4))
	for i := range levels {
		for range 1 + d.roll(4) {
			levels[i] += []string{"a", "7", "-", "_", "€", "é", ":", "%", "%4", "25"}[d.roll(10)]
		}
	}
	topic := mustTopic(t, levels...)
	dotted, _ := Dotted.PrintTopic(topic)
	uri, _ := URI.PrintTopic(topic)
	path, _ := Path.PrintTopic(topic)
	if s := strings.Join(levels, "."); topic.String() != strings.Join(levels, "/") || dotted != s || uri != s || !slices.Equal(path, levels) {
		t.Errorf("%q is %q, %q, %q, %q", levels, topic, dotted, uri, path)
	}
}

// A prefix matches as strings do, among the topics that its filter lets it see.
func prefixIsPrefix(t *testing.T, d *dice) {
	topic := mustTopic(t, d.levels()...)
	uri, _ := URI.PrintTopic(topic)
	other, _ := URI.PrintTopic(mustTopic(t, d.levels()...))
	for _, text := range []string{uri[:d.roll(len(uri)+1)], other[:d.roll(len(other)+1)], uri + other} {
		p, err := URI.ParsePrefix(text)
		if err != nil {
			continue // cut inside a rune
		}
		want := strings.HasPrefix(uri, text) && !(topic.Dollar() && !strings.Contains(text, "."))
		if got := p.Match(topic); got != want {
			t.Errorf("prefix %q of %q: %v", text, uri, got)
		}
	}
}

// Any levels come back from every spelling (fault 96); a million of them where ENTREPOT_SOAK is set.
func TestSpellingRandomLevels(t *testing.T) {
	n := 30000
	if os.Getenv("ENTREPOT_SOAK") == "1" {
		n = 1_000_000
	}
	seeded(t, n, 40, levelsComeBack)
}

func TestSpellingRandomSegments(t *testing.T) { seeded(t, 30000, 40, segmentsComeBack) }
func TestSpellingOrdinary(t *testing.T)       { seeded(t, 20000, 20, ordinaryStays) }
func TestSpellingPrefix(t *testing.T)         { seeded(t, 20000, 60, prefixIsPrefix) }

// TestSpellingRandomText shows fault 96.
func TestSpellingRandomText(t *testing.T) {
	seeded(t, 20000, 30, func(t *testing.T, d *dice) {
		var b strings.Builder
		for !d.done() {
			b.WriteString(pieces[d.roll(len(pieces))])
		}
		textComesBack(t, b.String())
	})
}

func FuzzSpellingLevels(f *testing.F) {
	fuzzed(f, func(t *testing.T, d *dice) {
		levelsComeBack(t, d)
		segmentsComeBack(t, d)
		prefixIsPrefix(t, d)
	})
}

func FuzzSpellingText(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
		f.Add("a" + p + ".b/" + p)
	}
	f.Add("%2525252F")
	f.Add(strings.Repeat("a/.", 130))
	f.Fuzz(textComesBack)
}
