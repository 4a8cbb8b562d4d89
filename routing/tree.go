package routing

// Tree holds topics with a value each and finds those that a filter matches (retained messages). The zero value is an
// empty tree. Reads may run beside each other, not beside writes.
type Tree[V any] struct {
	trie   trie[kept[V]]
	topics int
}

type kept[V any] struct {
	topic Topic
	value V
}

// Set puts a value at a topic and gives back the one that was there. The zero topic is not taken. The tree keeps the
// text of the topic.
func (t *Tree[V]) Set(topic Topic, v V) (old V, had bool) {
	if topic.text == "" {
		return old, false
	}
	n := t.trie.insert(topic.text)
	old, had = n.entry.value, n.full
	if !had {
		n.full, n.entry.topic = true, topic
		t.topics++
	}
	n.entry.value = v
	return old, had
}

// Delete takes the value at a topic out and gives it back.
func (t *Tree[V]) Delete(topic Topic) (old V, had bool) {
	n := t.find(topic)
	if n == nil {
		return old, false
	}
	old = n.entry.value
	t.trie.remove(topic.text)
	t.topics--
	return old, true
}

// Get is the value at a topic.
func (t *Tree[V]) Get(topic Topic) (v V, had bool) {
	if n := t.find(topic); n != nil {
		return n.entry.value, true
	}
	return v, false
}

func (t *Tree[V]) find(topic Topic) *node[kept[V]] {
	if topic.text == "" {
		return nil
	}
	return t.trie.find(topic.text)
}

// Len is the number of topics.
func (t *Tree[V]) Len() int { return t.topics }

// All visits every topic, in no order, until visit returns false. visit must not change the tree.
func (t *Tree[V]) All(visit func(Topic, V) bool) {
	t.trie.root.each(func(k *kept[V]) bool { return visit(k.topic, k.value) })
}

// Match visits every topic that f matches, each once, in no order, until visit returns false. visit must not change the
// tree. It visits a node of the tree at most once, and only under paths that f may match.
func (t *Tree[V]) Match(f Filter, visit func(Topic, V) bool) {
	if f.text == "" || t.topics == 0 {
		return
	}
	var c cut
	if isSole(f.text) {
		c.fill(soleLevel(f.text))
	} else {
		c.fill(f.text)
	}
	p := pattern[V]{cut: &c, visit: visit, hidden: !f.dollars && beginsWild(f.text)}
	for i := range c.n {
		switch c.segment(i) {
		case "+":
			p.plus = p.plus.or(spot(i))
		case "#":
			p.hash = p.hash.or(spot(i))
		}
	}
	p.fan(t.trie.root.fork, p.open(front{live: spot(0)}), true)
}

// pattern is a filter that walks a tree: at each node it knows all the segments that may be next.
type pattern[V any] struct {
	*cut
	plus, hash spots // the segments that are wildcards
	visit      func(Topic, V) bool
	hidden     bool // no first level that begins with '$'
}

// front is where a filter may have come to: the segments that may be next, and whether it may have come to its end.
type front struct {
	live spots
	end  bool
}

// open adds what follows an any-levels that takes nothing. There are at most two, so two rounds do.
func (p *pattern[V]) open(f front) front {
	for range MaxAnyLevels {
		skip := f.live.and(p.hash)
		if skip.empty() {
			break
		}
		f.end = f.end || skip.has(p.n-1)
		f.live = f.live.or(skip.shifted().and(below(p.n)))
	}
	return f
}

// step is the front after one more level.
func (p *pattern[V]) step(f front, level string) front {
	stay := f.live.and(p.hash)
	moved := f.live.and(p.plus)
	moved = moved.or(p.only(f.live.without(p.hash.or(p.plus)), level))
	return p.open(front{
		live: stay.or(moved.shifted().and(below(p.n))),
		end:  !moved.empty() && moved.has(p.n-1),
	})
}

// everything tells whether any-levels, as the last segment, takes whatever follows.
func (p *pattern[V]) everything(f front) bool {
	return f.live.and(p.hash).has(p.n - 1)
}

// walk goes on in a node; false: visit wants no more.
func (p *pattern[V]) walk(n *node[kept[V]], f front) bool {
	for path := n.rest; path != "" && !p.everything(f); {
		var level string
		level, path = split(path)
		f = p.step(f, level)
		if f.live.empty() && path != "" {
			return true
		}
	}
	if p.everything(f) {
		return n.each(func(k *kept[V]) bool { return p.visit(k.topic, k.value) })
	}
	if f.end && n.full && !p.visit(n.entry.topic, n.entry.value) {
		return false
	}
	if n.fork == nil || f.live.empty() {
		return true
	}
	return p.fan(n.fork, f, false)
}

// fan goes on in the children of a fork.
func (p *pattern[V]) fan(f *fork[kept[V]], at front, root bool) bool {
	if at.live.and(p.hash.or(p.plus)).empty() {
		for left := at.live; !left.empty(); {
			i := left.lowest()
			left = left.without(p.same[i])
			if n := f.literal(p.segment(i)); n != nil && !p.walk(n, p.step(at, p.segment(i))) {
				return false
			}
		}
		return true
	}
	return f.literals(func(label string, n *node[kept[V]]) bool {
		if root && p.hidden && label != "" && label[0] == '$' {
			return true
		}
		next := p.step(at, label)
		return next.live.empty() && !next.end || p.walk(n, next)
	})
}
