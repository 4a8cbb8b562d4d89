package core

import (
	"context"
	"time"

	"entrepot/core/auth"
	"entrepot/core/store"
	"entrepot/routing"
)

// Withdrawal is one thing of a session that has ended because its client may
// not have it any more: one field is set.
type Withdrawal struct {
	// Binding brought messages in, or calls. It is unbound already.
	Binding *BindSpec
	// Consumer was on a queue that the client named. It is cancelled already.
	Consumer Consumer
	// Registration is given up already.
	Registration *Registration
}

// Withdrawer is implemented by a state, of SetState, that keeps what its client
// session has. It is told first, and also while no connection is there, and
// returns the notes that it changes for it. It must not block or call back.
type Withdrawer interface {
	Withdrawn(Withdrawal) []Note
}

// secondReview is when it is looked once more: a verb may have been under way
// that the older policy had allowed.
const secondReview = 300 * time.Millisecond

// SetPolicy has p asked from now on; nil allows everything. What clients have
// and may not have any more ends: bindings, also of sessions whose client is
// away, consumers and registrations; see Hello.Withdrawn. What was published
// before goes on its way, what is delayed or in a queue too.
func (b *Broker) SetPolicy(p auth.Policy) {
	b.rule(p)
	b.review()
	b.mu.Lock()
	defer b.mu.Unlock()
	stopTimer(&b.second)
	if !b.closing {
		b.second = time.AfterFunc(secondReview, b.review)
	}
}

// rule has a policy asked, by the engine too.
func (b *Broker) rule(p auth.Policy) {
	g, guarded := b.engine.(Guarded)
	if p == nil {
		b.policy.Store(nil)
		if guarded {
			g.Guard(nil)
		}
		return
	}
	b.policy.Store(&ruling{p})
	if guarded {
		g.Guard(b.may)
	}
}

// may tells whether a binding of that owner brings a topic in. It is asked
// under locks.
func (b *Broker) may(o *Owner, t routing.Topic) bool {
	r := b.policy.Load()
	return r == nil || o == nil || r.policy.Check(o.Principal, auth.Subscribe, filterObject(t.Filter())) == nil
}

// permitted leaves out of a replay what the binding may not bring in.
func (b *Broker) permitted(src Source, o *Owner) Source {
	if b.policy.Load() == nil {
		return src
	}
	return func() (*Message, bool) {
		for {
			m, ok := src()
			if !ok || b.may(o, m.Topic) {
				return m, ok
			}
		}
	}
}

// review ends what clients have and may not have any more.
func (b *Broker) review() {
	if b.policy.Load() == nil {
		return
	}
	b.reviews.Lock()
	defer b.reviews.Unlock()
	records, live := b.everybody()
	b.reviewBindings(records, live, func(*Owner) bool { return true })
	for _, r := range records {
		r.reviewHolds(r.principal(), nil)
	}
	for _, s := range live {
		s.review()
	}
}

// review ends what the session has beside bindings and may not have any more.
func (s *Session) review() {
	who := s.Principal()
	s.rec.reviewHolds(&who, s)
	s.reviewConsumers(&who)
	s.reviewCallees(&who)
}

// renewed is for a client whose groups may be others by now.
func (b *Broker) renewed(s *Session) {
	if b.policy.Load() == nil {
		return
	}
	b.reviews.Lock()
	defer b.reviews.Unlock()
	b.takeOver(s)
	s.review()
}

// everybody lists client sessions that have no connection, and connections, by
// the session.
func (b *Broker) everybody() (away map[SessionID]*record, live map[SessionID]*Session) {
	away, live = map[SessionID]*record{}, map[SessionID]*Session{}
	b.mu.Lock()
	var all []*record
	for _, r := range b.sessions {
		all = append(all, r)
	}
	for _, p := range b.protocols {
		for s := range p.open {
			live[s.ID()] = s
		}
	}
	b.mu.Unlock()
	for _, r := range all {
		r.mu.Lock()
		if r.current == nil && !r.gone {
			away[r.id] = r
		}
		r.mu.Unlock()
	}
	return away, live
}

// reviewBindings unbinds what those owners may not bind any more. A group's
// queue is its members' matter.
func (b *Broker) reviewBindings(away map[SessionID]*record, live map[SessionID]*Session, whose func(*Owner) bool) {
	g, ok := b.engine.(Guarded)
	if !ok {
		return
	}
	var over []BindSpec
	g.EachBinding(func(s BindSpec) {
		if whose(s.Owner) && b.askOwner(&s) != nil {
			over = append(over, s)
		}
	})
	for _, s := range over {
		own := s
		s.By = 0
		if b.engine.Unbind(context.Background(), s) != nil {
			continue // gone meanwhile
		}
		w := Withdrawal{Binding: &own}
		if c := live[s.Owner.Session]; c != nil {
			c.withdrawn(w)
		} else if r := away[s.Owner.Session]; r != nil {
			r.withdrawn(w)
		}
	}
}

// askOwner asks for a binding with the rights of who made it.
func (b *Broker) askOwner(s *BindSpec) error {
	questions := b.readAsks(s)
	if s.Exchange != "" {
		questions = append(questions, intoAsks(s.Exchange))
	}
	for _, q := range questions {
		if err := b.ask(&s.Owner.Principal, q); err != nil {
			return err
		}
	}
	return nil
}

// takeOver gives the bindings of a resumed session the rights of its new
// connection, where those are others.
func (b *Broker) takeOver(s *Session) {
	old := s.rec.owner.Load()
	g, ok := b.engine.(Guarded)
	who := s.Principal()
	if old == nil || !ok || sameRights(&old.Principal, &who) {
		return
	}
	now := s.asOwner()
	var all []BindSpec
	g.EachBinding(func(spec BindSpec) {
		if spec.Owner.Session == s.ID() {
			all = append(all, spec)
		}
	})
	for _, spec := range all {
		spec.Owner, spec.By = now, 0
		// What is gone meanwhile needs no rights.
		_, _ = b.engine.Bind(context.Background(), spec)
	}
	b.reviewBindings(nil, map[SessionID]*Session{s.ID(): s}, func(o *Owner) bool { return o == now })
}

// principal is who the session's last connection was.
func (r *record) principal() *auth.Principal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &auth.Principal{User: r.user, Groups: r.groups, ClientID: r.name.clientID}
}

// withdrawn tells the state.
func (r *record) withdrawn(w Withdrawal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.state.(Withdrawer)
	if !ok {
		return
	}
	notes := t.Withdrawn(w)
	if v := r.broker.vault; v != nil && r.onDisk {
		var b store.Batch
		for _, n := range notes {
			v.put(&b, r.id, n)
		}
		v.store.Commit(&b, false, nil)
	}
}

// withdrawn tells the session's adapter.
func (s *Session) withdrawn(w Withdrawal) {
	s.rec.withdrawn(w)
	s.broker.log.Info("rights withdrawn", "protocol", s.hello.Protocol, "user", s.hello.Principal.User, "client", s.hello.ClientID)
	switch {
	case s.hello.Withdrawn != nil:
		s.hello.Withdrawn(w)
	case s.hello.Kick != nil:
		s.hello.Kick(EndRefused)
	}
}

// reviewHolds gives up groups' queues; s is the connection, nil for none.
func (r *record) reviewHolds(who *auth.Principal, s *Session) {
	b := r.broker
	var held []QueueKey
	b.groups.mu.Lock()
	for k := range r.held {
		held = append(held, k)
	}
	b.groups.mu.Unlock()
	for _, k := range held {
		o, f, ok := groupObject(k)
		if ok && b.ask(who, asked{auth.Subscribe, o}) == nil {
			continue
		}
		if s != nil {
			s.cancelAll(k)
		}
		if b.groups.release(context.Background(), r, k) != nil {
			continue
		}
		w := Withdrawal{Binding: &BindSpec{Source: TopicExchange, Queue: k, Filter: f}}
		if s != nil {
			s.withdrawn(w)
		} else {
			r.withdrawn(w)
		}
	}
}

// attached lists the session's consumers.
func (s *Session) attached() []*heldConsumer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*heldConsumer, 0, len(s.consumers))
	for h := range s.consumers {
		list = append(list, h)
	}
	return list
}

func (s *Session) cancelAll(k QueueKey) {
	for _, h := range s.attached() {
		if h.queue == k {
			h.Cancel(Requeue)
		}
	}
}

func (s *Session) reviewConsumers(who *auth.Principal) {
	for _, h := range s.attached() {
		if h.queue.Kind != NamedQueue || s.own(h.queue) {
			continue
		}
		q := asked{auth.Consume, auth.Object{Kind: auth.Queue, Name: h.queue.Name}}
		if s.broker.ask(who, q) != nil {
			h.Cancel(Requeue)
			s.withdrawn(Withdrawal{Consumer: h})
		}
	}
}

func (s *Session) reviewCallees(who *auth.Principal) {
	regs, queues := s.calls.all()
	refused := func(f routing.Filter) bool {
		return s.broker.ask(who, asked{auth.Register, registerObject(f)}) != nil
	}
	for _, at := range queues {
		spec := BindSpec{Source: RPCExchange, Queue: at.queue, Filter: at.filter}
		if refused(at.filter) && s.unbindCallee(spec) == nil {
			s.withdrawn(Withdrawal{Binding: &spec})
		}
	}
	for _, r := range regs {
		if _, ofQueue := r.callee.(*queueCallee); ofQueue {
			continue
		}
		if refused(r.procedure.key.filter) && s.Unregister(r) == nil {
			s.withdrawn(Withdrawal{Registration: r})
		}
	}
}

// all lists what the session serves calls with.
func (c *sessionCalls) all() (regs []*Registration, queues []queueBinding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.regs {
		regs = append(regs, r)
	}
	for at := range c.queues {
		queues = append(queues, at)
	}
	return regs, queues
}
