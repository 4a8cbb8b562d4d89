package local

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"entrepot/core"
	"entrepot/routing"
)

func topic(t *testing.T, text string) routing.Topic {
	t.Helper()
	p, err := routing.ParseTopic(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func filter(t *testing.T, text string) routing.Filter {
	t.Helper()
	f, err := routing.ParseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// routeOf is the engine's route for a topic of amq.topic.
func routeOf(t *testing.T, e *Engine, text string) *route {
	t.Helper()
	r, err := e.route(&core.Message{Exchange: core.TopicExchange, Topic: topic(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func declare(t *testing.T, e *Engine, k core.QueueKey) {
	t.Helper()
	if _, err := e.DeclareQueue(context.Background(), core.QueueSpec{Key: k}); err != nil {
		t.Fatal(err)
	}
}

func bindTo(t *testing.T, e *Engine, source, text string, k core.QueueKey, v any) {
	t.Helper()
	s := core.BindSpec{Source: source, Queue: k, Value: v}
	if text != "" {
		s.Filter = filter(t, text)
	}
	if _, err := e.Bind(context.Background(), s); err != nil {
		t.Fatal(err)
	}
}

// What clients of one first level do leaves the routes of others warm.
func TestRoutesStayWarmBesideOthers(t *testing.T) {
	e := New(quiet())
	q := core.Named("q")
	declare(t, e, q)
	bindTo(t, e, core.TopicExchange, "plant/#", q, nil)
	warm := routeOf(t, e, "plant/7")
	if routeOf(t, e, "plant/7") != warm {
		t.Fatal("the second look-up computes again")
	}
	other := core.Named("other")
	declare(t, e, other)
	bindTo(t, e, core.TopicExchange, "office/1", other, nil)
	bindTo(t, e, "amq.direct", "office", other, nil)
	if routeOf(t, e, "plant/7") != warm {
		t.Error("a binding of another first level made the route cold")
	}
	bindTo(t, e, core.TopicExchange, "plant/8", other, nil)
	if routeOf(t, e, "plant/7") == warm {
		t.Error("a binding of the same first level did not make the route cold")
	}
}

// Which changes make a cached route of a/b out of date.
func TestGenerations(t *testing.T) {
	for _, c := range []struct {
		title, source, filter string
		cold                  bool
	}{
		{"literal first level", core.TopicExchange, "a/+", true},
		{"another first level", core.TopicExchange, "b/+", false},
		{"one-level first", core.TopicExchange, "+/x", true},
		{"any-levels first", core.TopicExchange, "#/x", true},
		{"direct, the same first level", "amq.direct", "a/x", true},
		{"direct, another", "amq.direct", "c", false},
		{"fanout concerns all", "amq.fanout", "", true},
		{"headers concern all", "amq.headers", "", true},
	} {
		t.Run(c.title, func(t *testing.T) {
			e := New(quiet())
			q := core.Named("q")
			declare(t, e, q)
			for _, change := range []func(){
				func() { bindTo(t, e, c.source, c.filter, q, nil) },
				func() {
					s := core.BindSpec{Source: c.source, Queue: q}
					if c.filter != "" {
						s.Filter = filter(t, c.filter)
					}
					if err := e.Unbind(context.Background(), s); err != nil {
						t.Fatal(err)
					}
				},
			} {
				before := routeOf(t, e, "a/b")
				change()
				if cold := routeOf(t, e, "a/b") != before; cold != c.cold {
					t.Errorf("cold %v, want %v", cold, c.cold)
				}
			}
		})
	}
}

// A route that was computed while the topology changed is not kept.
func TestRouteComputedBesideChange(t *testing.T) {
	e := New(quiet())
	stale := &route{stamp: e.gens.now("a")}
	q := core.Named("q")
	declare(t, e, q)
	bindTo(t, e, core.TopicExchange, "a", q, nil)
	e.topics.cache.put("a", stale)
	if r := routeOf(t, e, "a"); r == stale || len(r.targets) != 1 {
		t.Error("the route from before the binding is used")
	}
}

func TestQueueNameRoutesFollowQueues(t *testing.T) {
	e := New(quiet())
	m := &core.Message{Topic: topic(t, "q")}
	look := func() int {
		r, err := e.route(m)
		if err != nil {
			t.Fatal(err)
		}
		return len(r.targets)
	}
	if look() != 0 {
		t.Fatal("a route to no queue")
	}
	declare(t, e, core.Named("q"))
	if look() != 1 {
		t.Error("the new queue is not found")
	}
	if _, err := e.DeleteQueue(context.Background(), core.Named("q"), core.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if look() != 0 {
		t.Error("the deleted queue is found")
	}
}

// Distinct topics do not make the cache grow without bound.
// It shows fault 26.
func TestRouteCacheIsBounded(t *testing.T) {
	e := New(quiet())
	none := &route{}
	for i := range 16*maxShard + 20_000 {
		e.topics.cache.put(fmt.Sprint("t/", i), none)
	}
	for i := range e.topics.cache.shards {
		s := &e.topics.cache.shards[i]
		if len(s.m) > maxShard {
			t.Errorf("shard %d has %d routes, bound %d", i, len(s.m), maxShard)
		}
		if s.cost != len(s.m) {
			t.Errorf("shard %d: cost %d of %d empty routes", i, s.cost, len(s.m))
		}
	}
	routeOf(t, e, strings.Repeat("x", maxCached+1))
	if e.topics.cache.get(strings.Repeat("x", maxCached+1)) != nil {
		t.Error("a very long topic is cached")
	}
}

// Routes to many queues count for more, and one that is too large is not kept.
// It shows fault 26.
func TestRouteCacheIsBoundedInTargets(t *testing.T) {
	c := &exchange{}
	c.cache.seed = New(quiet()).topics.cache.seed
	wide := func(n int) *route { return &route{targets: make([]*target, n)} }
	for i := range 1000 {
		c.cache.put(fmt.Sprint(i), wide(10_000))
	}
	for i := range c.cache.shards {
		s := &c.cache.shards[i]
		sum := 0
		for _, r := range s.m {
			sum += r.cost()
		}
		if s.cost != sum || sum > maxCost {
			t.Errorf("shard %d: cost %d, really %d, bound %d", i, s.cost, sum, maxCost)
		}
		if len(s.m) < 10 {
			t.Errorf("shard %d keeps %d routes only", i, len(s.m))
		}
	}
	c.cache.put("same", wide(5))
	c.cache.put("same", wide(7))
	if r := c.cache.get("same"); len(r.targets) != 7 {
		t.Error("the newer route is not kept")
	}
	c.cache.put("huge", wide(maxCost))
	if c.cache.get("huge") != nil {
		t.Error("a route over the whole bound is kept")
	}
}

// Many queues, each reached by two bindings: one target each.
func TestCollectorJoins(t *testing.T) {
	for _, n := range []int{1, 5, collectScan, 100} {
		e := New(quiet())
		for i := range n {
			q := core.Named(fmt.Sprint(i))
			declare(t, e, q)
			bindTo(t, e, core.TopicExchange, "a/+", q, "plus")
			bindTo(t, e, core.TopicExchange, "a/#", q, "hash")
			bindTo(t, e, core.TopicExchange, "a/b", q, "b")
		}
		for range 2 { // shared targets do not change
			e.gens.all.Add(1)
			r := routeOf(t, e, "a/b")
			if len(r.targets) != n {
				t.Fatalf("%d targets for %d queues", len(r.targets), n)
			}
			for _, x := range r.targets {
				if len(x.matched) != 3 {
					t.Fatalf("matched %v of three bindings", x.matched)
				}
			}
		}
		if r := routeOf(t, e, "a/c"); len(r.targets) != n || len(r.targets[0].matched) != 2 {
			t.Fatalf("%d targets, the first matched %v", len(r.targets), r.targets[0].matched)
		}
	}
}

// Routes through one binding share its target, so that a wide route costs a
// pointer for each queue.
func TestTargetsAreShared(t *testing.T) {
	e := New(quiet())
	q := core.Named("q")
	declare(t, e, q)
	bindTo(t, e, core.TopicExchange, "a/#", q, 1)
	if routeOf(t, e, "a/1").targets[0] != routeOf(t, e, "a/2").targets[0] {
		t.Error("each topic has a target of its own")
	}
}

func TestHeaderRoutesAreNotCached(t *testing.T) {
	e := New(quiet())
	q := core.Named("q")
	declare(t, e, q)
	bindTo(t, e, "amq.headers", "", q, nil)
	m := &core.Message{Exchange: "amq.headers", Topic: topic(t, "a")}
	if _, err := e.route(m); err != nil {
		t.Fatal(err)
	}
	if e.exchanges["amq.headers"].cache.get("a") != nil {
		t.Error("a route that depends on headers is cached")
	}
}

// A route knows when one of its queues may refuse.
func TestRouteRefuses(t *testing.T) {
	e := New(quiet())
	declare(t, e, core.Named("drops"))
	refusing := core.QueueSpec{Key: core.Named("refuses"), Args: core.QueueArgs{Overflow: core.RejectPublish}}
	if _, err := e.DeclareQueue(context.Background(), refusing); err != nil {
		t.Fatal(err)
	}
	bindTo(t, e, core.TopicExchange, "a", core.Named("drops"), nil)
	if routeOf(t, e, "a").refuses {
		t.Error("refuses, but nothing does")
	}
	bindTo(t, e, core.TopicExchange, "a", refusing.Key, nil)
	if !routeOf(t, e, "a").refuses {
		t.Error("does not know that one refuses")
	}
}
