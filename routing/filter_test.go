package routing

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// matches is what a match is, in so many words.
func matches(f []Segment, t []string) bool {
	if len(f) == 0 {
		return len(t) == 0
	}
	if f[0].Kind == AnyLevels {
		return matches(f[1:], t) || len(t) > 0 && matches(f, t[1:])
	}
	return len(t) > 0 && (f[0].Kind == OneLevel || f[0].Level == t[0]) && matches(f[1:], t[1:])
}

// seen is matches with the rule about '$'.
func seen(f Filter, segments []Segment, levels []string) bool {
	if segments[0].Kind != Literal && !f.Dollars() && strings.HasPrefix(levels[0], "$") {
		return false
	}
	return matches(segments, levels)
}

func filterIsDefinition(t *testing.T, d *dice) {
	f := d.filter(t)
	topic := d.topic(t)
	if got, want := f.Match(topic), seen(f, f.Segments(), topic.Levels()); got != want {
		t.Errorf("%s (dollars %v) on %s: %v", f, f.Dollars(), topic, got)
	}
	own, literal := f.Topic()
	if literal == f.HasWildcard() || literal && (!f.Match(own) || own.Filter() != f) {
		t.Errorf("%s as a topic: %q, %v", f, own, literal)
	}
	if !topic.Filter().Match(topic) || topic.Filter().HasWildcard() {
		t.Errorf("%s does not match itself", topic)
	}
	if f.Match(topic) && f.Segments()[0].Kind == Literal && f.First() != topic.First() {
		t.Errorf("%s begins with %q, %s with %q", f, f.First(), topic, topic.First())
	}
}

func TestFilterRandom(t *testing.T) { seeded(t, 50000, 20, filterIsDefinition) }
func FuzzFilterMatch(f *testing.F)  { fuzzed(f, filterIsDefinition) }
func TestFilterZeroMatches(t *testing.T) {
	if (Filter{}).Match(mustTopic(t, "")) || (Filter{}).Match(Topic{}) || parseFilter(t, "#").Match(Topic{}) {
		t.Error("a zero value matched")
	}
}

// [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.2-1] and the examples of MQTT 5, 4.7, and AMQP 0-9-1, 3.1.3.3.
func TestFilterMatch(t *testing.T) {
	for _, c := range []struct {
		filter  string
		yes, no []string
	}{
		{"sport/tennis/player1/#", []string{"sport/tennis/player1", "sport/tennis/player1/ranking", "sport/tennis/player1/score/wimbledon"}, []string{"sport/tennis"}},
		{"sport/#", []string{"sport", "sport/"}, []string{"sports", "$sport"}},
		{"#", []string{"a", "/", "%00", "a/b/c"}, []string{"$SYS", "$SYS/a"}},
		{"sport/tennis/+", []string{"sport/tennis/player1", "sport/tennis/"}, []string{"sport/tennis/player1/ranking", "sport/tennis"}},
		{"sport/+", []string{"sport/"}, []string{"sport"}},
		{"+/+", []string{"/finance"}, []string{"finance", "$SYS/a"}},
		{"/+", []string{"/finance"}, nil},
		{"+", []string{"finance", "%00"}, []string{"/finance", "$SYS"}},
		{"+/monitor/Clients", []string{"a/monitor/Clients"}, []string{"$SYS/monitor/Clients"}},
		{"$SYS/#", []string{"$SYS", "$SYS/a"}, []string{"SYS"}},
		{"$SYS/monitor/+", []string{"$SYS/monitor/Clients"}, nil},
		{"a/+/$b", []string{"a/$x/$b"}, nil},
		{"+/stock/#", []string{"usd/stock", "eur/stock/db"}, []string{"stock/nasdaq"}},
		{"#/nasdaq", []string{"nasdaq", "stock/nasdaq", "stock/usd/nasdaq", "nasdaq/nasdaq"}, []string{"nasdaq/stock"}},
		{"#/a/#", []string{"a", "b/a", "a/b", "b/a/b"}, []string{"b", "b/c"}},
		{"a/#/b", []string{"a/b", "a/x/b", "a/b/b", "a/b/x/b"}, []string{"a", "b", "a/b/x"}},
		{"#/#", []string{"a", "a/b"}, []string{"$a"}},
		{"#/+", []string{"a", "a/b"}, nil},
		{"+/#/+", []string{"a/b", "a/b/c"}, []string{"a"}},
		{"%00/#", []string{"%2500", "%00/a"}, []string{"%00", "/a"}},
		{"/#", []string{"%00", "/a"}, []string{"%2500"}},
		{"#/%00", []string{"%2500", "a/%00"}, []string{"%00", "a/"}},
		{"a/%2B", []string{"a/%2B"}, []string{"a/b"}},
	} {
		f := parseFilter(t, c.filter)
		for _, topic := range c.yes {
			if !f.Match(parseTopic(t, topic)) {
				t.Errorf("%s does not match %s", f, topic)
			}
		}
		for _, topic := range c.no {
			if f.Match(parseTopic(t, topic)) {
				t.Errorf("%s matches %s", f, topic)
			}
		}
	}
}

func TestDollars(t *testing.T) {
	sys := parseTopic(t, "$SYS/a")
	for text, want := range map[string]bool{"#": true, "+/a": true, "+/b": false, "#/a": true, "$SYS/#": true} {
		f := parseFilter(t, text).WithDollars()
		if f.Match(sys) != want {
			t.Errorf("%s with dollars on %s: %v", f, sys, !want)
		}
		if plain := parseFilter(t, text); (plain == f) != (text[0] == '$') || f.Dollars() == (text[0] == '$') || plain.Dollars() {
			t.Errorf("%s with and without dollars", text)
		}
		if f.String() != text {
			t.Errorf("%s prints as %s", text, f)
		}
	}
	if (Filter{}).WithDollars() != (Filter{}) {
		t.Error("the zero filter with dollars is something")
	}
}

func TestSegments(t *testing.T) {
	f := parseFilter(t, "a%2Fb/+/#//%2500")
	want := []Segment{{Level: "a/b"}, {Kind: OneLevel}, {Kind: AnyLevels}, {}, {Level: "%2500"}}
	if got := f.Segments(); !slices.Equal(got, want) || f.Len() != 5 || f.IsZero() {
		t.Errorf("%q", got)
	}
	if (Filter{}).Segments() != nil || (Filter{}).Len() != 0 {
		t.Error("the zero filter has segments")
	}
	many := Segment{Kind: AnyLevels}
	if _, err := NewFilter(many, many, Segment{Level: "a"}, many); !isFault(err, FaultAnyLevels) || !errors.Is(err, ErrFilter) {
		t.Errorf("three any-levels: %v", err)
	}
	if _, err := NewFilter(); !isFault(err, FaultEmpty) {
		t.Errorf("no segments: %v", err)
	}
	if _, err := NewFilter(slices.Repeat([]Segment{{Kind: OneLevel}}, 129)...); !isFault(err, FaultLevels) {
		t.Errorf("129 segments: %v", err)
	}
}

// One filter against one topic, both as bad as they come: bounded by levels times segments.
// It shows fault 10.
func TestFilterMatchIsBounded(t *testing.T) {
	topic := parseTopic(t, strings.TrimSuffix(strings.Repeat("a/", 128), "/"))
	for _, text := range []string{
		"#/" + strings.Repeat("a/", 63) + "b/#",
		"#/" + strings.Repeat("+/", 63) + "b/#",
		"#/" + strings.Repeat("a/", 60) + "#/" + strings.Repeat("a/", 60) + "b",
		strings.Repeat("+/", 127) + "b",
	} {
		f := parseFilter(t, text)
		start := time.Now()
		for range 100 {
			if f.Match(topic) {
				t.Fatalf("%s matches", f)
			}
		}
		if took := time.Since(start) / 100; took > 10*time.Millisecond {
			t.Errorf("%.20s…: %v", f, took)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		filter  string
		yes, no []string
	}{
		{"#", []string{"#", "a", "a/#", "+/+", "#/a/#", "+"}, []string{"$SYS", "$SYS/#"}},
		{"a/#", []string{"a/#", "a", "a/b", "a/+/#", "a/+", "a/#/b"}, []string{"#", "+/a", "ab/#", "+"}},
		{"a/+", []string{"a/+", "a/b"}, []string{"a/#", "a", "a/b/c", "a/+/+"}},
		{"+/b", []string{"a/b", "+/b"}, []string{"#/b", "$a/b", "a/+", "b"}},
		{"+/#", []string{"a", "a/#", "+/+/#"}, []string{"#"}},
		{"#/b/#", []string{"b", "a/b/#", "#/b/c", "#/a/#/b"}, []string{"#", "#/a/#"}},
		{"$SYS/#", []string{"$SYS/+/x", "$SYS"}, []string{"#", "+/x"}},
		{"a/b", []string{"a/b"}, []string{"a/+", "a/#", "#"}},
	} {
		f := parseFilter(t, c.filter)
		for _, text := range c.yes {
			if !f.Covers(parseFilter(t, text)) {
				t.Errorf("%s does not cover %s", f, text)
			}
		}
		for _, text := range c.no {
			if f.Covers(parseFilter(t, text)) {
				t.Errorf("%s covers %s", f, text)
			}
		}
	}
	all := parseFilter(t, "#")
	if all.Covers(all.WithDollars()) || !all.WithDollars().Covers(all) || !all.WithDollars().Covers(parseFilter(t, "$SYS/#")) {
		t.Error("dollars")
	}
	if (Filter{}).Covers(all) || all.Covers(Filter{}) {
		t.Error("a zero filter covers or is covered")
	}
}

// What is covered is matched; and a filter covers itself, and what a topic's filter is covered by is what matches it.
func coversIsSafe(t *testing.T, d *dice) {
	f, g := d.filter(t), d.filter(t)
	if !f.Covers(f) {
		t.Errorf("%s does not cover itself", f)
	}
	covers := f.Covers(g)
	for range 10 {
		topic := d.topic(t)
		if covers && g.Match(topic) && !f.Match(topic) {
			t.Errorf("%s (%v) covers %s (%v), but %s", f, f.Dollars(), g, g.Dollars(), topic)
		}
		if f.Covers(topic.Filter()) != f.Match(topic) {
			t.Errorf("%s and the filter of %s", f, topic)
		}
	}
}

func TestCoversRandom(t *testing.T) { seeded(t, 20000, 60, coversIsSafe) }
func FuzzCovers(f *testing.F)       { fuzzed(f, coversIsSafe) }
