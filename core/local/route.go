package local

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"entrepot/core"
	"entrepot/routing"
)

// target is one queue of a route with the values of the bindings that matched.
type target struct {
	queue      *queue
	matched    []any
	atMostOnce bool // every binding that matched says so
}

// route is where one topic of one exchange goes.
type route struct {
	targets []*target
	refuses bool // a target may refuse (reject-publish)
	stamp   stamp
}

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

// routeCache remembers the routes of one exchange, bounded, with random
// eviction.
type routeCache struct {
	seed   maphash.Seed
	shards [16]cacheShard
}

type cacheShard struct {
	mu sync.RWMutex
	m  map[string]*route
}

const (
	maxShard  = 4096 // routes in each shard
	maxCached = 512  // bytes of a topic; longer ones are computed each time
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
	if len(topic) > maxCached {
		return
	}
	s := c.shard(topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]*route{}
	}
	if len(s.m) >= maxShard {
		for k := range s.m { // Go starts at a random place
			delete(s.m, k)
			break
		}
	}
	s.m[topic] = r
}

// bound is the value that a binding has in the router.
type bound struct {
	value      any
	atMostOnce bool
}

// route finds where m goes.
func (e *Engine) route(m *core.Message) (*route, error) {
	x, err := e.entry(m.Exchange)
	if err != nil {
		return nil, err
	}
	topic := m.Topic.String()
	if r := x.cache.get(topic); r != nil && e.gens.valid(r.stamp) {
		return r, nil
	}
	return e.compute(x, m)
}

// entry is the exchange that a client publishes to.
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
		return nil, fmt.Errorf("exchange %q: %w", name, core.ErrNotFound)
	}
	if x.spec.Internal {
		return nil, fmt.Errorf("exchange %q is internal: %w", name, core.ErrNotAllowed)
	}
	return x, nil
}

func (e *Engine) compute(x *exchange, m *core.Message) (*route, error) {
	r := &route{stamp: e.gens.now(m.Topic.First())}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if x == e.byName {
		if name, ok := (core.Address{Topic: m.Topic}).QueueName(); ok {
			if q := e.queues[core.Named(name)]; q != nil {
				r.add(q, bound{})
			}
		}
		x.cache.put(m.Topic.String(), r)
		return r, nil
	}
	var headers routing.Headers
	if m.Props != nil {
		headers = m.Props.Headers
	}
	seen := map[*queue]*target{}
	cacheable, err := e.router.Route(x.spec.Name, m.Topic, headers, func(q *queue, value any) {
		b := value.(bound)
		if t := seen[q]; t != nil {
			t.join(b)
			return
		}
		seen[q] = r.add(q, b)
	})
	if err != nil {
		return nil, fmt.Errorf("exchange %q: %w", x.spec.Name, core.ErrNotFound)
	}
	if cacheable {
		x.cache.put(m.Topic.String(), r)
	}
	return r, nil
}

func (r *route) add(q *queue, b bound) *target {
	t := &target{queue: q, atMostOnce: b.atMostOnce}
	if b.value != nil {
		t.matched = []any{b.value}
	}
	r.targets = append(r.targets, t)
	r.refuses = r.refuses || q.refuses()
	return t
}

func (t *target) join(b bound) {
	if b.value != nil {
		t.matched = append(t.matched, b.value)
	}
	t.atMostOnce = t.atMostOnce && b.atMostOnce
}
