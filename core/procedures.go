package core

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/routing"
)

// RPCExchange is where procedures are called: a message published to it is a
// call of the procedure that its topic names, one bound to it is a callee.
const RPCExchange = "rpc"

// InvokePolicy says which of several callees a call goes to.
type InvokePolicy uint8

const (
	InvokeSingle     InvokePolicy = iota // there is only one callee
	InvokeRoundRobin                     // each in turn
	InvokeRandom
	InvokeFirst // the one that registered first
	InvokeLast
)

// String is the policy's name in WAMP.
func (p InvokePolicy) String() string {
	return [...]string{"single", "roundrobin", "random", "first", "last"}[p%5]
}

// Procedure describes what callees registered under one name or pattern.
type Procedure struct {
	// ID is unique in the realm for as long as the broker runs.
	ID uint64
	// Filter has no wildcard for a plain name. Prefix is set for a prefix
	// pattern; its own filter is Filter then.
	Filter  routing.Filter
	Prefix  routing.Prefix
	Invoke  InvokePolicy
	Created time.Time
	Callees []SessionID // in the order of their registration
}

// IsPrefix tells whether Prefix counts.
func (p Procedure) IsPrefix() bool { return !p.Prefix.Filter.IsZero() }

// procedureKey is what makes two registrations one procedure.
type procedureKey struct {
	filter routing.Filter
	prefix string
	cut    bool // a prefix
}

// procedure is a Procedure with its callees.
type procedure struct {
	key procedureKey
	is  Procedure // without Callees

	mu      sync.Mutex
	callees []*Registration // replaced, never changed
	next    int
}

// procedures finds what a call goes to: an exact name, then the longest prefix,
// then the wildcard pattern that is literal for longest.
type procedures struct {
	lastID atomic.Uint64

	mu      sync.RWMutex
	byKey   map[procedureKey]*procedure
	lengths []int // of the prefixes, longest first
	wild    routing.Table[*procedure]
	watch   []func(p Procedure, by SessionID, added, edge bool)
}

// find returns the procedure for a name, nil when there is none.
func (ps *procedures) find(name routing.Topic) *procedure {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	if p := ps.byKey[procedureKey{filter: name.Filter()}]; p != nil {
		return p
	}
	if len(ps.lengths) > 0 {
		if p := ps.findPrefix(name); p != nil {
			return p
		}
	}
	var best *procedure
	ps.wild.Match(name, func(p *procedure) {
		if best == nil || closer(p.is.Filter, best.is.Filter) {
			best = p
		}
	})
	return best
}

// findPrefix costs a look-up for each length. With mu held.
func (ps *procedures) findPrefix(name routing.Topic) *procedure {
	uri, err := routing.URI.PrintTopic(name)
	if err != nil {
		return nil
	}
	for _, n := range ps.lengths {
		if n > len(uri) {
			continue
		}
		text := uri[:n]
		prefix, err := routing.URI.ParsePrefix(text)
		if err != nil {
			continue
		}
		p := ps.byKey[procedureKey{filter: prefix.Filter, prefix: text, cut: true}]
		if p != nil && p.is.Prefix.Match(name) {
			return p
		}
	}
	return nil
}

// closer tells whether a is the nearer of two patterns: the one that is literal
// where they first differ, or else one-level before any-levels.
func closer(a, b routing.Filter) bool {
	x, y := a.Segments(), b.Segments()
	for i := range min(len(x), len(y)) {
		if x[i].Kind != y[i].Kind {
			return x[i].Kind < y[i].Kind
		}
	}
	if len(x) != len(y) {
		return len(x) > len(y)
	}
	return a.String() < b.String()
}

// enter finds or makes the procedure for a key and adds a callee; not ok when
// the policy has no place for it. edge: the procedure is new.
func (ps *procedures) enter(key procedureKey, r *Registration, spec *RegisterSpec) (p *procedure, edge, ok bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p = ps.byKey[key]; p != nil {
		return p, false, p.add(r, spec)
	}
	p = &procedure{key: key, callees: []*Registration{r}, is: Procedure{ID: ps.lastID.Add(1), Filter: spec.filter(),
		Prefix: spec.Prefix, Invoke: spec.Invoke, Created: time.Now()}}
	if spec.Join && spec.Invoke == InvokeSingle {
		p.is.Invoke = InvokeRoundRobin
	}
	r.procedure = p
	if ps.byKey == nil {
		ps.byKey = map[procedureKey]*procedure{}
	}
	ps.byKey[key] = p
	switch {
	case key.cut:
		ps.addLength(len(key.prefix))
	case key.filter.HasWildcard():
		ps.wild.Add(key.filter, p)
	}
	return p, true, true
}

// add takes one more callee, if the policies agree.
func (p *procedure) add(r *Registration, spec *RegisterSpec) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.is.Invoke == InvokeSingle || !spec.Join && p.is.Invoke != spec.Invoke {
		return false
	}
	for _, o := range p.callees {
		if o.session == r.session && !spec.Join {
			return false
		}
	}
	r.procedure = p
	p.callees = append(slices.Clip(p.callees), r)
	return true
}

func (ps *procedures) addLength(n int) {
	if !slices.Contains(ps.lengths, n) {
		ps.lengths = append(ps.lengths, n)
		slices.SortFunc(ps.lengths, func(a, b int) int { return b - a })
	}
}

// leave takes a callee out. edge: it was the last, and the procedure is gone.
func (ps *procedures) leave(r *Registration) (edge bool) {
	p := r.procedure
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.mu.Lock()
	p.callees = slices.DeleteFunc(slices.Clone(p.callees), func(o *Registration) bool { return o == r })
	left := len(p.callees)
	p.mu.Unlock()
	if left > 0 {
		return false
	}
	delete(ps.byKey, p.key)
	switch {
	case p.key.cut:
		ps.dropLength(len(p.key.prefix))
	case p.key.filter.HasWildcard():
		ps.wild.Remove(p.key.filter, p)
	}
	return true
}

func (ps *procedures) dropLength(n int) {
	for key := range ps.byKey {
		if key.cut && len(key.prefix) == n {
			return
		}
	}
	ps.lengths = slices.DeleteFunc(ps.lengths, func(o int) bool { return o == n })
}

// pick chooses a callee beside those that were tried; nil when none is left.
func (p *procedure) pick(tried []*Registration) *Registration {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.callees)
	if n == 0 {
		return nil
	}
	start, step := 0, 1
	switch p.is.Invoke {
	case InvokeRoundRobin:
		start = p.next % n
		p.next = start + 1
	case InvokeRandom:
		start = rand.IntN(n)
	case InvokeLast:
		start, step = n-1, n-1
	}
	for i := range n {
		r := p.callees[(start+i*step)%n]
		if !slices.Contains(tried, r) {
			return r
		}
	}
	return nil
}

// describe is the Procedure with its callees.
func (p *procedure) describe() Procedure {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.is
	for _, r := range p.callees {
		is.Callees = append(is.Callees, r.session.ID())
	}
	return is
}

// Procedures lists what can be called, oldest first.
func (b *Broker) Procedures() []Procedure {
	b.procedures.mu.RLock()
	all := make([]Procedure, 0, len(b.procedures.byKey))
	for _, p := range b.procedures.byKey {
		all = append(all, p.describe())
	}
	b.procedures.mu.RUnlock()
	slices.SortFunc(all, func(x, y Procedure) int { return int(x.ID) - int(y.ID) })
	return all
}

// Procedure is what a call of name would go to; ok is false when there is none.
func (b *Broker) Procedure(name routing.Topic) (p Procedure, ok bool) {
	found := b.procedures.find(name)
	if found == nil {
		return p, false
	}
	return found.describe(), true
}

// WatchProcedures has f called, from then on, whenever a session registered
// (added) or gave up a registration. edge: it was the first or the last of the
// procedure. f must not block nor call back into registrations.
func (b *Broker) WatchProcedures(f func(p Procedure, by SessionID, added, edge bool)) {
	b.procedures.mu.Lock()
	defer b.procedures.mu.Unlock()
	b.procedures.watch = append(slices.Clip(b.procedures.watch), f)
}

func (ps *procedures) tell(p *procedure, by SessionID, added, edge bool) {
	ps.mu.RLock()
	watch := ps.watch
	ps.mu.RUnlock()
	if len(watch) == 0 {
		return
	}
	is := p.describe()
	for _, f := range watch {
		f(is, by, added, edge)
	}
}

// key is what spec is found under.
func (s *RegisterSpec) key() procedureKey {
	if !s.Prefix.Filter.IsZero() {
		return procedureKey{filter: s.Prefix.Filter, prefix: strings.Clone(s.Prefix.String()), cut: true}
	}
	return procedureKey{filter: s.Filter}
}

func (s *RegisterSpec) filter() routing.Filter {
	if !s.Prefix.Filter.IsZero() {
		return s.Prefix.Filter
	}
	return s.Filter
}
