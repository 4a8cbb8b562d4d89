package local

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"entrepot/core"
	"entrepot/routing"
)

// target is one queue of a route with the values of the bindings that matched.
// Each binding has one, which the routes that only it leads to share.
type target struct {
	queue      *queue
	matched    []any
	owner      *core.Owner // of the binding
	atMostOnce bool        // every binding that matched says so
	guarded    bool        // what it brings in is asked about
}

func newTarget(q *queue, s *core.BindSpec) *target {
	t := &target{queue: q, owner: s.Owner, atMostOnce: s.AtMostOnce,
		guarded: s.Owner != nil && s.Source == core.TopicExchange}
	if s.Value != nil {
		t.matched = []any{s.Value}
	}
	return t
}

// join is the target of messages that both bindings bring in.
func (t *target) join(o *target) *target {
	both := make([]any, 0, len(t.matched)+len(o.matched))
	return &target{queue: t.queue, atMostOnce: t.atMostOnce && o.atMostOnce,
		matched: append(append(both, t.matched...), o.matched...)}
}

// route is where one topic of one exchange goes.
type route struct {
	targets []*target
	refuses bool // a target may refuse (reject-publish)
	stamp   stamp
}

// cost is what a route takes of the cache's room.
func (r *route) cost() int { return 1 + len(r.targets) }

// generations tell when cached routes are out of date: one counter for each
// hash of a first level, and one for changes that may concern every topic. A
// single counter for all would keep the cache cold for as long as clients
// come and go.
type generations struct {
	seed  maphash.Seed
	all   atomic.Uint64
	first [1024]atomic.Uint64
}

type stamp struct {
	slot       *atomic.Uint64
	first, all uint64
}

func (g *generations) slot(first string) *atomic.Uint64 {
	return &g.first[maphash.String(g.seed, first)%uint64(len(g.first))]
}

// now is taken before a route is computed.
func (g *generations) now(first string) stamp {
	s := g.slot(first)
	return stamp{slot: s, first: s.Load(), all: g.all.Load()}
}

func (g *generations) valid(s stamp) bool {
	return s.slot.Load() == s.first && g.all.Load() == s.all
}

// change is called after the router changed for topics that the filter of a
// binding may match.
func (g *generations) change(kind routing.Kind, f routing.Filter) {
	first := f.First()
	if kind != routing.Direct && kind != routing.TopicKind ||
		kind == routing.TopicKind && (first == "+" || first == "#") {
		g.all.Add(1)
		return
	}
	g.slot(first).Add(1)
}

// routeCache remembers the routes of one exchange, bounded in topics and in
// targets, with random eviction.
type routeCache struct {
	seed   maphash.Seed
	shards [16]cacheShard
}

type cacheShard struct {
	mu   sync.RWMutex
	m    map[string]*route
	cost int
}

const (
	maxShard  = 4096    // routes in each shard
	maxCost   = 1 << 18 // routes and targets in each shard
	maxCached = 512     // bytes of a topic; longer ones are computed each time
)

func (c *routeCache) shard(topic string) *cacheShard {
	return &c.shards[maphash.String(c.seed, topic)%uint64(len(c.shards))]
}

func (c *routeCache) get(topic string) *route {
	s := c.shard(topic)
	s.mu.RLock()
	r := s.m[topic]
	s.mu.RUnlock()
	return r
}

func (c *routeCache) put(topic string, r *route) {
	if len(topic) > maxCached || r.cost() > maxCost {
		return
	}
	s := c.shard(topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]*route{}
	}
	s.evict(topic)
	for k := range s.m { // Go starts at a random place
		if len(s.m) < maxShard && s.cost+r.cost() <= maxCost {
			break
		}
		s.evict(k)
	}
	s.m[topic] = r
	s.cost += r.cost()
}

// evict is called with mu held.
func (s *cacheShard) evict(topic string) {
	if r := s.m[topic]; r != nil {
		s.cost -= r.cost()
		delete(s.m, topic)
	}
}

// route finds where m goes.
func (e *Engine) route(m *core.Message) (*route, error) {
	x, err := e.entry(m.Exchange)
	if err != nil {
		return nil, err
	}
	if x.spec.Internal {
		return nil, &core.ExchangeError{Exchange: m.Exchange, Internal: true, Err: core.ErrNotAllowed}
	}
	return e.routeFrom(x, m)
}

// routeAny is route for the broker's own messages, which internal exchanges
// take too.
func (e *Engine) routeAny(m *core.Message) (*route, error) {
	x, err := e.entry(m.Exchange)
	if err != nil {
		return nil, err
	}
	return e.routeFrom(x, m)
}

func (e *Engine) routeFrom(x *exchange, m *core.Message) (*route, error) {
	if p := m.Props; p != nil && len(p.CC)+len(p.BCC) > 0 {
		return e.routeCopies(x, m)
	}
	topic := m.Topic.String()
	if r := x.cache.get(topic); r != nil && e.gens.valid(r.stamp) {
		return r, nil
	}
	return e.compute(x, m)
}

// routeCopies is the route of a message with more than one topic: each queue
// gets it once.
func (e *Engine) routeCopies(x *exchange, m *core.Message) (*route, error) {
	one := *m
	props := *m.Props
	topics := append(append([]routing.Topic{m.Topic}, props.CC...), props.BCC...)
	props.CC, props.BCC = nil, nil
	one.Props = &props
	all := &route{}
	var c collector
	for _, t := range topics {
		one.Topic = t
		r, err := e.routeFrom(x, &one)
		if err != nil {
			return nil, err
		}
		all.refuses = all.refuses || r.refuses
		for _, t := range r.targets {
			c.add(t)
		}
	}
	all.targets = c.targets
	return all, nil
}

// entry is the exchange of that name.
func (e *Engine) entry(name string) (*exchange, error) {
	switch name {
	case core.TopicExchange:
		return e.topics, nil
	case core.DefaultExchange:
		return e.byName, nil
	}
	e.mu.RLock()
	x := e.exchanges[name]
	e.mu.RUnlock()
	if x == nil {
		return nil, &core.ExchangeError{Exchange: name, Err: core.ErrNotFound}
	}
	return x, nil
}

func (e *Engine) compute(x *exchange, m *core.Message) (*route, error) {
	if m.Topic.Dollar() && x != e.byName && x.spec.Name != core.TopicExchange {
		return e.computeApart(x, m)
	}
	r := &route{stamp: e.gens.now(m.Topic.First())}
	e.mu.RLock()
	defer e.mu.RUnlock()
	cacheable := true
	if x == e.byName {
		e.byQueueName(r, m.Topic)
	} else {
		var headers routing.Headers
		if m.Props != nil {
			headers = m.Props.Headers
		}
		var c collector
		var err error
		cacheable, err = e.router.Route(x.spec.Name, m.Topic, headers, func(_ *queue, value any) {
			if t := value.(*target); e.may(t, m.Topic) {
				c.add(t)
			}
		})
		if err != nil {
			return nil, &core.ExchangeError{Exchange: x.spec.Name, Err: core.ErrNotFound}
		}
		r.targets = c.targets
	}
	for _, t := range r.targets {
		r.refuses = r.refuses || t.queue.refuses()
	}
	if cacheable {
		x.cache.put(m.Topic.String(), r)
	}
	return r, nil
}

// byQueueName is the default exchange. With mu held.
func (e *Engine) byQueueName(r *route, t routing.Topic) {
	if name, ok := (core.Address{Topic: t}).QueueName(); ok {
		if q := e.queues[core.Named(name)]; q != nil {
			r.targets = []*target{q.named}
		}
	}
}

// collector makes one target of all that lead to one queue.
type collector struct {
	targets []*target
	at      map[*queue]int // when there are many
}

const collectScan = 16 // targets that are searched one by one

func (c *collector) add(t *target) {
	i := c.find(t.queue)
	if i >= 0 {
		c.targets[i] = c.targets[i].join(t)
		return
	}
	if c.at != nil {
		c.at[t.queue] = len(c.targets)
	}
	c.targets = append(c.targets, t)
}

// find is the place of a queue, -1 when it is not there.
func (c *collector) find(q *queue) int {
	if len(c.targets) < collectScan {
		return slices.IndexFunc(c.targets, func(t *target) bool { return t.queue == q })
	}
	if c.at == nil {
		c.at = make(map[*queue]int, 2*len(c.targets))
		for i, t := range c.targets {
			c.at[t.queue] = i
		}
	}
	if i, ok := c.at[q]; ok {
		return i
	}
	return -1
}
