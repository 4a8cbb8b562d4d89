package routing

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// dice turns the bytes of a fuzzer, or of a seeded source, into choices. When the bytes are used up every choice is 0.
type dice struct{ data []byte }

func (d *dice) roll(n int) int {
	if len(d.data) == 0 || n < 2 {
		return 0
	}
	v := int(d.data[0])
	d.data = d.data[1:]
	return v % n
}

func (d *dice) done() bool { return len(d.data) == 0 }

// seeded runs a property on n random inputs of up to size bytes, the same ones each time.
func seeded(t *testing.T, n, size int, property func(*testing.T, *dice)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n / slow {
		data := make([]byte, 1+r.IntN(size))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		property(t, &dice{data})
		if t.Failed() {
			t.Fatalf("case %d, bytes %x", i, data)
		}
	}
}

// fuzzed makes a fuzz target of a property.
func fuzzed(f *testing.F, property func(*testing.T, *dice)) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		data := make([]byte, 100)
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { property(t, &dice{data}) })
}

// The pieces that levels are made of where escapes matter.
var pieces = []string{
	"%", "2", "5", "F", "E", "0", "A", "B", ".", "/", "+", "#", "*", "25", "2525", " ", "\t", "\u00a0", "\u3000", "\u2028", "é", "€", "\U0001F69A",
	"%2F", "%2B", "%23", "%00", "%2E", "%2E%2E", "%2A", "%20", "%C2%A0", "%E3%80%80", "C2%A0", "%C2", "%E2%80", "%2f", "%41", "a", "$", ">", "..", "\ufeff", "\ufffe",
}

// level rolls a level made of pieces; often an empty one.
func (d *dice) level() string {
	var b strings.Builder
	for range d.roll(6) {
		b.WriteString(pieces[d.roll(len(pieces))])
	}
	return b.String()
}

func (d *dice) levels() []string {
	levels := make([]string, 1+d.roll(5))
	for i := range levels {
		levels[i] = d.level()
	}
	return levels
}

// few rolls a level out of a few, so that filters and topics meet.
func (d *dice) few() string {
	return []string{"a", "b", "c", "", "$s", "%00", "%2500", "a/b", "+"}[d.roll(9)]
}

func (d *dice) fewLevels() []string {
	levels := make([]string, 1+d.roll(5))
	for i := range levels {
		levels[i] = d.few()
	}
	return levels
}

// segments rolls a filter with at most two any-levels.
func (d *dice) segments(level func() string) []Segment {
	segments := make([]Segment, 1+d.roll(6))
	many := 0
	for i := range segments {
		switch d.roll(5) {
		case 0:
			segments[i].Kind = OneLevel
		case 1:
			if many++; many <= MaxAnyLevels {
				segments[i].Kind = AnyLevels
				continue
			}
			fallthrough
		default:
			segments[i].Level = level()
		}
	}
	return segments
}

func (d *dice) topic(t *testing.T) Topic {
	t.Helper()
	return mustTopic(t, d.fewLevels()...)
}

func (d *dice) filter(t *testing.T) Filter {
	t.Helper()
	f, err := NewFilter(d.segments(d.few)...)
	if err != nil {
		t.Fatal(err)
	}
	if d.roll(3) == 0 {
		f = f.WithDollars()
	}
	return f
}

func mustTopic(t testing.TB, levels ...string) Topic {
	t.Helper()
	topic, err := NewTopic(levels...)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func parseTopic(t testing.TB, text string) Topic {
	t.Helper()
	topic, err := ParseTopic(text)
	if err != nil {
		t.Fatalf("%.40q: %v", text, err)
	}
	return topic
}

func parseFilter(t testing.TB, text string) Filter {
	t.Helper()
	f, err := ParseFilter(text)
	if err != nil {
		t.Fatalf("%.40q: %v", text, err)
	}
	return f
}
