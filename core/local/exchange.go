package local

import (
	"context"
	"fmt"
	"hash/maphash"

	"entrepot/core"
	"entrepot/routing"
)

// exchange is a declared exchange with its cached routes.
type exchange struct {
	spec  core.ExchangeSpec
	cache routeCache
	// fedBy counts the bindings from each exchange to this one. Under the
	// engine's mu.
	fedBy map[string]int
}

func newExchange(s core.ExchangeSpec) *exchange {
	return &exchange{spec: s, cache: routeCache{seed: maphash.MakeSeed()}}
}

// differs tells in what a second declare is not as the exchange is.
func (x *exchange) differs(s *core.ExchangeSpec) *core.Difference {
	for _, p := range []core.Difference{
		{Property: "type", Have: typeOf(&x.spec), Want: typeOf(s)},
		{Property: "x-delayed-type", Have: x.spec.Kind.String(), Want: s.Kind.String()},
		{Property: "durable", Have: x.spec.Durable, Want: s.Durable},
		{Property: "auto_delete", Have: x.spec.AutoDelete, Want: s.AutoDelete},
		{Property: "internal", Have: x.spec.Internal, Want: s.Internal},
		{Property: "alternate-exchange", Have: argument(x.spec.Alternate), Want: argument(s.Alternate)},
	} {
		if p.Have != p.Want {
			return &p
		}
	}
	return &core.Difference{Property: "arguments"}
}

// typeOf is what clients call an exchange's type.
func typeOf(s *core.ExchangeSpec) string {
	if s.Delayed {
		return "x-delayed-message"
	}
	return s.Kind.String()
}

// argument is the value of one that is a text, nil when it is not set.
func argument(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// feed counts n more bindings from source.
func (x *exchange) feed(source string, n int) {
	if x.fedBy == nil {
		x.fedBy = map[string]int{}
	}
	if x.fedBy[source] += n; x.fedBy[source] == 0 {
		delete(x.fedBy, source)
	}
}

// standard are the exchanges that every realm has, beside the default one.
func standard() []core.ExchangeSpec {
	return []core.ExchangeSpec{
		{Name: core.TopicExchange, Kind: routing.TopicKind, Durable: true},
		{Name: "amq.direct", Kind: routing.Direct, Durable: true},
		{Name: "amq.fanout", Kind: routing.Fanout, Durable: true},
		{Name: "amq.headers", Kind: routing.HeadersKind, Durable: true},
		{Name: "amq.match", Kind: routing.HeadersKind, Durable: true},
	}
}

// DeclareExchange implements core.Engine.
func (e *Engine) DeclareExchange(_ context.Context, s core.ExchangeSpec) error {
	passive := s.Passive
	s.Passive = false
	e.mu.Lock()
	defer e.mu.Unlock()
	have := e.exchanges[s.Name]
	switch {
	case have == nil && passive:
		return &core.ExchangeError{Exchange: s.Name, Err: core.ErrNotFound}
	case passive || have != nil && have.spec == s:
		return nil
	case have != nil:
		return &core.ExchangeError{Exchange: s.Name, Err: have.differs(&s)}
	}
	if err := e.census.room(core.LimitExchangesInAll, len(e.exchanges)-len(standard()), e.census.Exchanges); err != nil {
		return fmt.Errorf("exchange %q: %w", s.Name, err)
	}
	if err := e.router.Declare(s.Name, s.Kind, s.Alternate); err != nil {
		return fmt.Errorf("exchange %q: %w: %w", s.Name, core.ErrInvalid, err)
	}
	e.exchanges[s.Name] = newExchange(s)
	e.gens.all.Add(1)
	e.disk.addExchange(s)
	return nil
}

// DeleteExchange implements core.Engine.
func (e *Engine) DeleteExchange(_ context.Context, name string, ifUnused bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exchanges[name] == nil {
		return &core.ExchangeError{Exchange: name, Err: core.ErrNotFound}
	}
	if ifUnused && e.router.InUse(name) {
		return &core.ExchangeError{Exchange: name, Err: core.ErrInUse}
	}
	e.dropExchange(name)
	return nil
}

// dropExchange takes an exchange out with its bindings on both sides, and
// then auto-delete exchanges that fed nothing else. With mu held.
func (e *Engine) dropExchange(name string) {
	x := e.exchanges[name]
	e.forgetExchange(x)
	for _, b := range e.router.Bindings(name) {
		e.bindings--
		if b.Exchange != "" {
			e.exchanges[b.Exchange].feed(name, -1)
		}
	}
	for _, n := range x.fedBy {
		e.bindings -= n
	}
	e.router.Delete(name)
	delete(e.exchanges, name)
	e.gens.all.Add(1)
	for source := range x.fedBy {
		e.unused(source)
	}
}

// forgetExchange takes an exchange and its bindings at both sides off the disk.
func (e *Engine) forgetExchange(x *exchange) {
	if e.disk == nil || !x.spec.Durable {
		return
	}
	all := e.router.Bindings(x.spec.Name)
	for source := range x.fedBy {
		for _, b := range e.router.Bindings(source) {
			if b.Exchange == x.spec.Name {
				all = append(all, b)
			}
		}
	}
	e.disk.dropExchange(x.spec, all)
}

// Bind implements core.Engine.
func (e *Engine) Bind(_ context.Context, s core.BindSpec) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rb, kind, err := e.binding(&s)
	if err != nil {
		return false, err
	}
	rb.Value = newTarget(rb.Queue, &s)
	added, err := e.router.Bind(rb)
	if err != nil {
		return false, fmt.Errorf("binding of exchange %q: %w: %w", s.Source, core.ErrInvalid, err)
	}
	if added {
		e.bindings++
		if s.Exchange != "" {
			e.exchanges[s.Exchange].feed(s.Source, 1)
		}
	}
	e.gens.change(kind, rb.Filter)
	e.addBinding(&rb)
	return added, nil
}

// Unbind implements core.Engine.
func (e *Engine) Unbind(_ context.Context, s core.BindSpec) error {
	q, err := e.unbind(&s)
	if q != nil && err == nil {
		q.unbound(&s)
	}
	return err
}

// unbind returns the queue that the binding led to.
func (e *Engine) unbind(s *core.BindSpec) (*queue, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rb, kind, err := e.binding(s)
	if err != nil {
		return nil, err
	}
	if !e.router.Unbind(rb) {
		return nil, fmt.Errorf("binding %q of exchange %q: %w", s.Filter, s.Source, core.ErrNotFound)
	}
	e.bindings--
	if s.Exchange != "" {
		e.exchanges[s.Exchange].feed(s.Source, -1)
	}
	e.gens.change(kind, rb.Filter)
	e.dropBinding(&rb)
	e.unused(s.Source)
	return rb.Queue, nil
}

// unused deletes an auto-delete exchange that lost its last binding. With mu held.
func (e *Engine) unused(name string) {
	if x := e.exchanges[name]; x != nil && x.spec.AutoDelete && !e.router.InUse(name) {
		e.dropExchange(name)
	}
}

// binding finds the ends of a binding. With mu held.
func (e *Engine) binding(s *core.BindSpec) (rb routing.Binding[*queue], kind routing.Kind, err error) {
	source := e.exchanges[s.Source]
	if source == nil {
		return rb, 0, &core.ExchangeError{Exchange: s.Source, Err: core.ErrNotFound}
	}
	rb = routing.Binding[*queue]{Source: s.Source, Filter: s.Filter, Args: s.Args}
	if source.spec.Kind != routing.TopicKind && !s.Literal.IsZero() {
		rb.Filter = s.Literal
	}
	if s.Exchange != "" {
		if e.exchanges[s.Exchange] == nil {
			return rb, 0, &core.ExchangeError{Exchange: s.Exchange, Err: core.ErrNotFound}
		}
		rb.Exchange = s.Exchange
		return rb, source.spec.Kind, nil
	}
	q, err := e.findLocked(s.Queue, s.By)
	rb.Queue = q
	return rb, source.spec.Kind, err
}
