package routing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shape draws a trie, children in order of their labels.
func shape(n *node[int]) string {
	var b strings.Builder
	b.WriteString(n.rest)
	if n.full {
		fmt.Fprintf(&b, "=%d", n.entry)
	}
	if n.fork == nil {
		return b.String()
	}
	var kids []string
	for _, label := range []string{"+", "#"} {
		if k := n.fork.child(label); k != nil {
			kids = append(kids, label+shape(k))
		}
	}
	n.fork.literals(func(label string, k *node[int]) bool {
		kids = append(kids, label+shape(k))
		return true
	})
	slices.Sort(kids)
	return b.String() + "{" + strings.Join(kids, " ") + "}"
}

// Each step puts a text in (its number is the step) or, with a '-', takes one out.
func TestTrieShape(t *testing.T) {
	for _, c := range []struct {
		name, steps, want string
		size              int
	}{
		{"one text is one node", "a/b/c/d", "{a/b/c/d=0}", 1},
		{"two part where they differ", "a/b/c/d a/b/x/d", "{a/b{c/d=0 x/d=1}}", 3},
		{"the longer is a child", "a/b a/b/c/d", "{a/b=0{c/d=1}}", 2},
		{"the shorter is put between", "a/b/c/d a/b", "{a/b=1{c/d=0}}", 2},
		{"between, not at a cut", "a/b/c/d/e a/b/c", "{a/b/c=1{d/e=0}}", 2},
		{"a fork is cut", "a/b/c/x a/b/c/y a/z", "{a{b/c{x=0 y=1} z=2}}", 5},
		{"a fork is cut at its first segment", "a/b/x a/b/y a", "{a=2{b{x=0 y=1}}}", 4},
		{"segments, not bytes", "a/bc/x a/bd/x", "{a{bc/x=0 bd/x=1}}", 3},
		{"wildcards are segments", "a/+/b a/+/c a/#", "{a{#=2 +{b=0 c=1}}}", 5},
		{"any-levels inside stays in a leaf", "a/#/b", "{a/#/b=0}", 1},
		{"any-levels inside is no rest of a fork", "a/#/b a/#/c", "{a{#{b=0 c=1}}}", 4},
		{"any-levels twice", "#/b/#/c #/b/#/d", "{#/b{#{c=0 d=1}}}", 4},
		{"removed, one left: joined", "a/b/c/d a/b/x/d -a/b/x/d", "{a/b/c/d=0}", 1},
		{"removed, a text between stays", "a/b a/b/c -a/b/c", "{a/b=0}", 1},
		{"removed between: joined", "a/b a/b/c -a/b", "{a/b/c=1}", 1},
		{"removed between two: stays a fork", "a/b a/b/c a/b/d -a/b", "{a/b{c=1 d=2}}", 3},
		{"joined to a fork", "a/b/x a/b/y a/z -a/z", "{a/b{x=0 y=1}}", 3},
		{"joined over any-levels", "a/#/b a/#/c -a/#/b", "{a/#/c=1}", 1},
		{"not joined to a fork of any-levels", "a/#/b a/#/c a/d -a/d", "{a{#{b=0 c=1}}}", 4},
		{"a wildcard child is joined", "a/+/b a/c -a/c", "{a/+/b=0}", 1},
		{"nothing is left", "a/b/c a/b/d a -a/b/c -a -a/b/d", "", 0},
		{"empty levels", "/ // /a", "{{=0{=1} a=2}}", 4},
		{"the one empty level", "%00 / /a", "{=0{=1 a=2}}", 3},
		{"looks like the one empty level", "%2500 %00/a", "{%00=0{a=1}}", 2},
	} {
		var tr trie[int]
		for i, step := range strings.Fields(c.steps) {
			if text, out := strings.CutPrefix(step, "-"); out {
				if tr.find(text) == nil {
					t.Errorf("%s: %s is not there", c.name, text)
				}
				tr.remove(text)
				continue
			}
			n := tr.insert(step)
			n.full, n.entry = true, i
		}
		if got := shape(&tr.root); got != c.want || tr.size != c.size {
			t.Errorf("%s: %s, %d nodes", c.name, got, tr.size)
		}
	}
}

func TestTrieFind(t *testing.T) {
	var tr trie[int]
	if tr.find("a") != nil {
		t.Error("found in an empty trie")
	}
	texts := []string{"a/b/c/d", "a/b/x", "a/b", "q/+/#", "q/+/r", "%00", "%2500/z"}
	for i, text := range texts {
		n := tr.insert(text)
		n.full, n.entry = true, i
	}
	for i, text := range texts {
		if n := tr.find(text); n == nil || n.entry != i || tr.insert(text) != n {
			t.Errorf("%s is lost", text)
		}
	}
	for _, text := range []string{"a", "a/b/c", "a/b/c/d/e", "a/bb", "a/b/", "a/b/xx", "q", "q/+", "q/+/+", "q/#", "z", "/", "%2500"} {
		if n := tr.find(text); n != nil {
			t.Errorf("%q found as %d", text, n.entry)
		}
	}
}

// Children move from a slice to a map and back; wildcards stand beside them.
func TestForkSizes(t *testing.T) {
	var f fork[int]
	nodes := map[string]*node[int]{}
	check := func() {
		t.Helper()
		for label, n := range nodes {
			if f.child(label) != n {
				t.Fatalf("%d children: %s is lost", len(nodes), label)
			}
		}
		n := 0
		f.literals(func(label string, k *node[int]) bool {
			if nodes[label] != k {
				t.Fatalf("%s is another", label)
			}
			n++
			return true
		})
		if want := len(nodes) - len([]*node[int]{f.plus, f.hash}); f.plus != nil && f.hash != nil && n != want {
			t.Fatalf("%d literals, want %d", n, want)
		}
		if f.empty() != (len(nodes) == 0) {
			t.Fatalf("%d children, empty %v", len(nodes), f.empty())
		}
		if label, k := f.only(); (k != nil) != (len(nodes) == 1) || k != nil && nodes[label] != k {
			t.Fatalf("%d children, only %q", len(nodes), label)
		}
	}
	labels := []string{"+", "#"}
	for i := range 40 {
		labels = append(labels, fmt.Sprint(i))
	}
	for round := range 3 {
		for _, label := range labels {
			check()
			nodes[label] = &node[int]{entry: round}
			f.put(label, nodes[label])
		}
		check()
		for i := range labels {
			label := labels[(i*5+round)%len(labels)]
			f.remove(label)
			delete(nodes, label)
			check()
		}
	}
}

func TestShared(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"/a", "", 0}, {"", "/a", 0}, {"/a", "/a", 2}, {"/a/b", "/a/c", 2}, {"/ab", "/a", 0}, {"/a/b", "/a/b/c", 4},
		{"/#", "/#", 0}, {"/a/#/b", "/a/#/b", 2}, {"/+/a", "/+/b", 2}, {"/", "/", 1}, {"//a", "//b", 1}, {"//", "//", 2},
	} {
		if got := shared(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %d", c.a, c.b, got)
		}
	}
}

// A text that came first does not stay alive for the sake of a short label that others share.
func TestTrieOwnsSharedLabels(t *testing.T) {
	for _, others := range []int{1, 20} { // children in a slice, and in a map
		var tr trie[int]
		for i := range others {
			tr.insert(fmt.Sprintf("other%d", i)).full = true
		}
		big := "a/" + strings.Repeat("x", 60000)
		tr.insert(big).full = true
		tr.insert("a/b").full = true
		tr.remove(big)
		tr.root.fork.literals(func(label string, n *node[int]) bool {
			if label == "a" && sameMemory(label, big) {
				t.Errorf("with %d others the label is part of the big text", others)
			}
			return true
		})
		if tr.find("a/b") == nil || tr.find(big) != nil {
			t.Error("lost")
		}
	}
}
