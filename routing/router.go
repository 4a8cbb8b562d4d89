package routing

import (
	"fmt"
	"reflect"
)

// Router holds the exchanges of one realm and their bindings. Q is what a queue is to the caller, such as a pointer. The
// default exchange "" is not in it. Reads (Kind, InUse, BindingsOf, Bindings, Route) may run beside each other, not
// beside writes.
type Router[Q comparable] struct{ exchanges map[string]*exchange[Q] }

type exchange[Q comparable] struct {
	kind      Kind
	alternate string
	bindings  []Binding[Q]
}

// NewRouter is a router without exchanges.
func NewRouter[Q comparable]() *Router[Q] {
	return &Router[Q]{exchanges: map[string]*exchange[Q]{}}
}

// Declare makes an exchange, or does nothing when it is there with the same kind and alternate; else the error wraps
// [ErrConflict]. An alternate "" is none; one that does not exist (yet) is passed over when routing.
func (r *Router[Q]) Declare(name string, kind Kind, alternate string) error {
	if kind < Direct || kind > HeadersKind {
		return fmt.Errorf("declare exchange: %w", ErrKind)
	}
	if x, ok := r.exchanges[name]; ok {
		if x.kind != kind || x.alternate != alternate {
			return fmt.Errorf("declare exchange: %w", ErrConflict)
		}
		return nil
	}
	r.exchanges[name] = &exchange[Q]{kind: kind, alternate: alternate}
	return nil
}

// Delete takes an exchange out with its bindings in both directions; false when there is none.
func (r *Router[Q]) Delete(name string) bool {
	if _, ok := r.exchanges[name]; !ok {
		return false
	}
	delete(r.exchanges, name)
	for _, x := range r.exchanges {
		x.remove(func(b Binding[Q]) bool { return b.Exchange == name })
	}
	return true
}

func (x *exchange[Q]) remove(gone func(Binding[Q]) bool) (removed []Binding[Q]) {
	var kept []Binding[Q]
	for _, b := range x.bindings {
		if gone(b) {
			removed = append(removed, b)
		} else {
			kept = append(kept, b)
		}
	}
	x.bindings = kept
	return removed
}

// Kind is the kind of an exchange, false when there is none of that name.
func (r *Router[Q]) Kind(name string) (Kind, bool) {
	x, ok := r.exchanges[name]
	if !ok {
		return 0, false
	}
	return x.kind, true
}

// InUse tells whether an exchange is the source of a binding.
func (r *Router[Q]) InUse(name string) bool {
	x, ok := r.exchanges[name]
	return ok && len(x.bindings) > 0
}

func same[Q comparable](a, b Binding[Q]) bool {
	if a.Exchange != "" {
		a.Queue = b.Queue
	}
	a.Value = b.Value
	return reflect.DeepEqual(a, b)
}

// Bind puts a binding in. One with the same identity gets the new Value, and added is false. Errors wrap [ErrNoExchange]
// (source or target exchange) or [ErrBinding].
func (r *Router[Q]) Bind(b Binding[Q]) (added bool, err error) {
	x, ok := r.exchanges[b.Source]
	if !ok {
		return false, fmt.Errorf("bind: source: %w", ErrNoExchange)
	}
	if _, ok := r.exchanges[b.Exchange]; b.Exchange != "" && !ok {
		return false, fmt.Errorf("bind: target: %w", ErrNoExchange)
	}
	switch x.kind {
	case Direct:
		if _, ok := b.Filter.Topic(); !ok {
			return false, fmt.Errorf("bind: %w: a direct exchange takes literal keys only", ErrBinding)
		}
	case TopicKind:
		if b.Filter.IsZero() {
			return false, fmt.Errorf("bind: %w: a topic exchange needs a filter", ErrBinding)
		}
	}
	removed := x.remove(func(o Binding[Q]) bool { return same(o, b) })
	x.bindings = append(x.bindings, b)
	return len(removed) == 0, nil
}

// Unbind takes the binding with the identity of b out; false when there is none.
func (r *Router[Q]) Unbind(b Binding[Q]) bool {
	x, ok := r.exchanges[b.Source]
	return ok && len(x.remove(func(o Binding[Q]) bool { return same(o, b) })) > 0
}

// RemoveQueue takes all bindings to a queue out and returns them in the order they were bound in.
func (r *Router[Q]) RemoveQueue(q Q) (removed []Binding[Q]) {
	for _, x := range r.exchanges {
		removed = append(removed, x.remove(func(b Binding[Q]) bool { return b.Exchange == "" && b.Queue == q })...)
	}
	return removed
}

// BindingsOf is all bindings to a queue, in the order they were bound in.
func (r *Router[Q]) BindingsOf(q Q) (found []Binding[Q]) {
	for _, x := range r.exchanges {
		for _, b := range x.bindings {
			if b.Exchange == "" && b.Queue == q {
				found = append(found, b)
			}
		}
	}
	return found
}

// Bindings is all bindings of a source exchange, in no order.
func (r *Router[Q]) Bindings(source string) []Binding[Q] {
	if x, ok := r.exchanges[source]; ok {
		return append([]Binding[Q](nil), x.bindings...)
	}
	return nil
}

// Route visits every binding to a queue that a message published to exchange reaches, once a binding: a queue bound twice
// is visited twice. Bindings to exchanges are followed, each exchange once; an exchange whose bindings match nothing
// hands over to its alternate. visit must not change the router. cacheable is false when the headers had a say. The
// error wraps [ErrNoExchange].
func (r *Router[Q]) Route(exchange string, t Topic, h Headers, visit func(q Q, value any)) (cacheable bool, err error) {
	if _, ok := r.exchanges[exchange]; !ok {
		return false, fmt.Errorf("route: %w", ErrNoExchange)
	}
	cacheable = true
	work := []string{exchange}
	seen := map[string]bool{}
	for len(work) > 0 {
		name := work[0]
		work = work[1:]
		x, ok := r.exchanges[name]
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		cacheable = cacheable && x.kind != HeadersKind
		matched := false
		for _, b := range x.bindings {
			if !x.lets(b, t, h) {
				continue
			}
			matched = true
			if b.Exchange != "" {
				work = append(work, b.Exchange)
			} else {
				visit(b.Queue, b.Value)
			}
		}
		if !matched && x.alternate != "" {
			work = append(work, x.alternate)
		}
	}
	return cacheable, nil
}

func (x *exchange[Q]) lets(b Binding[Q], t Topic, h Headers) bool {
	switch x.kind {
	case Direct:
		return b.Filter == t.Filter()
	case TopicKind:
		return b.Filter.Match(t)
	case HeadersKind:
		return matchHeaders(b.Args, h)
	}
	return true
}

func matchHeaders(args, h Headers) bool {
	mode, _ := args.Get("x-match")
	any, withX := mode == "any" || mode == "any-with-x", mode == "all-with-x" || mode == "any-with-x"
	for _, a := range args {
		if a.Name == "x-match" || !withX && len(a.Name) > 1 && a.Name[:2] == "x-" {
			continue
		}
		v, ok := h.Get(a.Name)
		if ok = ok && (a.Value == nil || reflect.DeepEqual(v, a.Value)); ok == any {
			return any
		}
	}
	return !any
}
