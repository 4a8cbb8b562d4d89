package routing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// pair is a row of the plain table.
type pair struct {
	filter Filter
	value  int
}

// tableIsDefinition plays puts and takes on a table and on a list, and asks both.
func tableIsDefinition(t *testing.T, d *dice) {
	var table Table[int]
	var list []pair
	for !d.done() {
		p := pair{d.filter(t), d.roll(4)}
		if d.roll(8) == 0 { // many values at one filter
			for v := range 20 {
				if table.Add(p.filter, v) != !slices.Contains(list, pair{p.filter, v}) {
					t.Errorf("add %v", pair{p.filter, v})
				} else if !slices.Contains(list, pair{p.filter, v}) {
					list = append(list, pair{p.filter, v})
				}
			}
		}
		if len(list) > 0 && d.roll(3) == 0 {
			p = list[d.roll(len(list))]
		}
		i := slices.Index(list, p)
		if d.roll(2) == 0 {
			if table.Add(p.filter, p.value) != (i < 0) {
				t.Errorf("add %v", p)
			}
			if i < 0 {
				list = append(list, p)
			}
		} else {
			if table.Remove(p.filter, p.value) != (i >= 0) {
				t.Errorf("remove %v", p)
			}
			if i >= 0 {
				list = slices.Delete(list, i, i+1)
			}
		}
		sameMatches(t, &table, list, d.topic(t))
	}
	sameShape(t, &table, list)
	emptied(t, &table, list)
}

func sameMatches(t *testing.T, table *Table[int], list []pair, topic Topic) {
	t.Helper()
	var want, got []int
	for _, p := range list {
		if p.filter.Match(topic) {
			want = append(want, p.value)
		}
	}
	table.Match(topic, func(v int) { got = append(got, v) })
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || table.Len() != len(list) {
		t.Errorf("%s: got %v, want %v, of %d pairs %v", topic, got, want, table.Len(), list)
	}
}

// sameShape looks whether the nodes are those of a table that got the same pairs at once: what came and went left nothing.
func sameShape(t *testing.T, table *Table[int], list []pair) {
	t.Helper()
	var fresh Table[int]
	for _, p := range list {
		fresh.Add(p.filter, p.value)
	}
	if table.plain.size != fresh.plain.size || table.dollars.size != fresh.dollars.size {
		t.Errorf("%d and %d nodes, fresh %d and %d, for %v", table.plain.size, table.dollars.size, fresh.plain.size, fresh.dollars.size, list)
	}
}

// emptied takes everything out and looks for what is left.
func emptied(t *testing.T, table *Table[int], list []pair) {
	t.Helper()
	n := 0
	table.All(func(int) { n++ })
	if n != len(list) {
		t.Errorf("All visited %d of %d", n, len(list))
	}
	for _, p := range list {
		if !table.Remove(p.filter, p.value) {
			t.Errorf("%v is gone", p)
		}
	}
	if table.plain.size != 0 || table.dollars.size != 0 || table.plain.root.fork != nil || table.dollars.root.fork != nil || table.Len() != 0 {
		t.Errorf("left in an empty table: %d and %d nodes, %d pairs", table.plain.size, table.dollars.size, table.Len())
	}
}

func TestTableRandom(t *testing.T) { seeded(t, 2000, 400, tableIsDefinition) }
func FuzzTable(f *testing.F)       { fuzzed(f, tableIsDefinition) }

// Long lists of few different levels, where places overlap most.
func deepTable(t *testing.T, d *dice) {
	var table Table[int]
	var list []pair
	for v := range 1 + d.roll(10) {
		var texts []string
		hashes := 0
		for range 1 + d.roll(128) {
			s := []string{"a", "b", "+", "#"}[[]int{0, 0, 0, 0, 1, 2, 2, 3}[d.roll(8)]]
			if s == "#" {
				if hashes++; hashes > MaxAnyLevels {
					s = "+"
				}
			}
			texts = append(texts, s)
		}
		p := pair{parseFilter(t, strings.Join(texts, "/")), v}
		table.Add(p.filter, v)
		list = append(list, p)
	}
	for range 5 {
		levels := make([]string, 1+d.roll(128))
		b := 1 + d.roll(40)
		for i := range levels {
			levels[i] = "a"
			if d.roll(b) == 1 {
				levels[i] = "b"
			}
		}
		sameMatches(t, &table, list, mustTopic(t, levels...))
	}
	emptied(t, &table, list)
}

func TestTableDeep(t *testing.T) { seeded(t, 1500, 1500, deepTable) }
func FuzzTableDeep(f *testing.F) { fuzzed(f, deepTable) }

func TestTableZero(t *testing.T) {
	var table Table[string]
	if table.Add(Filter{}, "x") || table.Remove(Filter{}, "x") || table.Remove(parseFilter(t, "a"), "") || table.Len() != 0 {
		t.Error("the zero filter was taken")
	}
	table.Match(parseTopic(t, "a"), func(string) { t.Error("match in an empty table") })
	if !table.Add(parseFilter(t, "a"), "") || table.Add(parseFilter(t, "a"), "") { // a zero value is a value
		t.Error("zero value")
	}
	table.Match(Topic{}, func(string) { t.Error("the zero topic matched") })
	n := 0
	table.Match(parseTopic(t, "a"), func(string) { n++ })
	if n != 1 || !table.Remove(parseFilter(t, "a"), "") || table.plain.size != 0 {
		t.Error("zero value")
	}
}

// One filter with many values, one level with many children: both ways up and down.
func TestTableWide(t *testing.T) {
	const n = 5000
	var table Table[int]
	news := parseFilter(t, "news/+")
	for i := range n {
		table.Add(news, i)
		table.Add(parseFilter(t, fmt.Sprintf("dev/%d/in", i)), i)
	}
	count := func(topic string) (n int) {
		table.Match(parseTopic(t, topic), func(int) { n++ })
		return n
	}
	for i := range n {
		if i%1000 == 0 && (count("news/x") != n-i || count("dev/4999/in") != 1 || count(fmt.Sprintf("dev/%d/in", i-1)) != 0) {
			t.Errorf("after %d: %d, %d", i, count("news/x"), count("dev/4999/in"))
		}
		if !table.Remove(news, i) || !table.Remove(parseFilter(t, fmt.Sprintf("dev/%d/in", i)), i) || table.Remove(news, i) {
			t.Fatalf("%d is gone", i)
		}
	}
	if table.plain.size != 0 || table.Len() != 0 {
		t.Errorf("%d nodes left", table.plain.size)
	}
}

// A match allocates nothing, whichever pass finds it.
func TestTableMatchAllocations(t *testing.T) {
	var table Table[*int]
	for i, text := range []string{"a/b/c", "a/+/c", "a/#", "#", "#/c", "#/b/#", "a/#/c", "+/+/+", "#/x/y/z", "a/b/+/#/q"} {
		v := i
		table.Add(parseFilter(t, text), &v)
		table.Add(parseFilter(t, text).WithDollars(), &v)
	}
	topic := parseTopic(t, "a/b/c")
	n := 0
	if got := testing.AllocsPerRun(100, func() { table.Match(topic, func(*int) { n++ }) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if n != 101*12 {
		t.Errorf("%v matches", n)
	}
}

// hostile is filters that are bad to match: n pairs, as different as they can be. They part in the first segments (early)
// or in the last ones, and at the end once more, so that no path ends before its filter.
func hostile(t testing.TB, n int, early bool, prefix, suffix string) *Table[int] {
	t.Helper()
	const length = 120
	var table Table[int]
	for i := range n {
		var b strings.Builder
		b.WriteString(prefix)
		for at := range length {
			bit := at
			if !early {
				bit = length - 1 - at
			}
			if i>>bit&1 == 1 {
				b.WriteString("a/")
			} else {
				b.WriteString("+/")
			}
		}
		table.Add(parseFilter(t, b.String()+"a/"+suffix), i)
		table.Add(parseFilter(t, b.String()+"+/"+suffix), i)
	}
	return &table
}

// 10,000 filters of up to 128 segments with wildcards, and a topic of 128 levels that many of them fit.
// It shows fault 10.
func TestTableHostile(t *testing.T) {
	topic := parseTopic(t, strings.TrimSuffix(strings.Repeat("a/", 128), "/"))
	for _, c := range []struct{ name, prefix, suffix string }{
		{"one-level", "", "+/+/+/+/+/+/a"},
		{"one-level, no match", "", "b"},
		{"any-levels first", "#/", "b"},
		{"any-levels twice", "#/", "#/b"},
		{"any-levels at both ends", "#/", "b/#"},
		{"any-levels in a leaf", "", "#/a/#/b"},
	} {
		table := hostile(t, 5000/slow, true, c.prefix, c.suffix)
		n := 0
		start := time.Now()
		table.Match(topic, func(int) { n++ })
		took := time.Since(start)
		t.Logf("%s: %d nodes, %d matches, %v", c.name, table.plain.size, n, took)
		if took > 2*time.Second { // a walk that doubles at each level would not come back
			t.Errorf("%s: %v", c.name, took)
		}
	}
}
