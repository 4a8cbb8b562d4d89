package core

import (
	"fmt"
	"sync"

	"entrepot/core/auth"
	"entrepot/routing"
)

// maxGrants bounds the publish addresses whose permission a session remembers,
// maxGrant their length in bytes.
const (
	maxGrants = 256
	maxGrant  = 512
)

// grants remembers addresses that this session may publish to, so that the
// policy is not asked for every message. Emptied when full.
type grants struct {
	mu sync.Mutex
	ok map[Address]struct{}
}

// allow asks the policy; what clients see says no more than "not allowed".
func (s *Session) allow(a auth.Action, o auth.Object) error {
	if err := s.open(); err != nil {
		return err
	}
	if s.broker.policy == nil {
		return nil
	}
	if err := s.broker.policy.Check(s.Principal(), a, o); err != nil {
		s.broker.log.Debug("refused by policy", "protocol", s.origin.Protocol, "client", s.hello.ClientID,
			"action", a.String(), "object", o.Name, "reason", err)
		return fmt.Errorf("%s %q: %w", a, o.Name, ErrNotAllowed)
	}
	return nil
}

// allowQueue asks for named queues; internal ones are the adapters' own, their
// bindings are what is checked.
func (s *Session) allowQueue(a auth.Action, k QueueKey) error {
	if k.Kind != NamedQueue {
		return s.open()
	}
	return s.allow(a, auth.Object{Kind: auth.Queue, Name: k.Name})
}

func (s *Session) allowFilter(f routing.Filter) error {
	return s.allow(auth.Subscribe, filterObject(f))
}

// allowExchange: what an exchange cannot route goes to its alternate, which is
// a publish.
func (s *Session) allowExchange(x ExchangeSpec) error {
	if err := s.allow(auth.Declare, auth.Object{Kind: auth.Exchange, Name: x.Name}); err != nil {
		return err
	}
	if x.Passive || x.Alternate == "" {
		return nil
	}
	return s.allow(auth.Publish, auth.Object{Kind: auth.Exchange, Name: x.Alternate})
}

// allowQueueSpec: dead letters are taken from the queue and published.
func (s *Session) allowQueueSpec(q QueueSpec) error {
	if err := s.allowQueue(auth.Declare, q.Key); err != nil {
		return err
	}
	d := q.Args.DeadLetter
	if q.Passive || d == nil {
		return nil
	}
	if err := s.allowQueue(auth.Consume, q.Key); err != nil {
		return err
	}
	return s.allow(auth.Publish, auth.Object{Kind: auth.Exchange, Name: d.Exchange})
}

// allowBind: reading from the source, writing to the target.
func (s *Session) allowBind(b BindSpec) error {
	read := auth.Object{Kind: auth.Exchange, Name: b.Source}
	if b.Source == TopicExchange {
		read = filterObject(b.Filter)
	}
	if err := s.allow(auth.Subscribe, read); err != nil {
		return err
	}
	return s.allowTarget(b)
}

// allowUnbind lets a client always take its own subscription back.
func (s *Session) allowUnbind(b BindSpec) error { return s.allowTarget(b) }

func (s *Session) allowTarget(b BindSpec) error {
	if b.Exchange != "" {
		return s.allow(auth.Declare, auth.Object{Kind: auth.Exchange, Name: b.Exchange})
	}
	return s.allowQueue(auth.Declare, b.Queue)
}

// allowTopics asks for every topic that the message is routed by.
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
	return nil
}

// allowPublish remembers what the policy granted.
func (s *Session) allowPublish(a Address) error {
	if err := s.open(); err != nil {
		return err
	}
	if s.broker.policy == nil {
		return nil
	}
	s.grants.mu.Lock()
	_, known := s.grants.ok[a]
	s.grants.mu.Unlock()
	if known {
		return nil
	}
	if err := s.allow(publishAction(a)); err != nil {
		return err
	}
	if len(a.Exchange)+len(a.Topic.String()) > maxGrant {
		return nil
	}
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	if s.grants.ok == nil || len(s.grants.ok) >= maxGrants {
		s.grants.ok = map[Address]struct{}{}
	}
	s.grants.ok[a] = struct{}{}
	return nil
}

// Allowed asks the policy about what an adapter does by itself (meta procedures).
// Errors: ErrNotAllowed, ErrClosed.
func (s *Session) Allowed(a auth.Action, o auth.Object) error { return s.allow(a, o) }

// address of a message, for the cache of rights.
func (m *Message) address() Address { return Address{m.Exchange, m.Topic} }

// publishObject is what a publish to a is checked against.
func publishObject(a Address) auth.Object {
	if name, ok := a.QueueName(); ok {
		return auth.Object{Kind: auth.Queue, Name: name}
	}
	if a.Exchange == TopicExchange {
		return auth.Object{Kind: auth.Topic, Name: a.Topic.String()}
	}
	return auth.Object{Kind: auth.Exchange, Name: a.Exchange}
}

func filterObject(f routing.Filter) auth.Object {
	return auth.Object{Kind: auth.Topic, Name: f.String()}
}
