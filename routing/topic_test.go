package routing

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestTopic(t *testing.T) {
	for _, c := range []struct {
		levels      []string
		text, first string
		dollar      bool
	}{
		{[]string{"a"}, "a", "a", false},
		{[]string{"a", "b"}, "a/b", "a", false},
		{[]string{"", "b"}, "/b", "", false},
		{[]string{"b", ""}, "b/", "b", false},
		{[]string{""}, "%00", "", false},
		{[]string{"%00"}, "%2500", "%00", false},
		{[]string{"%00", "x"}, "%00/x", "%00", false},
		{[]string{"$SYS", "x"}, "$SYS/x", "$SYS", true},
		{[]string{"a/b", "$"}, "a%2Fb/$", "a%2Fb", false},
	} {
		topic := mustTopic(t, c.levels...)
		if topic.String() != c.text || topic.First() != c.first || topic.Dollar() != c.dollar || topic.Len() != len(c.levels) {
			t.Errorf("%q: %q, first %q, dollar %v, %d levels", c.levels, topic, topic.First(), topic.Dollar(), topic.Len())
		}
		if got := topic.Levels(); !slices.Equal(got, c.levels) {
			t.Errorf("%q: levels %q", c.levels, got)
		}
		if topic.IsZero() || topic != parseTopic(t, c.text) {
			t.Errorf("%q is not what %s is", topic, c.text)
		}
	}
	var zero Topic
	if !zero.IsZero() || zero.Len() != 0 || zero.Levels() != nil || zero.Dollar() || zero.String() != "" || !zero.Filter().IsZero() {
		t.Error("the zero topic is something")
	}
}

// TestTopicLimits shows fault 9.
func TestTopicLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []string
		fault  Fault
		level  int
	}{
		{"none", nil, FaultEmpty, 0},
		{"NUL", []string{"a", "b\x00"}, FaultNUL, 1},
		{"not UTF-8", []string{"a", "b", "\xc0\x80"}, FaultUTF8, 2},
		{"129 levels", make([]string, 129), FaultLevels, 128},
		{"40,000 levels", make([]string, 40000), FaultLevels, 128},
		{"long level", []string{strings.Repeat("a", 65536)}, FaultLong, 0},
		{"long in all", []string{strings.Repeat("a", 65530), "bbbbbb"}, FaultLong, 1},
		{"long by its escapes", []string{strings.Repeat("/", 21846)}, FaultLong, 0},
		{"long by the code of the empty level", []string{strings.Repeat("%25", 0) + "%" + strings.Repeat("25", 32766) + "00"}, FaultLong, 1},
	} {
		topic, err := NewTopic(c.levels...)
		var e *TextError
		if !errors.As(err, &e) || *e != (TextError{ErrTopic, c.fault, c.level, -1}) || !topic.IsZero() {
			t.Errorf("%s: %.20q, %v", c.name, topic, err)
		}
	}
	for _, levels := range [][]string{make([]string, 128), {strings.Repeat("a", 65535)}, {strings.Repeat("/", 21845)}} {
		if _, err := NewTopic(levels...); err != nil {
			t.Error(err)
		}
	}
}

func TestDropAndUnder(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"$queue/orders", 1, "orders"},
		{"$delayed/5/a/b", 2, "a/b"},
		{"a/b", 0, "a/b"},
		{"a/b", -1, "a/b"},
		{"a/b", 2, ""},
		{"a/b", 9, ""},
		{"$delayed/5/", 2, "%00"}, // the one empty level
		{"a/%00", 1, "%2500"},
		{"a/%00/b", 1, "%00/b"},
		{"%00", 1, ""},
	} {
		topic := parseTopic(t, c.text)
		got := topic.Drop(c.n)
		if got.String() != c.want {
			t.Errorf("%s without %d: %q", topic, c.n, got)
		}
		if c.n < 0 || got.IsZero() {
			continue
		}
		if back, err := got.Under(topic.Levels()[:c.n]...); back != topic || err != nil {
			t.Errorf("%s under what was dropped: %s, %v", got, back, err)
		}
	}
	if got := parseFilter(t, "$share/g/a/+/#").Drop(2); got.String() != "a/+/#" {
		t.Errorf("shared filter: %s", got)
	}
	if got := parseFilter(t, "$share/g/#").Drop(2); got.String() != "#" || got.First() != "#" {
		t.Errorf("shared filter: %s", got)
	}
	if _, err := mustTopic(t, make([]string, 128)...).Under("a"); !isFault(err, FaultLevels) {
		t.Errorf("129 levels: %v", err)
	}
}

func TestDropIsLevels(t *testing.T) {
	seeded(t, 20000, 30, func(t *testing.T, d *dice) {
		levels := d.levels()
		n := d.roll(len(levels))
		got := mustTopic(t, levels...).Drop(n)
		if got != mustTopic(t, levels[n:]...) {
			t.Errorf("%q without %d: %q", levels, n, got)
		}
	})
}
