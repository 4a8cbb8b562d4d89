package routing

import (
	"errors"
	"fmt"
)

// What a [Router] refuses.
var (
	// ErrNoExchange says that there is no exchange of that name.
	ErrNoExchange = errors.New("no such exchange")
	// ErrConflict says that the exchange is there with another kind or alternate.
	ErrConflict = errors.New("exchange declared otherwise")
	// ErrKind says that a kind is none of the four.
	ErrKind = errors.New("no such exchange kind")
	// ErrBinding says that a binding is not one that its source exchange can use.
	ErrBinding = errors.New("binding refused")
)

// Binding is a rule of the exchange Source: what it lets through goes to a queue, or to another exchange. Its identity is
// (Source, target, Filter, Args); the order of Args with different names does not count.
type Binding[Q comparable] struct {
	Source   string
	Queue    Q      // the target, when Exchange is ""
	Exchange string // the target exchange, when not ""
	// Filter is what a topic exchange matches with; for a direct exchange it has no wildcard (the filter of a topic, so
	// a '*' in a key is a literal). For other kinds it is part of the identity only.
	Filter Filter
	// Args of a headers exchange are what it matches with: x-match is all (also when absent), any, all-with-x or
	// any-with-x. For other kinds they are part of the identity only.
	Args Headers
	// Value is the adapter's own, given back by [Router.Route].
	Value any
}

// binding is a Binding as the router holds it.
type binding[Q comparable] struct {
	source *exchange[Q]
	target *exchange[Q] // nil: the queue is the target
	queue  Q
	filter Filter
	args   *arguments
	value  any

	prev, next *binding[Q] // the ring of its owner's bindings, oldest first
}

// public is the Binding again.
func (b *binding[Q]) public() Binding[Q] {
	p := Binding[Q]{Source: b.source.name, Queue: b.queue, Filter: b.filter, Args: b.args.headers(), Value: b.value}
	if b.target != nil {
		p.Exchange = b.target.name
	}
	return p
}

// owner is the target of bindings, a queue or an exchange, with all of them. An owner with few is searched from one end
// to the other, so that a queue with one binding costs a pointer or two.
type owner[Q comparable] struct {
	oldest *binding[Q]
	index  *dict[identity[Q], *binding[Q]] // when there are many
}

// identity is what tells the bindings of one owner apart.
type identity[Q comparable] struct {
	source *exchange[Q]
	filter Filter
	args   string
}

func (b *binding[Q]) identity() identity[Q] { return identity[Q]{b.source, b.filter, b.args.id()} }

// find is the binding with an identity, or nil; it makes the index when the search was long.
func (o *owner[Q]) find(id identity[Q]) *binding[Q] {
	if o.index != nil {
		return o.index.m[id]
	}
	n := 0
	var found *binding[Q]
	for b := range o.all {
		if b.identity() == id {
			found = b
		}
		n++
	}
	if n > maxScan {
		o.index = &dict[identity[Q], *binding[Q]]{}
		for b := range o.all {
			o.index.put(b.identity(), b)
		}
	}
	return found
}

// all goes through the bindings, oldest first.
func (o *owner[Q]) all(yield func(*binding[Q]) bool) {
	for b := o.oldest; b != nil; {
		next := b.next
		if !yield(b) || next == o.oldest {
			return
		}
		b = next
	}
}

// add puts a new binding at the end.
func (o *owner[Q]) add(b *binding[Q]) {
	if o.oldest == nil {
		o.oldest, b.prev, b.next = b, b, b
		return
	}
	last := o.oldest.prev
	b.prev, b.next = last, o.oldest
	last.next, o.oldest.prev = b, b
	if o.index != nil {
		o.index.put(b.identity(), b)
	}
}

// remove takes a binding out.
func (o *owner[Q]) remove(b *binding[Q]) {
	if o.index != nil {
		o.index.remove(b.identity())
		if o.index.m == nil {
			o.index = nil
		}
	}
	if b.next == b {
		o.oldest = nil
	} else {
		b.prev.next, b.next.prev = b.next, b.prev
		if o.oldest == b {
			o.oldest = b.next
		}
	}
	b.prev, b.next = nil, nil
}

// check tells whether an exchange of that kind can use the filter.
func (k Kind) check(f Filter) error {
	switch {
	case k == TopicKind && f.IsZero():
		return fmt.Errorf("%w: a topic exchange needs a filter", ErrBinding)
	case k == Direct && (f.IsZero() || f.HasWildcard()):
		return fmt.Errorf("%w: a direct exchange needs a key without wildcards", ErrBinding)
	}
	return nil
}
