package routing

import "strings"

// trie is a tree over the segments of canonical texts, with an entry for each text put in. Segments at which no texts part
// stand uncut in one node, so there are never more than a few nodes a text, however long the texts are and in whatever
// order they came and went.
type trie[E any] struct {
	root node[E] // a fork, never full
	size int     // nodes under the root
}

// node is a leaf (no fork) or a fork, behind a segment and the rest.
type node[E any] struct {
	rest  string   // more segments, each after a '/'; that of a fork has no "#"
	fork  *fork[E] // the children
	full  bool     // a text ends here, and entry is its
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

// only is the single child, when there is one and no more.
func (f *fork[E]) only() (segment string, n *node[E]) {
	count := len(f.few) + len(f.lots.m)
	if f.plus != nil {
		segment, n = "+", f.plus
		count++
	}
	if f.hash != nil {
		segment, n = "#", f.hash
		count++
	}
	if count != 1 {
		return "", nil
	}
	if n == nil { // it is literal; children in a map are never few
		segment, n = f.few[0].label, f.few[0].node
	}
	return segment, n
}

// shared is how many bytes of two paths are the same whole segments, up to a "#".
func shared(a, b string) (n int) {
	for a != "" && b != "" {
		var x, y string
		x, a = split(a)
		y, b = split(b)
		if x != y || x == "#" {
			break
		}
		n += 1 + len(x)
	}
	return n
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
		if child.fork == nil && child.rest == path {
			return child
		}
		common := shared(child.rest, path)
		if child.fork == nil || common < len(child.rest) {
			t.part(child, common)
			n.fork.own(segment, child)
		}
		if path = path[common:]; path == "" {
			return child
		}
		n = child
		segment, path = split(path)
	}
}

// part makes a fork that keeps n bytes of the rest; what is behind them goes into a child.
func (t *trie[E]) part(n *node[E], common int) {
	head, tail := strings.Clone(n.rest[:common]), n.rest[common:]
	if tail == "" {
		n.rest, n.fork = head, &fork[E]{}
		return
	}
	segment, rest := split(tail)
	moved := &node[E]{rest: rest, fork: n.fork, full: n.full, entry: n.entry}
	*n = node[E]{rest: head, fork: &fork[E]{}}
	n.fork.put(segment, moved)
	t.size++
}

// join is the way back from part: a fork that is not full and has one child becomes that child.
func (t *trie[E]) join(n *node[E]) {
	segment, child := n.fork.only()
	if child == nil || segment == "#" && child.fork != nil {
		return
	}
	*n = node[E]{rest: n.rest + "/" + segment + child.rest, fork: child.fork, full: child.full, entry: child.entry}
	t.size--
}

// find is the full node of a text, or nil.
func (t *trie[E]) find(text string) *node[E] {
	segment, path := first(text)
	for n := &t.root; n.fork != nil; {
		n = n.fork.child(segment)
		if n == nil || !strings.HasPrefix(path, n.rest) {
			return nil
		}
		path = path[len(n.rest):]
		if path == "" && n.full {
			return n
		}
		if path == "" || path[0] != '/' {
			return nil
		}
		segment, path = split(path)
	}
	return nil
}

// remove empties the full node of a text and takes out what is not needed any more.
func (t *trie[E]) remove(text string) {
	segment, path := first(text)
	t.prune(&t.root, segment, path)
	if t.root.fork.empty() {
		t.root.fork = nil
	}
}

func (t *trie[E]) prune(n *node[E], segment, path string) {
	child := n.fork.child(segment)
	if path = path[len(child.rest):]; path != "" {
		next, rest := split(path)
		t.prune(child, next, rest)
	} else {
		var none E
		child.full, child.entry = false, none
	}
	if child.fork != nil && child.fork.empty() {
		child.fork = nil
	}
	switch {
	case child.full:
	case child.fork == nil:
		n.fork.remove(segment)
		t.size--
	default:
		t.join(child)
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
