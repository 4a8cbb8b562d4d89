package routing

import "strings"

// trie is a tree over the segments of canonical texts, with an entry for each text put in. A text that shares no further
// segment with another ends in a leaf that keeps the rest of it uncut; the leaf becomes a fork when another text comes
// along. So most texts cost one node, whatever their length.
type trie[E any] struct {
	root node[E] // a fork, never full
	size int     // nodes under the root
}

// node is a leaf (no fork) or a fork.
type node[E any] struct {
	rest  string   // of a leaf: the segments that are left, each after a '/'; "" when none
	fork  *fork[E] // of a fork: the children
	full  bool     // a text ends here, or in rest, and entry is its
	entry E
}

// fork is the children of a node by segment. Wildcards have a place of their own: in canonical text the segments "+" and
// "#" are wildcards only.
type fork[E any] struct {
	plus, hash *node[E]
	few        []kid[E] // literal children, while they are few
	lots       dict[string, *node[E]]
}

type kid[E any] struct {
	label string
	node  *node[E]
}

// maxFew is the greatest number of literal children held as a slice.
const maxFew = 8

// first cuts the first segment off a canonical text; path is what follows it, from the '/' on.
func first(text string) (segment, path string) {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return text[:i], text[i:]
	}
	return soleLevel(text), ""
}

// split cuts the first segment off a path, which begins with a '/'.
func split(path string) (segment, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

func (f *fork[E]) literal(label string) *node[E] {
	if f.lots.m != nil {
		return f.lots.m[label]
	}
	for i := range f.few {
		if f.few[i].label == label {
			return f.few[i].node
		}
	}
	return nil
}

func (f *fork[E]) child(segment string) *node[E] {
	switch segment {
	case "+":
		return f.plus
	case "#":
		return f.hash
	}
	return f.literal(segment)
}

// put adds a child that is not there yet.
func (f *fork[E]) put(segment string, n *node[E]) {
	switch {
	case segment == "+":
		f.plus = n
	case segment == "#":
		f.hash = n
	case f.lots.m != nil:
		f.lots.put(segment, n)
	case len(f.few) < maxFew:
		f.few = append(f.few, kid[E]{segment, n})
	default:
		for _, k := range f.few {
			f.lots.put(k.label, k.node)
		}
		f.lots.put(segment, n)
		f.few = nil
	}
}

// remove takes out a child that is there.
func (f *fork[E]) remove(segment string) {
	switch {
	case segment == "+":
		f.plus = nil
	case segment == "#":
		f.hash = nil
	case f.lots.m != nil:
		f.lots.remove(segment)
		if len(f.lots.m) <= maxFew/2 {
			for label, n := range f.lots.m {
				f.few = append(f.few, kid[E]{label, n})
			}
			f.lots = dict[string, *node[E]]{}
		}
	default:
		for i := range f.few {
			if f.few[i].label == segment {
				last := len(f.few) - 1
				f.few[i], f.few[last] = f.few[last], kid[E]{}
				f.few = f.few[:last]
				return
			}
		}
	}
}

// own lets the label of a literal child stand in memory of its own, so that a node that many texts share does not keep
// the one alive that came first.
func (f *fork[E]) own(label string, n *node[E]) {
	switch {
	case n == f.plus || n == f.hash:
	case f.lots.m != nil:
		delete(f.lots.m, label)
		f.lots.m[strings.Clone(label)] = n
	default:
		for i := range f.few {
			if f.few[i].label == label {
				f.few[i].label = strings.Clone(label)
			}
		}
	}
}

func (f *fork[E]) empty() bool {
	return f.plus == nil && f.hash == nil && len(f.few) == 0 && f.lots.m == nil
}

// literals goes through the literal children until visit returns false.
func (f *fork[E]) literals(visit func(label string, n *node[E]) bool) bool {
	for i := range f.few {
		if !visit(f.few[i].label, f.few[i].node) {
			return false
		}
	}
	for label, n := range f.lots.m {
		if !visit(label, n) {
			return false
		}
	}
	return true
}

// insert is the node of a text, made when it is not there. The caller fills it.
func (t *trie[E]) insert(text string) *node[E] {
	segment, path := first(text)
	n := &t.root
	if n.fork == nil {
		n.fork = &fork[E]{}
	}
	for {
		child := n.fork.child(segment)
		if child == nil {
			child = &node[E]{rest: path}
			n.fork.put(segment, child)
			t.size++
			return child
		}
		if child.fork == nil {
			if child.rest == path {
				return child
			}
			t.unfold(child)
			n.fork.own(segment, child)
		}
		if path == "" {
			return child
		}
		n = child
		segment, path = split(path)
	}
}

// unfold makes a fork of a leaf; what the leaf held goes one segment down when its text does not end here.
func (t *trie[E]) unfold(n *node[E]) {
	n.fork = &fork[E]{}
	if n.rest == "" {
		return
	}
	segment, rest := split(n.rest)
	n.fork.put(segment, &node[E]{rest: rest, full: n.full, entry: n.entry})
	t.size++
	var none E
	n.rest, n.full, n.entry = "", false, none
}

// find is the full node of a text, or nil.
func (t *trie[E]) find(text string) *node[E] {
	segment, path := first(text)
	n := &t.root
	for n.fork != nil {
		child := n.fork.child(segment)
		if child == nil {
			return nil
		}
		if path == "" || child.fork == nil {
			if child.full && child.rest == path {
				return child
			}
			return nil
		}
		n = child
		segment, path = split(path)
	}
	return nil
}

// remove empties the full node of a text and takes out what is not needed any more.
func (t *trie[E]) remove(text string) {
	segment, path := first(text)
	t.prune(&t.root, segment, path)
}

func (t *trie[E]) prune(n *node[E], segment, path string) {
	child := n.fork.child(segment)
	if child.fork != nil && path != "" {
		next, rest := split(path)
		t.prune(child, next, rest)
	} else {
		var none E
		child.full, child.entry = false, none
	}
	if child.full || child.fork != nil {
		return
	}
	n.fork.remove(segment)
	t.size--
	if n.fork.empty() {
		n.fork = nil
	}
}

// each goes through the entries under a node, and its own, until visit returns false.
func (n *node[E]) each(visit func(*E) bool) bool {
	if n.full && !visit(&n.entry) {
		return false
	}
	f := n.fork
	if f == nil {
		return true
	}
	if f.plus != nil && !f.plus.each(visit) || f.hash != nil && !f.hash.each(visit) {
		return false
	}
	return f.literals(func(_ string, n *node[E]) bool { return n.each(visit) })
}
