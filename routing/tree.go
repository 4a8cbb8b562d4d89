package routing

// Tree holds topics with a value each and finds those that a filter matches (retained messages). The zero value is an
// empty tree. Reads may run beside each other, not beside writes.
type Tree[V any] struct{ values map[Topic]V }

// Set puts a value at a topic and gives back the one that was there. The zero topic is not taken.
func (t *Tree[V]) Set(topic Topic, v V) (old V, had bool) {
	if topic.IsZero() {
		return old, false
	}
	if t.values == nil {
		t.values = map[Topic]V{}
	}
	old, had = t.values[topic]
	t.values[topic] = v
	return old, had
}

// Delete takes the value at a topic out.
func (t *Tree[V]) Delete(topic Topic) (old V, had bool) {
	old, had = t.values[topic]
	delete(t.values, topic)
	return old, had
}

// Get is the value at a topic.
func (t *Tree[V]) Get(topic Topic) (V, bool) {
	v, had := t.values[topic]
	return v, had
}

// Len is the number of topics.
func (t *Tree[V]) Len() int { return len(t.values) }

// Match visits every topic that f matches, in no order, until visit returns false. visit must not change the tree.
func (t *Tree[V]) Match(f Filter, visit func(Topic, V) bool) {
	for topic, v := range t.values {
		if f.Match(topic) && !visit(topic, v) {
			return
		}
	}
}
