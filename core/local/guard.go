package local

import (
	"entrepot/core"
	"entrepot/routing"
)

// What a binding of amq.topic brings in is asked about when a route is found,
// so that messages on routes that are known cost nothing.

// guard tells whether an owner's binding brings a topic in.
type guard func(o *core.Owner, t routing.Topic) bool

var _ core.Guarded = (*Engine)(nil)

// Guard implements core.Guarded.
func (e *Engine) Guard(may func(o *core.Owner, t routing.Topic) bool) {
	g := guard(may)
	if may == nil {
		e.guard.Store(nil)
	} else {
		e.guard.Store(&g)
	}
	e.gens.all.Add(1)
}

// may tells whether a binding that matched is let through.
func (e *Engine) may(t *target, topic routing.Topic) bool {
	g := e.guard.Load()
	return g == nil || !t.guarded || (*g)(t.owner, topic)
}

// EachBinding implements core.Guarded.
func (e *Engine) EachBinding(f func(core.BindSpec)) {
	var all []core.BindSpec
	e.mu.RLock()
	for name := range e.exchanges {
		for _, b := range e.router.Bindings(name) {
			if s := specOf(&b); s.Owner != nil {
				all = append(all, s)
			}
		}
	}
	e.mu.RUnlock()
	for _, s := range all {
		f(s)
	}
}

// specOf is the binding as it was asked for.
func specOf(b *routing.Binding[*queue]) core.BindSpec {
	s := core.BindSpec{Source: b.Source, Exchange: b.Exchange, Filter: b.Filter, Literal: b.Filter, Args: b.Args}
	if b.Queue != nil {
		s.Queue = b.Queue.key
	}
	if t, ok := b.Value.(*target); ok {
		s.Owner, s.AtMostOnce = t.owner, t.atMostOnce
		if len(t.matched) > 0 {
			s.Value = t.matched[0]
		}
	}
	return s
}

// setOwner notes whose a binding is.
func (r *bindingRecord) setOwner(o *core.Owner) {
	if o != nil {
		p := &o.Principal
		r.User, r.Client, r.Groups, r.Session = p.User, p.ClientID, p.Groups, o.Session
	}
}

// owner is whose a binding on disk is; a group's is nobody's.
func (r *bindingRecord) owner() *core.Owner {
	if r.Exchange == "" && r.QueueKind == core.GroupQueue {
		return nil
	}
	o := &core.Owner{Session: r.Session}
	o.Principal.User, o.Principal.ClientID, o.Principal.Groups = r.User, r.Client, r.Groups
	return o
}
