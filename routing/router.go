package routing

import "fmt"

// Router holds the exchanges of one realm and their bindings. Q is what a queue is to the caller, such as a pointer. The
// default exchange "" is not in it. Reads (Kind, InUse, BindingsOf, Bindings, Route) may run beside each other, not
// beside writes.
type Router[Q comparable] struct {
	exchanges map[string]*exchange[Q]
	queues    dict[Q, owner[Q]] // those with bindings
}

// NewRouter is a router without exchanges.
func NewRouter[Q comparable]() *Router[Q] {
	return &Router[Q]{exchanges: make(map[string]*exchange[Q])}
}

// Declare makes an exchange, or does nothing when it is there with the same kind and alternate; else the error wraps
// [ErrConflict]. It wraps [ErrKind] when the kind is none. An alternate "" is none; one that does not exist (yet) is
// passed over when routing.
func (r *Router[Q]) Declare(name string, kind Kind, alternate string) error {
	if kind < Direct || kind > HeadersKind {
		return fmt.Errorf("declare exchange: %w", ErrKind)
	}
	if x := r.exchanges[name]; x != nil {
		if x.kind != kind || x.alternate != alternate {
			return fmt.Errorf("declare exchange: %w", ErrConflict)
		}
		return nil
	}
	r.exchanges[name] = &exchange[Q]{name: name, kind: kind, alternate: alternate}
	return nil
}

// Delete takes an exchange out with its bindings in both directions; false when there is none. An exchange that has it as
// its alternate keeps the name.
func (r *Router[Q]) Delete(name string) bool {
	x := r.exchanges[name]
	if x == nil {
		return false
	}
	for _, b := range x.all() {
		r.disown(b)
	}
	for b := range x.inward.all {
		b.source.remove(b)
	}
	delete(r.exchanges, name)
	return true
}

// Kind is the kind of an exchange, false when there is none of that name.
func (r *Router[Q]) Kind(name string) (Kind, bool) {
	if x := r.exchanges[name]; x != nil {
		return x.kind, true
	}
	return 0, false
}

// Exchanges is the names of all exchanges, in no order.
func (r *Router[Q]) Exchanges() []string {
	names := make([]string, 0, len(r.exchanges))
	for name := range r.exchanges {
		names = append(names, name)
	}
	return names
}

// Alternate is the name of the alternate of an exchange, "" when it has none.
func (r *Router[Q]) Alternate(name string) string {
	if x := r.exchanges[name]; x != nil {
		return x.alternate
	}
	return ""
}

// InUse tells whether an exchange is the source of a binding.
func (r *Router[Q]) InUse(name string) bool {
	x := r.exchanges[name]
	return x != nil && x.len() > 0
}

// Bind puts a binding in. One with the same identity gets the new Value, and added is false. Errors wrap [ErrNoExchange]
// (source or target exchange) or [ErrBinding]. The router keeps the texts and Args of b, which must not change.
func (r *Router[Q]) Bind(b Binding[Q]) (added bool, err error) {
	x := r.exchanges[b.Source]
	if x == nil {
		return false, fmt.Errorf("bind: source: %w", ErrNoExchange)
	}
	if err := x.kind.check(b.Filter); err != nil {
		return false, fmt.Errorf("bind: %w", err)
	}
	made := &binding[Q]{source: x, filter: b.Filter, value: b.Value}
	if made.args, err = newArguments(b.Args, x.kind); err != nil {
		return false, fmt.Errorf("bind: %w", err)
	}
	if b.Exchange == "" {
		made.queue = b.Queue
	} else if made.target = r.exchanges[b.Exchange]; made.target == nil {
		return false, fmt.Errorf("bind: target: %w", ErrNoExchange)
	}
	o := r.ownerOf(made)
	found := o.find(made.identity())
	if found != nil {
		found.value = b.Value
	} else {
		o.add(made)
		x.add(made)
	}
	r.setOwner(made, o)
	return found == nil, nil
}

// Unbind takes the binding with the identity of b out; false when there is none.
func (r *Router[Q]) Unbind(b Binding[Q]) bool {
	x := r.exchanges[b.Source]
	if x == nil {
		return false
	}
	like := &binding[Q]{source: x, filter: b.Filter}
	var err error
	if like.args, err = newArguments(b.Args, x.kind); err != nil {
		return false
	}
	if b.Exchange == "" {
		like.queue = b.Queue
	} else if like.target = r.exchanges[b.Exchange]; like.target == nil {
		return false
	}
	o := r.ownerOf(like)
	found := o.find(like.identity())
	if found == nil {
		return false
	}
	r.disown(found)
	x.remove(found)
	return true
}

// RemoveQueue takes all bindings to a queue out and returns them in the order they were bound in. The cost is by their
// number, not by the router's.
func (r *Router[Q]) RemoveQueue(q Q) []Binding[Q] {
	removed := r.BindingsOf(q)
	o := r.queues.m[q]
	for b := range o.all {
		b.source.remove(b)
	}
	r.queues.remove(q)
	return removed
}

// BindingsOf is all bindings to a queue, in the order they were bound in.
func (r *Router[Q]) BindingsOf(q Q) []Binding[Q] {
	o := r.queues.m[q]
	var list []Binding[Q]
	for b := range o.all {
		list = append(list, b.public())
	}
	return list
}

// Bindings is all bindings of a source exchange, in no order.
func (r *Router[Q]) Bindings(source string) []Binding[Q] {
	x := r.exchanges[source]
	if x == nil {
		return nil
	}
	list := make([]Binding[Q], 0, x.len())
	for _, b := range x.all() {
		list = append(list, b.public())
	}
	return list
}

// ownerOf is a copy of the owner of a binding; setOwner puts it back.
func (r *Router[Q]) ownerOf(b *binding[Q]) owner[Q] {
	if b.target != nil {
		return b.target.inward
	}
	return r.queues.m[b.queue]
}

func (r *Router[Q]) setOwner(b *binding[Q], o owner[Q]) {
	switch {
	case b.target != nil:
		b.target.inward = o
	case o.oldest == nil:
		r.queues.remove(b.queue)
	default:
		r.queues.put(b.queue, o)
	}
}

// disown takes a binding away from its owner.
func (r *Router[Q]) disown(b *binding[Q]) {
	o := r.ownerOf(b)
	o.remove(b)
	r.setOwner(b, o)
}
