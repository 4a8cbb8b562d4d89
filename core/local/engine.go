// Package local is the embedded engine: exchanges and queues of one realm in
// this process. Routing is routing.Router behind a cache of routes; every
// queue has a lock of its own, and one drainer at a time hands its messages to
// consumers, on the goroutine of the publisher that found it idle or of the
// consumer that resumed.
//
// Locks: Engine.mu (topology), then a queue's mu, never the other way round;
// no two queues' mu at once; none of them over Deliver, Done or a Flush.
package local

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// Engine implements core.Engine in memory.
type Engine struct {
	log   *slog.Logger
	start time.Time
	gens  generations

	plain    core.QueueArgs // of queues without arguments; never changed
	policies *core.Policies
	topics   *exchange // amq.topic
	byName   *exchange // the default exchange, which the router does not know

	unroutable   atomic.Uint64
	deadLettered atomic.Uint64

	delays *delays

	window windowSize
	aside  windowSize // what a queue sets aside at most
	tries  uint32     // after which one that was given back has to wait
	disk   *disk      // nil: nothing is kept over a restart

	guard atomic.Pointer[guard] // nil: all that is bound comes in

	mu        sync.RWMutex
	router    *routing.Router[*queue]
	exchanges map[string]*exchange
	queues    map[core.QueueKey]*queue
	bindings  int
	census    census
}

var _ core.Engine = (*Engine)(nil)

// New returns an engine with the standard exchanges.
func New(log *slog.Logger, options ...Option) *Engine {
	e := &Engine{
		log: log, start: time.Now().Add(-1),
		gens:      generations{seed: maphash.MakeSeed()},
		byName:    newExchange(core.ExchangeSpec{Name: core.DefaultExchange}),
		router:    routing.NewRouter[*queue](),
		exchanges: map[string]*exchange{},
		queues:    map[core.QueueKey]*queue{},
		window:    windowSize{count: wholeCount, bytes: wholeBytes},
		aside:     windowSize{count: asideCount, bytes: asideBytes},
		tries:     freeTries,
	}
	e.delays = &delays{engine: e, wall: time.Now}
	for _, o := range options {
		o(e)
	}
	for _, s := range standard() {
		if err := e.DeclareExchange(context.Background(), s); err != nil {
			panic("local: standard exchange: " + err.Error()) // a fault of this file
		}
	}
	e.topics = e.exchanges[core.TopicExchange]
	return e
}

// clock is the time since the engine started, on the monotonic clock; never 0.
func (e *Engine) clock() time.Duration { return time.Since(e.start) }

// Publish implements core.Engine.
func (e *Engine) Publish(b *core.Batch, m *core.Message, done core.Done) {
	if e.disk != nil {
		e.disk.room(b)
	}
	if isDelayed(m) {
		e.Apply(b, []core.Op{{Message: m}}, done)
		return
	}
	r, err := e.route(m)
	if err == nil && (r.refuses || e.disk != nil && m.Guarantee >= core.Durable) {
		e.publishKept(b, m, r, done)
		return
	}
	routed := false
	if err == nil {
		for _, t := range r.targets {
			t.queue.put(b, m, t)
		}
		if routed = len(r.targets) > 0; !routed {
			e.unroutable.Add(1)
		}
	}
	if done != nil {
		done(routed, err)
	}
}

// publishKept is for messages that a queue may refuse or keeps on disk.
func (e *Engine) publishKept(b *core.Batch, m *core.Message, r *route, done core.Done) {
	if len(r.targets) == 1 && !r.refuses && r.targets[0].queue.keeps(m, r.targets[0]) {
		if err := e.disk.ready(); err != nil {
			finish(done, false, err)
			return
		}
		r.targets[0].queue.putStored(b, m, r.targets[0], done)
		return
	}
	e.Apply(b, []core.Op{{Message: m}}, done)
}

// find returns a queue that the session may touch.
func (e *Engine) find(k core.QueueKey, by core.SessionID) (*queue, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.findLocked(k, by)
}

func (e *Engine) findLocked(k core.QueueKey, by core.SessionID) (*queue, error) {
	q := e.queues[k]
	if q == nil {
		return nil, fmt.Errorf("%v: %w", k, core.ErrNotFound)
	}
	return q, q.owner(by)
}

// DeclareQueue implements core.Engine.
func (e *Engine) DeclareQueue(_ context.Context, s core.QueueSpec) (core.QueueInfo, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.findLocked(s.Key, s.By)
	if q != nil {
		if err == nil && !s.Passive {
			if d := q.differs(&s); d != nil {
				err = fmt.Errorf("%v: %w", s.Key, d)
			}
		}
		if err != nil {
			return core.QueueInfo{}, err
		}
		if s.Durable && !s.Passive && !q.durable.Swap(true) {
			e.disk.harden(q)
		}
		q.adopt(s.Drops)
		q.used()
		return q.info(), nil
	}
	if s.Passive {
		return core.QueueInfo{}, err
	}
	if err := errors.Join(supported(s.Key, s.Args), s.Args.DeadLetter.Validate()); err != nil {
		return core.QueueInfo{}, fmt.Errorf("%v: %w", s.Key, err)
	}
	if err := e.census.roomForQueue(&s); err != nil {
		return core.QueueInfo{}, fmt.Errorf("%v: %w", s.Key, err)
	}
	q = newQueue(e, s)
	e.census.count(q, 1)
	e.disk.addQueue(q)
	e.queues[s.Key] = q
	e.named(s.Key)
	q.used()
	return core.QueueInfo{Key: s.Key, Policy: q.policy()}, nil
}

// named forgets the default exchange's route to a queue that came or went.
func (e *Engine) named(k core.QueueKey) {
	if k.Kind != core.NamedQueue {
		return
	}
	if a, err := core.QueueAddress(k.Name); err == nil {
		e.gens.slot(a.Topic.First()).Add(1)
	}
}

// supported refuses what this engine cannot do, by name.
func supported(k core.QueueKey, a core.QueueArgs) error {
	for _, x := range []struct {
		name string
		set  bool
	}{
		{"x-max-priority on a session's queue", a.MaxPriority > 0 && k.Kind == core.SessionQueue},
		{"x-max-priority with x-last-value-key", a.MaxPriority > 0 && a.LastValueKey != ""},
	} {
		if x.set {
			return fmt.Errorf("argument %s: %w", x.name, core.ErrUnsupported)
		}
	}
	return nil
}

// DeleteQueue implements core.Engine.
func (e *Engine) DeleteQueue(_ context.Context, k core.QueueKey, o core.DeleteOptions) (int, error) {
	q, err := e.find(k, o.By)
	if err != nil {
		return 0, err
	}
	if o.IfOwned && (!q.exclusive || q.by != o.By) {
		return 0, fmt.Errorf("%v: %w", k, core.ErrLocked)
	}
	return e.remove(q, closing{DeleteOptions: o})
}

// remove takes a queue out of the topology, then ends it.
func (e *Engine) remove(q *queue, o closing) (int, error) {
	e.mu.Lock()
	if e.queues[q.key] != q {
		e.mu.Unlock()
		return 0, fmt.Errorf("%v: %w", q.key, core.ErrNotFound)
	}
	if err := q.close(o); err != nil {
		e.mu.Unlock()
		return 0, err
	}
	delete(e.queues, q.key)
	e.census.count(q, -1)
	gone := e.router.RemoveQueue(q)
	for _, rb := range gone {
		e.bindings--
		if kind, ok := e.router.Kind(rb.Source); ok {
			e.gens.change(kind, rb.Filter)
			e.unused(rb.Source)
		}
	}
	e.named(q.key)
	e.disk.dropQueue(q, gone)
	e.mu.Unlock()
	return q.end(), nil
}

// PurgeQueue implements core.Engine.
func (e *Engine) PurgeQueue(_ context.Context, k core.QueueKey, by core.SessionID) (int, error) {
	q, err := e.find(k, by)
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.unlock()
	return q.purge(), nil
}

// Replay implements core.Engine.
func (e *Engine) Replay(_ context.Context, s core.BindSpec, src core.Source) error {
	q, err := e.find(s.Queue, s.By)
	if err != nil {
		return err
	}
	q.replay(&s, src)
	return nil
}

// EachQueue implements core.Lister.
func (e *Engine) EachQueue(f func(core.QueueKey, core.SessionID)) {
	e.mu.RLock()
	owners := make(map[core.QueueKey]core.SessionID, len(e.queues))
	for k, q := range e.queues {
		owners[k] = 0
		if q.exclusive {
			owners[k] = q.by
		}
	}
	e.mu.RUnlock()
	for k, owner := range owners {
		f(k, owner)
	}
}

// Stats implements core.Engine.
func (e *Engine) Stats() core.EngineStats {
	e.mu.RLock()
	st := core.EngineStats{Exchanges: len(e.exchanges) + 1, Queues: len(e.queues), Bindings: e.bindings,
		Unroutable: e.unroutable.Load(), DeadLettered: e.deadLettered.Load(),
		Delayed: e.delays.size()}
	all := make([]*queue, 0, len(e.queues))
	for _, q := range e.queues {
		all = append(all, q)
	}
	e.mu.RUnlock()
	for _, q := range all {
		i := q.info()
		st.Ready += i.Messages
		st.Unsettled += i.Unsettled
		st.Bytes += i.Bytes
		st.Consumers += i.Consumers
		st.DeadLetters += i.DeadLetters
	}
	return st
}
