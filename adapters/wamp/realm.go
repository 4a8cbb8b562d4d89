package wamp

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"entrepot/core"
	"entrepot/routing"
)

// realm is what the sessions of one broker share: who is there, and which
// subscriptions there are.
type realm struct {
	cfg    *Config
	broker *core.Broker

	metaSubs atomic.Int32 // subscriptions that see meta events

	mu       sync.RWMutex
	sessions map[uint64]*conn
	byCore   map[core.SessionID]*conn
	subs     map[subscriptionKey]*subscription
	subsByID map[uint64]*subscription
	lastSub  uint64
}

func newRealm(cfg *Config, b *core.Broker) *realm {
	r := &realm{cfg: cfg, broker: b, sessions: map[uint64]*conn{}, byCore: map[core.SessionID]*conn{},
		subs: map[subscriptionKey]*subscription{}, subsByID: map[uint64]*subscription{}}
	b.WatchProcedures(r.procedureChanged)
	return r
}

// randomID draws an id of the global scope (WAMP, Basic Profile, IDs).
func randomID() uint64 { return rand.Uint64N(maxID) + 1 }

// join gives a session its id and lets others find it.
func (r *realm) join(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c.id == 0 || r.sessions[c.id] != nil {
		c.id = randomID()
	}
	r.sessions[c.id] = c
	r.byCore[c.session.ID()] = c
}

func (r *realm) leave(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, c.id)
}

// forget is the last step of a session that left: until then its end is told of
// under its id.
func (r *realm) forget(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byCore, c.session.ID())
}

func (r *realm) find(id uint64) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.sessions[id]
}

// sessionID is the id that WAMP clients know a core session by.
func (r *realm) sessionID(id core.SessionID) uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if c := r.byCore[id]; c != nil {
		return c.id
	}
	return uint64(id)
}

// all is every session, by id.
func (r *realm) all() []*conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*conn, 0, len(r.sessions))
	for _, c := range r.sessions {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return all
}

// hold finds or makes the subscription of a pattern and puts a session in. created
// tells that it is new.
func (r *realm) hold(p pattern, m *membership) (s *subscription, created bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := p.key()
	if s = r.subs[key]; s == nil {
		r.lastSub++
		s = newSubscription(r.lastSub, p)
		r.subs[key], r.subsByID[s.id] = s, s
		if s.meta {
			r.metaSubs.Add(1)
		}
		created = true
	}
	m.sub = s
	s.members = append(s.members, m)
	s.count.Store(int32(len(s.members)))
	return s, created
}

// release takes a session out; deleted tells that it was the last.
func (r *realm) release(m *membership) (deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := m.sub
	s.members = slices.DeleteFunc(s.members, func(o *membership) bool { return o == m })
	s.count.Store(int32(len(s.members)))
	if len(s.members) > 0 {
		return false
	}
	delete(r.subs, s.pattern.key())
	delete(r.subsByID, s.id)
	if s.meta {
		r.metaSubs.Add(-1)
	}
	return true
}

// eachSubscription calls f for every subscription that ok, by id. f must not block.
func (r *realm) subscriptions(ok func(*subscription) bool) []*subscription {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*subscription
	for _, s := range r.subsByID {
		if ok(s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *subscription) int { return cmp.Compare(a.id, b.id) })
	return all
}

// members are the sessions of a subscription; nil when it is gone.
func (r *realm) members(id uint64) (s *subscription, ids list) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s = r.subsByID[id]; s == nil {
		return nil, nil
	}
	ids = list{}
	for _, m := range s.members {
		ids = append(ids, int64(m.conn.id))
	}
	return s, ids
}

// match kinds of a pattern, by their names in SUBSCRIBE and REGISTER.
const (
	matchExact    = "exact"
	matchPrefix   = "prefix"
	matchWildcard = "wildcard"
)

// pattern is what a client subscribes to or registers.
type pattern struct {
	uri    string
	match  string
	filter routing.Filter
	prefix routing.Prefix // of matchPrefix
	group  string         // of a shared subscription
}

// subscriptionKey is what makes two patterns one.
type subscriptionKey struct{ match, uri, group string }

func (p pattern) key() subscriptionKey { return subscriptionKey{p.match, p.uri, p.group} }

// parsePattern reads a URI with its match policy; "" is exact. Errors are refusals.
func parsePattern(uri, match string) (pattern, error) {
	p := pattern{uri: uri, match: match}
	var err error
	switch match {
	case "", matchExact:
		p.match = matchExact
		var t routing.Topic
		t, err = routing.URI.ParseTopic(uri)
		p.filter = t.Filter()
	case matchWildcard:
		p.filter, err = routing.URI.ParseFilter(uri)
	case matchPrefix:
		p.prefix, err = routing.URI.ParsePrefix(uri)
		p.filter = p.prefix.Filter
	default:
		return p, refuse(errArgument, "match must be exact, prefix or wildcard")
	}
	if err != nil {
		return p, refuse(errURI, "%v", err)
	}
	return p, nil
}

// matches tells whether a topic is one that the pattern means.
func (p *pattern) matches(t routing.Topic) bool {
	if p.match == matchPrefix {
		return p.prefix.Match(t)
	}
	return p.filter.Match(t)
}
