package routing

import "fmt"

// Route visits every binding to a queue that a message published to exchange reaches, once a binding: a queue bound twice
// is visited twice. Bindings to exchanges are followed, each exchange once; an exchange whose bindings let nothing
// through hands over to its alternate. visit must not change the router. cacheable is false when the headers had a say.
// The error wraps [ErrNoExchange]. It does not allocate, unless headers are looked into or it passes many exchanges.
func (r *Router[Q]) Route(exchange string, t Topic, h Headers, visit func(q Q, value any)) (cacheable bool, err error) {
	x := r.exchanges[exchange]
	if x == nil {
		return false, fmt.Errorf("route: %w", ErrNoExchange)
	}
	if x.links == 0 && x.alternate == "" && x.kind != HeadersKind {
		x.match(t, nil, func(b *binding[Q]) { visit(b.queue, b.value) })
		return true, nil
	}
	return r.follow(x, t, h, visit), nil
}

// follow routes through all the exchanges that lie behind x.
func (r *Router[Q]) follow(x *exchange[Q], t Topic, h Headers, visit func(q Q, value any)) (cacheable bool) {
	var room [maxScan]*exchange[Q]
	met := journey[Q]{list: append(room[:0], x)}
	var m *lookup
	for i := 0; i < len(met.list); i++ {
		x := met.list[i]
		if x.kind == HeadersKind && m == nil {
			m = newLookup(h)
		}
		matched := false
		x.match(t, m, func(b *binding[Q]) {
			matched = true
			if b.target == nil {
				visit(b.queue, b.value)
			} else {
				met.add(b.target)
			}
		})
		if matched || x.alternate == "" {
			continue
		}
		if other := r.exchanges[x.alternate]; other != nil {
			met.add(other)
		}
	}
	return m == nil
}

// journey is the exchanges that a message passes, each once.
type journey[Q comparable] struct {
	list []*exchange[Q]
	seen map[*exchange[Q]]bool // when there are many
}

func (j *journey[Q]) add(x *exchange[Q]) {
	if j.seen == nil && len(j.list) == maxScan {
		j.seen = make(map[*exchange[Q]]bool)
		for _, x := range j.list {
			j.seen[x] = true
		}
	}
	if j.seen != nil {
		if j.seen[x] {
			return
		}
		j.seen[x] = true
	} else {
		for _, y := range j.list {
			if y == x {
				return
			}
		}
	}
	j.list = append(j.list, x)
}
