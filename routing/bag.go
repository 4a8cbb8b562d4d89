package routing

// bag is a set of values that is gone through fast: a slice, and from a size on where each value stands in it.
type bag[V comparable] struct {
	list []V
	at   dict[V, int32]
}

// maxScan is the greatest size of a set that is searched from one end to the other.
const maxScan = 16

// find is the place of v, or -1.
func (b *bag[V]) find(v V) int {
	if b.at.m != nil {
		if i, ok := b.at.m[v]; ok {
			return int(i)
		}
		return -1
	}
	for i := range b.list {
		if b.list[i] == v {
			return i
		}
	}
	return -1
}

// add puts v in, false when it was there.
func (b *bag[V]) add(v V) bool {
	if b.find(v) >= 0 {
		return false
	}
	b.list = append(b.list, v)
	switch {
	case b.at.m != nil:
		b.at.put(v, int32(len(b.list)-1))
	case len(b.list) > maxScan:
		for i, v := range b.list {
			b.at.put(v, int32(i))
		}
	}
	return true
}

// remove takes v out, false when it was not there.
func (b *bag[V]) remove(v V) bool {
	i := b.find(v)
	if i < 0 {
		return false
	}
	last := len(b.list) - 1
	moved := b.list[last]
	b.list[i] = moved
	var none V
	b.list[last] = none
	b.list = b.list[:last]
	if b.at.m != nil {
		b.at.put(moved, int32(i))
		b.at.remove(v)
		if last <= maxScan/2 {
			b.at = dict[V, int32]{}
		}
	}
	if c := cap(b.list); c > minShrink && last < c/4 {
		b.list = append(make([]V, 0, last*2), b.list...)
	}
	return true
}

// values is the one or more values of a table's node; a set of one costs nothing beside the value.
type values[V comparable] struct {
	one  V
	many *bag[V] // when there are more than one; one is zero then
}

// add puts v beside what is there, false when it was there.
func (s *values[V]) add(v V) bool {
	if s.many != nil {
		return s.many.add(v)
	}
	if s.one == v {
		return false
	}
	s.many = &bag[V]{list: []V{s.one, v}}
	var none V
	s.one = none
	return true
}

// remove takes v out; empty says that it was the last.
func (s *values[V]) remove(v V) (had, empty bool) {
	if s.many == nil {
		return s.one == v, s.one == v
	}
	if !s.many.remove(v) {
		return false, false
	}
	if len(s.many.list) == 1 {
		s.one, s.many = s.many.list[0], nil
	}
	return true, false
}

func (s *values[V]) each(visit func(V)) {
	if s.many == nil {
		visit(s.one)
		return
	}
	for _, v := range s.many.list {
		visit(v)
	}
}
