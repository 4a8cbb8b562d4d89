package routing

// exchange is one exchange with the bindings whose source it is.
type exchange[Q comparable] struct {
	name      string
	kind      Kind
	alternate string

	byFilter Table[*binding[Q]] // of the kinds direct and topic
	plain    bag[*binding[Q]]   // of the kinds fanout and headers
	links    int                // how many of them lead to exchanges

	inward owner[Q] // the bindings whose target it is
}

func (x *exchange[Q]) filtered() bool { return x.kind == Direct || x.kind == TopicKind }

func (x *exchange[Q]) add(b *binding[Q]) {
	if x.filtered() {
		x.byFilter.Add(b.filter, b)
	} else {
		x.plain.add(b)
	}
	if b.target != nil {
		x.links++
	}
}

func (x *exchange[Q]) remove(b *binding[Q]) {
	if x.filtered() {
		x.byFilter.Remove(b.filter, b)
	} else {
		x.plain.remove(b)
	}
	if b.target != nil {
		x.links--
	}
}

// len is the number of bindings.
func (x *exchange[Q]) len() int { return x.byFilter.Len() + len(x.plain.list) }

// all goes through the bindings, in no order.
func (x *exchange[Q]) all() []*binding[Q] {
	list := make([]*binding[Q], 0, x.len())
	x.byFilter.All(func(b *binding[Q]) { list = append(list, b) })
	return append(list, x.plain.list...)
}

// match visits every binding that lets a message through.
func (x *exchange[Q]) match(t Topic, m *lookup, visit func(*binding[Q])) {
	switch x.kind {
	case Direct, TopicKind:
		x.byFilter.Match(t, visit)
	case Fanout:
		for _, b := range x.plain.list {
			visit(b)
		}
	case HeadersKind:
		for _, b := range x.plain.list {
			if b.args.match(m) {
				visit(b)
			}
		}
	}
}
