package routing

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func mustFilter(t *testing.T, text string) Filter {
	t.Helper()
	f, err := ParseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/c", false}, {"a/+", "+/b", true}, {"a/+", "b/+", false},
		{"a/#", "a", true}, {"a/#", "+/b/c", true}, {"a/#/z", "a/b/#", true}, {"a/#/z", "a/#/y", false},
		{"#", "$SYS/x", false}, {"+/x", "$SYS/x", false}, {"$SYS/#", "$SYS/+/y", true}, {"#", "+", true},
		{"#/a/#", "b/+/c", true}, {"#/a/#", "b/c", false}, {"+", "a/b", false}, {"+/+", "#/x", true},
	} {
		a, b := mustFilter(t, c.a), mustFilter(t, c.b)
		if a.Overlaps(b) != c.want || b.Overlaps(a) != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, !c.want)
		}
	}
	if (Filter{}).Overlaps(mustFilter(t, "#")) || !mustFilter(t, "#").WithDollars().Overlaps(mustFilter(t, "$SYS/x")) {
		t.Error("the zero filter, or dollars")
	}
}

// Random filters overlap exactly when one of all short topics is matched by both.
func TestOverlapsAgainstTopics(t *testing.T) {
	topics := []string{""}
	var all []Topic
	for range 5 {
		var next []string
		for _, p := range topics {
			for _, l := range []string{"a", "b"} {
				next = append(next, strings.TrimPrefix(p+"/"+l, "/"))
			}
		}
		for _, text := range next {
			tt, err := ParseTopic(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tt)
		}
		topics = next
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func() Filter {
		for {
			var parts []string
			for range 1 + rnd.IntN(3) {
				parts = append(parts, []string{"a", "b", "+", "#"}[rnd.IntN(4)])
			}
			if f, err := ParseFilter(strings.Join(parts, "/")); err == nil {
				return f
			}
		}
	}
	for range 5000 {
		f, g := random(), random()
		want := false
		for _, tt := range all {
			want = want || f.Match(tt) && g.Match(tt)
		}
		if f.Overlaps(g) != want {
			t.Errorf("%s and %s: %v", f, g, !want)
		}
	}
}
