package routing

// Table holds (filter, value) pairs and finds those whose filter matches a topic. The zero value is an empty table.
// Reads may run beside each other, not beside writes.
type Table[V comparable] struct {
	pairs map[Filter]map[V]struct{}
	n     int
}

// Add puts a pair in; false when it was there. The zero filter is not taken.
func (t *Table[V]) Add(f Filter, v V) bool {
	if _, had := t.pairs[f][v]; had || f.IsZero() {
		return false
	}
	if t.pairs == nil {
		t.pairs = map[Filter]map[V]struct{}{}
	}
	if t.pairs[f] == nil {
		t.pairs[f] = map[V]struct{}{}
	}
	t.pairs[f][v] = struct{}{}
	t.n++
	return true
}

// Remove takes a pair out; false when it was not there.
func (t *Table[V]) Remove(f Filter, v V) bool {
	if _, had := t.pairs[f][v]; !had {
		return false
	}
	delete(t.pairs[f], v)
	if len(t.pairs[f]) == 0 {
		delete(t.pairs, f)
	}
	t.n--
	return true
}

// Match visits every pair whose filter matches topic, each once, in no order. visit must not change the table.
func (t *Table[V]) Match(topic Topic, visit func(V)) {
	for f, vs := range t.pairs {
		if f.Match(topic) {
			for v := range vs {
				visit(v)
			}
		}
	}
}

// Len is the number of pairs.
func (t *Table[V]) Len() int { return t.n }
