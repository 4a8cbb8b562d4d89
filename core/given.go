package core

import (
	"crypto/rand"
	"fmt"
	"slices"
	"sync"

	"entrepot/core/auth"
	"entrepot/routing"
)

// given are the exclusive queues whose names the broker made up: a client's own
// address, which nobody can guess. Their client needs no right to them, and
// whoever was given such an address may publish to it.
type given struct {
	mu sync.RWMutex
	to map[QueueKey]*record
}

func (g *given) add(k QueueKey, r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		g.to = map[QueueKey]*record{}
	}
	g.to[k] = r
}

func (g *given) remove(k QueueKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.to, k)
}

func (g *given) removeAll(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, o := range g.to {
		if o == r {
			delete(g.to, k)
		}
	}
}

// of is whose the queue is, nil for one that is not given.
func (g *given) of(k QueueKey) *record {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.to[k]
}

// own tells whether a queue was given to the session.
func (s *Session) own(k QueueKey) bool { return s.rec != nil && s.broker.given.of(k) == s.rec }

// asked is one question to a policy.
type asked struct {
	action auth.Action
	object auth.Object
}

func filterObject(f routing.Filter) auth.Object {
	return auth.Object{Kind: auth.Topic, Name: f.String()}
}

// registerObject: a callee gets all that its pattern matches, or is none.
func registerObject(f routing.Filter) auth.Object {
	return auth.Object{Kind: auth.Procedure, Name: f.String(), Whole: true}
}

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

// publishAction is what publishing to a means to a policy.
func publishAction(a Address) (auth.Action, auth.Object) {
	if a.Exchange == RPCExchange {
		return auth.Call, auth.Object{Kind: auth.Procedure, Name: a.Topic.String()}
	}
	return auth.Publish, publishObject(a)
}

// intoAsks is what is asked of whoever has the broker publish to an exchange
// under keys that are not known: all that may be published there.
func intoAsks(exchange string) asked {
	switch exchange {
	case DefaultExchange:
		return asked{auth.Publish, auth.Object{Kind: auth.Queue, Whole: true}}
	case TopicExchange:
		return asked{auth.Publish, auth.Object{Kind: auth.Topic, Name: "#", Whole: true}}
	case RPCExchange:
		return asked{auth.Call, auth.Object{Kind: auth.Procedure, Name: "#", Whole: true}}
	}
	return asked{auth.Publish, auth.Object{Kind: auth.Exchange, Name: exchange}}
}

// deadAsks is what is asked of whoever has dead letters sent somewhere.
func deadAsks(d *DeadLetter) asked {
	if !d.HasKey {
		return intoAsks(d.Exchange)
	}
	t, err := RoutingTopic(d.Exchange, d.Key)
	if err != nil {
		return intoAsks(d.Exchange) // the declare will be refused
	}
	action, object := publishAction(Address{d.Exchange, t})
	return asked{action, object}
}

// readAsks is what is asked of whoever binds, about what the binding brings in.
// What goes on from an exchange, or to the members of a group, is not looked at
// message by message, so all of the filter is asked for.
func (b *Broker) readAsks(s *BindSpec) []asked {
	if s.Source != TopicExchange {
		return []asked{{auth.Subscribe, auth.Object{Kind: auth.Exchange, Name: s.Source}}}
	}
	read := asked{auth.Subscribe, filterObject(s.Filter)}
	_, guarded := b.engine.(Guarded)
	read.object.Whole = s.Exchange != "" || s.Queue.Kind == GroupQueue || !guarded
	if !read.object.Whole || !s.Filter.Dollars() {
		return []asked{read}
	}
	return []asked{read, {auth.Subscribe, auth.Object{Kind: auth.Topic, Name: "$SYS/#", Whole: true}}}
}

// groupObject is what a member of a group's queue gets; ok is false for a queue
// that no filter names.
func groupObject(k QueueKey) (auth.Object, routing.Filter, bool) {
	_, text := cutLast(k.Name)
	f, err := routing.ParseFilter(text)
	o := filterObject(f)
	o.Whole = true
	return o, f, err == nil
}

// cutLast parts a key's name before its last part.
func cutLast(name string) (before, last string) {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == 0 {
			return name[:i], name[i+1:]
		}
	}
	return "", name
}

// ask is the policy's answer, as a client may see it.
func (b *Broker) ask(who *auth.Principal, q asked) error {
	r := b.policy.Load()
	if r == nil {
		return nil
	}
	return r.ask(b, who, q)
}

// ruling is one policy, for as long as it holds.
type ruling struct{ policy auth.Policy }

func (r *ruling) ask(b *Broker, who *auth.Principal, q asked) error {
	err := r.policy.Check(*who, q.action, q.object)
	if err == nil {
		return nil
	}
	b.log.Debug("refused by policy", "user", who.User, "client", who.ClientID,
		"action", q.action.String(), "object", q.object.Name, "reason", err)
	if q.object.Kind == auth.Queue && q.object.Whole {
		return fmt.Errorf("%s to every queue: %w", q.action, ErrNotAllowed)
	}
	return fmt.Errorf("%s %q: %w", q.action, q.object.Name, ErrNotAllowed)
}

// sameRights tells whether rules see no difference between two.
func sameRights(a, b *auth.Principal) bool {
	return a.User == b.User && a.ClientID == b.ClientID && slices.Equal(a.Groups, b.Groups)
}

// nameQueue makes a name up; it returns whether that is one which clients cannot
// declare.
func (s *Session) nameQueue(q *QueueSpec) (reserved bool) {
	if q.Prefix == "" {
		q.Prefix = generatedPrefix
	}
	q.Key.Name = q.Prefix + rand.Text()
	if q.Exclusive {
		s.broker.given.add(q.Key, s.rec)
	}
	return reservedName(q.Prefix)
}
