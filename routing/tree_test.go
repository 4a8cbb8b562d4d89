package routing

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// treeIsDefinition plays sets and deletes on a tree and on a map, and asks both.
func treeIsDefinition(t *testing.T, d *dice) {
	var tree Tree[int]
	model := map[Topic]int{}
	for !d.done() {
		topic, v := d.topic(t), d.roll(100)
		want, there := model[topic]
		if got, had := tree.Get(topic); got != want || had != there {
			t.Errorf("get %s: %d, %v", topic, got, had)
		}
		if d.roll(3) > 0 {
			if old, had := tree.Set(topic, v); old != want || had != there {
				t.Errorf("set %s: %d, %v", topic, old, had)
			}
			model[topic] = v
		} else {
			if old, had := tree.Delete(topic); old != want || had != there {
				t.Errorf("delete %s: %d, %v", topic, old, had)
			}
			delete(model, topic)
		}
		sameFound(t, &tree, model, d.filter(t))
	}
	all := map[Topic]int{}
	tree.All(func(topic Topic, v int) bool { all[topic] = v; return true })
	if !maps.Equal(all, model) {
		t.Errorf("All visited %v of %v", all, model)
	}
	for topic := range model {
		tree.Delete(topic)
	}
	if tree.Len() != 0 || tree.trie.size != 0 || tree.trie.root.fork != nil {
		t.Errorf("left in an empty tree: %d topics, %d nodes", tree.Len(), tree.trie.size)
	}
}

func sameFound(t *testing.T, tree *Tree[int], model map[Topic]int, f Filter) {
	t.Helper()
	want, got := map[Topic]int{}, map[Topic]int{}
	for topic, v := range model {
		if f.Match(topic) {
			want[topic] = v
		}
	}
	tree.Match(f, func(topic Topic, v int) bool {
		if _, twice := got[topic]; twice {
			t.Errorf("%s found %s twice", f, topic)
		}
		got[topic] = v
		return true
	})
	if !maps.Equal(got, want) || tree.Len() != len(model) {
		t.Errorf("%s (dollars %v): got %v, want %v, of %v", f, f.Dollars(), got, want, model)
	}
}

func TestTreeRandom(t *testing.T) { seeded(t, 2000, 400, treeIsDefinition) }
func FuzzTree(f *testing.F)       { fuzzed(f, treeIsDefinition) }

// Long topics of few different levels against long filters.
func deepTree(t *testing.T, d *dice) {
	var tree Tree[int]
	model := map[Topic]int{}
	for v := range 1 + d.roll(10) {
		levels := make([]string, 1+d.roll(128))
		for i := range levels {
			levels[i] = []string{"a", "a", "a", "b"}[d.roll(4)]
		}
		topic := mustTopic(t, levels...)
		tree.Set(topic, v)
		model[topic] = v
	}
	for range 5 {
		segments := make([]string, 1+d.roll(128))
		hashes := 0
		for i := range segments {
			segments[i] = []string{"a", "a", "+", "+", "+", "+", "b", "#"}[d.roll(8)]
			if segments[i] == "#" {
				if hashes++; hashes > MaxAnyLevels {
					segments[i] = "+"
				}
			}
		}
		sameFound(t, &tree, model, parseFilter(t, strings.Join(segments, "/")))
	}
}

func TestTreeDeep(t *testing.T) { seeded(t, 1500, 1500, deepTree) }

func TestTreeZero(t *testing.T) {
	var tree Tree[string]
	if _, had := tree.Set(Topic{}, "x"); had || tree.Len() != 0 {
		t.Error("the zero topic was taken")
	}
	if _, had := tree.Delete(Topic{}); had {
		t.Error("the zero topic was deleted")
	}
	if _, had := tree.Get(parseTopic(t, "a")); had {
		t.Error("something in an empty tree")
	}
	no := func(Topic, string) bool { t.Error("match"); return true }
	tree.Match(parseFilter(t, "#"), no)
	tree.Set(parseTopic(t, "a"), "")
	tree.Match(Filter{}, no)
}

// visit ends the search wherever it stands.
func TestTreeMatchStops(t *testing.T) {
	var tree Tree[int]
	for i := range 100 {
		tree.Set(parseTopic(t, fmt.Sprintf("a/%d/%d", i%10, i)), i)
		tree.Set(parseTopic(t, fmt.Sprintf("b/%d", i%3)), i)
	}
	for _, text := range []string{"#", "a/#", "a/+/+", "a/5/+", "a/5/15", "#/15", "+/+", "+/#/+", "b/1"} {
		f := parseFilter(t, text)
		all := 0
		tree.Match(f, func(Topic, int) bool { all++; return true })
		for stop := 1; stop <= min(all, 20); stop++ {
			n := 0
			tree.Match(f, func(Topic, int) bool { n++; return n < stop })
			if n != stop {
				t.Errorf("%s: stopped after %d, not %d", f, n, stop)
			}
		}
		if all == 0 {
			t.Errorf("%s matches nothing", f)
		}
	}
	n := 0
	tree.All(func(Topic, int) bool { n++; return n < 7 })
	if n != 7 {
		t.Errorf("All stopped after %d", n)
	}
}

func TestTreeMatchAllocations(t *testing.T) {
	var tree Tree[int]
	for i := range 100 {
		tree.Set(parseTopic(t, fmt.Sprintf("a/%d/%d", i%10, i)), i)
	}
	for _, text := range []string{"#", "a/+/7", "a/7/17", "#/17", "#/7/#"} {
		f := parseFilter(t, text)
		n := 0
		if got := testing.AllocsPerRun(50, func() { tree.Match(f, func(Topic, int) bool { n++; return true }) }); got > 0 || n == 0 {
			t.Errorf("%s: %v allocations, %d matches", f, got, n)
		}
	}
}

// A filter of 128 segments against topics of 128 levels that part late.
func TestTreeHostile(t *testing.T) {
	var tree Tree[int]
	for i := range 10000 {
		levels := make([]string, 128)
		for j := range levels {
			levels[j] = []string{"a", "b"}[i>>(j%14)&1]
		}
		tree.Set(mustTopic(t, levels...), i)
	}
	for _, text := range []string{
		"#/" + strings.Repeat("+/", 60) + "#/" + strings.Repeat("a/", 60) + "c",
		"#/" + strings.Repeat("a/+/b/", 40) + "#",
		strings.Repeat("+/", 127) + "c",
	} {
		f := parseFilter(t, text)
		start := time.Now()
		tree.Match(f, func(Topic, int) bool { return true })
		took := time.Since(start)
		t.Logf("%.30s…: %d nodes, %v", f, tree.trie.size, took)
		if took > 2*time.Second {
			t.Errorf("%v", took)
		}
	}
}
