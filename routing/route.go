package routing

import (
	"fmt"
	"slices"
)

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
	var met journey[Q]
	met.add(x)
	var m *lookup
	for i := 0; i < met.n; i++ {
		x := met.at(i)
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

// journey is the exchanges that a message passes, each once, in order.
type journey[Q comparable] struct {
	n    int
	few  [maxScan]*exchange[Q]
	more []*exchange[Q]        // what does not fit in few
	seen map[*exchange[Q]]bool // all, when there are more
}

func (j *journey[Q]) at(i int) *exchange[Q] {
	if i < maxScan {
		return j.few[i]
	}
	return j.more[i-maxScan]
}

// add puts an exchange at the end, unless it is there.
func (j *journey[Q]) add(x *exchange[Q]) {
	if j.seen[x] || j.seen == nil && slices.Contains(j.few[:j.n], x) {
		return
	}
	if j.n < maxScan {
		j.few[j.n] = x
	} else {
		j.spill(x)
	}
	j.n++
}

func (j *journey[Q]) spill(x *exchange[Q]) {
	if j.seen == nil {
		j.seen = make(map[*exchange[Q]]bool)
		for _, y := range j.few {
			j.seen[y] = true
		}
	}
	j.seen[x] = true
	j.more = append(j.more, x)
}
