package routing

import (
	"reflect"
	"strings"
)

// plainRouter is what a router does, in so many words: a list of exchanges, each with a list of bindings.
type plainRouter struct{ exchanges map[string]*plainExchange }

type plainExchange struct {
	kind      Kind
	alternate string
	bindings  []Binding[int]
}

// like tells whether two bindings have the same identity.
func like(a, b Binding[int]) bool {
	if a.Exchange != "" {
		a.Queue = b.Queue
	}
	return a.Source == b.Source && a.Exchange == b.Exchange && a.Queue == b.Queue && a.Filter == b.Filter &&
		(len(a.Args) == 0 && len(b.Args) == 0 || reflect.DeepEqual(a.Args, b.Args))
}

func (r *plainRouter) declare(name string, kind Kind, alternate string) bool {
	if x, ok := r.exchanges[name]; ok {
		return x.kind == kind && x.alternate == alternate
	}
	r.exchanges[name] = &plainExchange{kind: kind, alternate: alternate}
	return true
}

func (r *plainRouter) delete(name string) bool {
	if _, ok := r.exchanges[name]; !ok {
		return false
	}
	delete(r.exchanges, name)
	r.take(func(b Binding[int]) bool { return b.Exchange == name })
	return true
}

// take takes out what the function picks.
func (r *plainRouter) take(picks func(Binding[int]) bool) (taken []Binding[int]) {
	for _, x := range r.exchanges {
		var kept []Binding[int]
		for _, b := range x.bindings {
			if picks(b) {
				taken = append(taken, b)
			} else {
				kept = append(kept, b)
			}
		}
		x.bindings = kept
	}
	return taken
}

func (r *plainRouter) bind(b Binding[int]) (added, ok bool) {
	x := r.exchanges[b.Source]
	if x == nil || b.Exchange != "" && r.exchanges[b.Exchange] == nil {
		return false, false
	}
	if x.kind == Direct && b.Filter.HasWildcard() {
		return false, false
	}
	for i := range x.bindings {
		if like(x.bindings[i], b) {
			x.bindings[i].Value = b.Value
			return false, true
		}
	}
	x.bindings = append(x.bindings, b)
	return true, true
}

// route gives how often each (queue, value) is visited.
func (r *plainRouter) route(name string, t Topic, h Headers) (visits map[[2]int]int, cacheable bool) {
	visits = map[[2]int]int{}
	cacheable = true
	seen := map[string]bool{}
	for work := []string{name}; len(work) > 0; work = work[1:] {
		x := r.exchanges[work[0]]
		if x == nil || seen[work[0]] {
			continue
		}
		seen[work[0]] = true
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
				visits[[2]int{b.Queue, b.Value.(int)}]++
			}
		}
		if !matched {
			work = append(work, x.alternate)
		}
	}
	return visits, cacheable
}

func (x *plainExchange) lets(b Binding[int], t Topic, h Headers) bool {
	switch x.kind {
	case Direct:
		return b.Filter == t.Filter()
	case TopicKind:
		return b.Filter.Match(t)
	case HeadersKind:
		return plainHeaders(b.Args, h)
	}
	return true
}

func plainHeaders(args, h Headers) bool {
	mode, given := args.Get("x-match")
	if !given {
		mode = "all"
	}
	met, all := 0, 0
	for _, a := range args {
		if a.Name == "x-match" || strings.HasPrefix(a.Name, "x-") && !strings.HasSuffix(mode.(string), "-with-x") {
			continue
		}
		all++
		for _, have := range h {
			if have.Name == a.Name && (a.Value == nil || reflect.DeepEqual(have.Value, a.Value)) {
				met++
				break
			}
		}
	}
	if strings.HasPrefix(mode.(string), "any") {
		return met > 0
	}
	return met == all
}
