package routing

import (
	"slices"
	"strings"
	"testing"
)

// members is a set as a list.
func members(s spots) (list []int) {
	for ; !s.empty(); s = s.without(spot(s.lowest())) {
		list = append(list, s.lowest())
	}
	return list
}

func (d *dice) spots() (s spots, list []int) {
	for range d.roll(10) {
		i := d.roll(128)
		s = s.or(spot(i))
		list = append(list, i)
	}
	slices.Sort(list)
	return s, slices.Compact(list)
}

func TestSpots(t *testing.T) {
	seeded(t, 20000, 30, func(t *testing.T, d *dice) {
		a, x := d.spots()
		b, y := d.spots()
		in := func(list []int) func(int) bool { return func(i int) bool { return slices.Contains(list, i) } }
		notIn := func(list []int) func(int) bool { return func(i int) bool { return !slices.Contains(list, i) } }
		for name, c := range map[string]struct {
			got  spots
			want []int
		}{
			"same":    {a, x},
			"and":     {a.and(b), slices.DeleteFunc(slices.Clone(x), notIn(y))},
			"without": {a.without(b), slices.DeleteFunc(slices.Clone(x), in(y))},
			"or":      {a.or(b), slices.Compact(sorted(slices.Concat(x, y)))},
		} {
			if got := members(c.got); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
		for i := range x {
			x[i]++
		}
		x = slices.DeleteFunc(x, func(i int) bool { return i > 127 })
		if got := members(a.shifted()); !slices.Equal(got, x) {
			t.Errorf("shifted: %v, want %v", got, x)
		}
		if i := d.roll(128); b.has(i) != slices.Contains(y, i) {
			t.Errorf("%v has %d", y, i)
		}
	})
}

func sorted(list []int) []int {
	slices.Sort(list)
	return list
}

func TestSpan(t *testing.T) {
	for _, c := range []struct{ from, to, n int }{
		{0, 0, 0}, {0, 1, 1}, {0, 64, 64}, {63, 65, 2}, {64, 65, 1}, {0, 128, 128}, {127, 128, 1}, {128, 128, 0}, {5, 3, 0},
	} {
		got := members(span(c.from, c.to))
		if len(got) != c.n || c.n > 0 && (got[0] != c.from || got[c.n-1] != c.to-1) {
			t.Errorf("%d to %d: %v", c.from, c.to, got)
		}
	}
}

func TestCut(t *testing.T) {
	for _, text := range []string{"a", "a/b", "a/b/a", "", "/", "//a//", "a/a/a", strings.Repeat("x/y/", 63) + "x/z"} {
		var c cut
		c.fill(text)
		segments := strings.Split(text, "/")
		if c.n != len(segments) {
			t.Errorf("%.20q: %d segments", text, c.n)
			continue
		}
		for i, s := range segments {
			var same []int
			for j := range segments {
				if segments[j] == s {
					same = append(same, j)
				}
			}
			if c.segment(i) != s || !slices.Equal(members(c.same[i]), same) || c.only(below(c.n), s) != c.same[i] {
				t.Errorf("%.20q: segment %d is %q, at %v", text, i, c.segment(i), members(c.same[i]))
			}
		}
		if !c.only(below(c.n), "none").empty() || !c.only(spots{}, segments[0]).empty() {
			t.Errorf("%.20q: found what is not there", text)
		}
	}
}

// A place passes segments as the plain definition does, from wherever it may be.
func TestPass(t *testing.T) {
	seeded(t, 20000, 40, func(t *testing.T, d *dice) {
		f, topic := d.filter(t), d.topic(t)
		if isSole(f.text) || isSole(topic.text) {
			return
		}
		levels := topic.Levels()
		var c cut
		c.fill(topic.text)
		from := d.roll(c.n + 1)
		path := "/" + f.text
		if got := c.pass(path, c.at(from)).end; got != matches(f.Segments(), levels[from:]) {
			t.Errorf("%s from %d of %s: %v", f, from, topic, got)
		}
		want := false
		for i := from; i <= c.n; i++ {
			want = want || matches(f.Segments(), levels[i:])
		}
		if got := c.pass(path, c.anywhere(from)).end; got != want {
			t.Errorf("%s anywhere from %d of %s: %v", f, from, topic, got)
		}
	})
}
