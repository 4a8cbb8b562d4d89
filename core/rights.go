package core

import (
	"fmt"

	"entrepot/core/auth"
	"entrepot/routing"
)

// allow asks the policy; what clients see says no more than "not allowed".
func (s *Session) allow(a auth.Action, o auth.Object) error { return s.allowAll(asked{a, o}) }

func (s *Session) allowAll(questions ...asked) error {
	if err := s.open(); err != nil {
		return err
	}
	who := s.Principal()
	for _, q := range questions {
		if err := s.broker.ask(&who, q); err != nil {
			return err
		}
	}
	return nil
}

// allowQueue asks for named queues, unless the session was given them, and for
// groups' queues; other internal ones are the adapters' own, their bindings are
// what is checked.
func (s *Session) allowQueue(a auth.Action, k QueueKey) error {
	switch {
	case k.Kind == NamedQueue && !s.own(k):
		return s.allow(a, auth.Object{Kind: auth.Queue, Name: k.Name})
	case k.Kind == GroupQueue:
		return s.allowGroup(k)
	}
	return s.open()
}

func (s *Session) allowGroup(k QueueKey) error {
	o, _, ok := groupObject(k)
	if !ok && s.broker.policy.Load() != nil {
		return fmt.Errorf("%v: %w", k, ErrNotAllowed)
	}
	return s.allow(auth.Subscribe, o)
}

func (s *Session) allowFilter(f routing.Filter) error {
	return s.allow(auth.Subscribe, filterObject(f))
}

// allowExchange: what an exchange cannot route goes to its alternate, which is
// a publish. That the broker's own exchanges are there is no secret.
func (s *Session) allowExchange(x ExchangeSpec) error {
	if x.Passive && (x.Name == DefaultExchange || x.Name == RPCExchange || reservedName(x.Name)) {
		return s.open()
	}
	if err := s.allow(auth.Declare, auth.Object{Kind: auth.Exchange, Name: x.Name}); err != nil {
		return err
	}
	if x.Passive || x.Alternate == "" {
		return nil
	}
	return s.allowAll(intoAsks(x.Alternate))
}

// allowQueueSpec: dead letters are taken from the queue and published.
func (s *Session) allowQueueSpec(q QueueSpec) error {
	if q.Passive {
		return s.allowLook(q.Key)
	}
	if err := s.allowQueue(auth.Declare, q.Key); err != nil {
		return err
	}
	d := q.Args.DeadLetter
	if d == nil {
		return nil
	}
	if err := s.allowQueue(auth.Consume, q.Key); err != nil {
		return err
	}
	return s.allowAll(deadAsks(d))
}

// allowLook: whoever may do something with a queue may know that it is there.
func (s *Session) allowLook(k QueueKey) error {
	err := s.allowQueue(auth.Declare, k)
	if err == nil || k.Kind != NamedQueue || s.open() != nil {
		return err
	}
	for _, a := range []auth.Action{auth.Consume, auth.Publish} {
		if s.allow(a, auth.Object{Kind: auth.Queue, Name: k.Name}) == nil {
			return nil
		}
	}
	return err
}

// allowBind: reading from the source, writing to the target.
func (s *Session) allowBind(b BindSpec) error {
	if err := s.allowAll(s.broker.readAsks(&b)...); err != nil {
		return err
	}
	return s.allowTarget(b)
}

// allowUnbind lets a client always take its own subscription back.
func (s *Session) allowUnbind(b BindSpec) error {
	if b.Exchange == "" && b.Queue.Kind != NamedQueue {
		return s.open()
	}
	return s.allowTarget(b)
}

// allowTarget: an exchange that is bound publishes further.
func (s *Session) allowTarget(b BindSpec) error {
	if b.Exchange == "" {
		return s.allowQueue(auth.Declare, b.Queue)
	}
	if err := s.allow(auth.Declare, auth.Object{Kind: auth.Exchange, Name: b.Exchange}); err != nil {
		return err
	}
	return s.allowAll(intoAsks(b.Exchange))
}

// allowTopics asks for every topic that the message is routed by, and for where
// answers to it would go.
func (s *Session) allowTopics(m *Message) error {
	if err := s.allowPublish(m.address()); err != nil || m.Props == nil {
		return err
	}
	for _, more := range [][]routing.Topic{m.Props.CC, m.Props.BCC} {
		for _, t := range more {
			if t.IsZero() || m.Exchange == TopicExchange && t.Dollar() {
				return fmt.Errorf("topic %q: %w", t, ErrNotAllowed)
			}
			if err := s.allowPublish(Address{m.Exchange, t}); err != nil {
				return err
			}
		}
	}
	if m.Props.ReplyTo.IsZero() {
		return nil
	}
	as := asReply
	if m.Exchange == RPCExchange {
		as = asAnswer
	}
	return s.allowReply(m.Props.ReplyTo, as)
}

// allowPublish remembers what the policy granted.
func (s *Session) allowPublish(a Address) error {
	return s.remembered(grant{Address: a}, func() error {
		if name, ok := a.QueueName(); ok && s.broker.given.of(Named(name)) != nil {
			return nil
		}
		return s.allow(publishAction(a))
	})
}

// allowReply: whoever answers writes there with rights of its own, which may be
// more than those of who asks. So who asks needs the right to publish there, and
// to a call's answer the right to receive it, too. Where an address is the
// client's own nobody else is written to, and receiving is enough.
func (s *Session) allowReply(a Address, as use) error {
	if s.broker.policy.Load() == nil || s.alone(a) {
		return s.open()
	}
	return s.remembered(grant{a, as}, func() error {
		receive := receiveAsks(a)
		if s.namedFor(receive) {
			return nil
		}
		if err := s.allowPublish(a); err != nil || as == asReply {
			return err
		}
		return s.allowAll(receive)
	})
}

// receiveAsks is what is asked of whoever wants to receive what goes to a.
func receiveAsks(a Address) asked {
	if name, ok := a.QueueName(); ok {
		return asked{auth.Consume, auth.Object{Kind: auth.Queue, Name: name}}
	}
	if a.Exchange == TopicExchange {
		return asked{auth.Subscribe, filterObject(a.Topic.Filter())}
	}
	return asked{auth.Subscribe, auth.Object{Kind: auth.Exchange, Name: a.Exchange}}
}

// namedFor tells whether a rule gives something to the client by its name.
func (s *Session) namedFor(q asked) bool {
	q.object.Own = true
	by := s.broker.policy.Load()
	return by == nil || by.policy.Check(s.Principal(), q.action, q.object) == nil
}

// alone tells whether an address is a queue from which nobody but this session
// may consume.
func (s *Session) alone(a Address) bool {
	name, ok := a.QueueName()
	return ok && (s.own(Named(name)) || s.rec != nil && s.rec.exclusive(Named(name)))
}

func (s *Session) remembered(what grant, ask func() error) error {
	if err := s.open(); err != nil {
		return err
	}
	by := s.broker.policy.Load()
	if by == nil {
		return nil
	}
	had, rights := s.grants.has(by, &what)
	if had {
		return nil
	}
	if err := ask(); err != nil {
		return err
	}
	s.grants.add(by, what, rights)
	return nil
}

// allowWill is asked when a client connects, and again when its will is due.
func (s *Session) allowWill() error {
	if s.hello.Will == nil {
		return nil
	}
	if err := s.MayPublish(s.hello.Will.Message); err != nil {
		return fmt.Errorf("%w: %w", ErrWill, err)
	}
	return nil
}

// Allowed asks the policy about what an adapter does by itself (meta procedures).
// Errors: ErrNotAllowed, ErrClosed.
func (s *Session) Allowed(a auth.Action, o auth.Object) error { return s.allow(a, o) }

// MayPublish asks the policy about a message that is to be published later, when
// it is asked again. Errors: ErrNotAllowed, ErrClosed, ErrUnsupported for a call.
func (s *Session) MayPublish(m *Message) error {
	if err := s.allowTopics(m); err != nil {
		return err
	}
	return m.notLater()
}

// asOwner is who the session's bindings are made by.
func (s *Session) asOwner() *Owner {
	p := s.Principal()
	if o := s.rec.owner.Load(); o != nil && sameRights(&o.Principal, &p) {
		return o
	}
	o := &Owner{Session: s.ID(), Principal: auth.Principal{User: p.User, ClientID: p.ClientID, Groups: p.Groups}}
	s.rec.owner.Store(o)
	return o
}

// address of a message, for the cache of rights.
func (m *Message) address() Address {
	return Address{m.Exchange, m.Topic}
}
