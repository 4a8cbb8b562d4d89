package routing

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A table finds a filter by a topic exactly when a tree finds the topic by the filter.
func tableIsTree(t *testing.T, d *dice) {
	var table Table[Filter]
	var tree Tree[int]
	filters, topics := make([]Filter, 10), make([]Topic, 10)
	for i := range 10 {
		filters[i], topics[i] = d.filter(t), d.topic(t)
		table.Add(filters[i], filters[i])
		tree.Set(topics[i], i)
	}
	found := map[string]int{}
	for _, topic := range topics {
		table.Match(topic, func(f Filter) { found[fmt.Sprint(f, f.Dollars(), topic)] |= 1 })
	}
	for _, f := range filters {
		tree.Match(f, func(topic Topic, _ int) bool { found[fmt.Sprint(f, f.Dollars(), topic)] |= 2; return true })
	}
	for pair, by := range found {
		if by != 3 {
			t.Errorf("%s found by %d only", pair, by)
		}
	}
}

func TestTableIsTree(t *testing.T) { seeded(t, 4000, 150, tableIsTree) }

// 128 levels and segments are as good as one.
func TestFullLength(t *testing.T) {
	var table Table[string]
	var tree Tree[bool]
	full := slices.Repeat([]string{"a"}, MaxLevels)
	topic := mustTopic(t, full...)
	short := mustTopic(t, full[1:]...)
	tree.Set(topic, true)
	tree.Set(short, false)
	for text, want := range map[string]int{ // 1: the full one, 2: the one a level shorter
		strings.Join(full, "/"):                                   1,
		strings.Repeat("+/", MaxLevels-1) + "+":                   1,
		strings.Repeat("+/", MaxLevels-1) + "#":                   3,
		"#/" + strings.Repeat("a/", MaxLevels-2) + "+":            3,
		"#/" + strings.Repeat("+/", MaxLevels-3) + "#/a":          3,
		"#/" + strings.Repeat("a/", MaxLevels-2) + "#":            3,
		strings.Repeat("a/", 64) + "#/" + "b":                     0,
		strings.Repeat("a/", 100) + "#/" + "a/a":                  3,
		strings.Repeat("a/", 63) + "b/#":                          0,
		strings.Repeat("a/", MaxLevels-1) + "b":                   0,
		"#/" + strings.Repeat("a/", 60) + "b/#":                   0,
		strings.Repeat("a/", 64) + strings.Repeat("+/", 63) + "a": 1,
	} {
		f := parseFilter(t, text)
		table.Add(f, text)
		got := 0
		tree.Match(f, func(_ Topic, isFull bool) bool {
			got += 2
			if isFull {
				got--
			}
			return true
		})
		if got != want {
			t.Errorf("%.20s…: tree %d", text, got)
		}
		for i, topic := range []Topic{topic, short} {
			hit := false
			table.Match(topic, func(v string) { hit = hit || v == text })
			if hit != (want>>i&1 == 1) || f.Match(topic) != hit {
				t.Errorf("%.20s…: table %v, match %v", text, hit, f.Match(topic))
			}
		}
	}
}

// Reads may run beside each other: the race detector looks on.
func TestReadsBesideEachOther(t *testing.T) {
	var table Table[int]
	var tree Tree[int]
	r := NewRouter[int]()
	for name, kind := range map[string]Kind{"topic": TopicKind, "headers": HeadersKind, "fanout": Fanout} {
		if err := r.Declare(name, kind, "fanout"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		f := parseFilter(t, fmt.Sprintf("a/%d/%s", i%20, []string{"#", "+", "x/#/y", "z"}[i%4]))
		table.Add(f, i)
		tree.Set(parseTopic(t, fmt.Sprintf("a/%d/%d", i%20, i)), i)
		for _, b := range []Binding[int]{
			{Source: "topic", Queue: i, Filter: f},
			{Source: "topic", Exchange: "headers", Filter: f},
			{Source: "headers", Queue: i, Args: Headers{{"n", int32(i)}}},
		} {
			if _, err := r.Bind(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	topic, f, h := parseTopic(t, "a/3/x/y"), parseFilter(t, "+/3/#"), Headers{{"n", int64(7)}}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				n := 0
				table.Match(topic, func(int) { n++ })
				tree.Match(f, func(Topic, int) bool { n++; return true })
				if _, err := r.Route("topic", topic, h, func(int, any) { n++ }); err != nil || n == 0 {
					t.Error(n, err)
				}
				_, _ = len(r.Bindings("topic")), len(r.BindingsOf(3))
				_, _ = tree.Get(topic)
			}
		})
	}
	group.Wait()
}

// What comes and goes for long leaves no memory behind.
func TestChurnLeavesNothing(t *testing.T) {
	var table Table[int]
	keep := parseFilter(t, "site/keep/#")
	table.Add(keep, 0)
	churn := func(round int) {
		for i := range 20000 {
			f := parseFilter(t, fmt.Sprintf("site/dev%d/%d/in", i, round))
			table.Add(f, i)
			table.Add(parseFilter(t, "site/all"), i)
		}
		for i := range 20000 {
			table.Remove(parseFilter(t, fmt.Sprintf("site/dev%d/%d/in", i, round)), i)
			table.Remove(parseFilter(t, "site/all"), i)
		}
	}
	churn(0)
	before := int64(heap())
	for round := range 3 {
		churn(round)
	}
	if grown := int64(heap()) - before; grown > 1<<19 {
		t.Errorf("grown by %d bytes", grown)
	}
	if table.plain.size != 1 || shapeOf(&table) != "{site/keep/#}" {
		t.Errorf("%d nodes: %s", table.plain.size, shapeOf(&table))
	}
}

// shapeOf is the paths of a table of few filters.
func shapeOf(table *Table[int]) string {
	var walk func(n *node[values[int]]) string
	walk = func(n *node[values[int]]) string {
		if n.fork == nil {
			return n.rest
		}
		var kids []string
		n.fork.literals(func(label string, k *node[values[int]]) bool {
			kids = append(kids, label+walk(k))
			return true
		})
		return n.rest + "{" + strings.Join(kids, " ") + "}"
	}
	return walk(&table.plain.root)
}

// Filters lose segments from the front as lists do.
func TestFilterDropIsSegments(t *testing.T) {
	seeded(t, 20000, 30, func(t *testing.T, d *dice) {
		segments := d.segments(d.level)
		f, err := NewFilter(segments...)
		if err != nil {
			t.Fatal(err)
		}
		n := d.roll(len(segments))
		want, err := NewFilter(segments[n:]...)
		if got := f.Drop(n); err != nil || got != want {
			t.Errorf("%s without %d: %s, want %s, %v", f, n, got, want, err)
		}
		if !f.Drop(len(segments)).IsZero() {
			t.Errorf("%s without all is something", f)
		}
	})
}
