package coap

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/routing"
)

// value is the newest value of a topic; a nil message says that the resource is
// gone.
type value struct {
	version uint64
	topic   routing.Topic
	msg     *core.Message
	gone    codes.Code // what is said instead of a nil message
}

// watch is one queue and consumer of the core with all observers of a filter
// that act by the same session. It keeps the newest value of each topic until
// every observer has it. A filter that is more than one topic is replayed, so
// its watch has one observer.
type watch struct {
	server   *Server
	session  *core.Session
	filter   routing.Filter
	topic    routing.Topic // zero for a filter
	consumer core.Consumer

	made chan struct{} // closed when consumer or err is set
	err  error
	refs int // under server.watching
	key  core.QueueKey

	mu        sync.Mutex
	version   uint64
	log       []value // by version; some have a newer one behind them
	newest    map[routing.Topic]uint64
	observers []*observer
	most      int // observers, where limited
	limited   bool
	queued    bool // waits to be spread
	full      bool
	over      bool          // the resource is gone: nothing comes any more
	kept      *core.Message // the newest of a topic, for later blocks
}

type watchKey struct {
	session *core.Session
	topic   routing.Topic
}

// join takes hold of the watch of a filter, which may have to be made.
func (s *Server) join(session *core.Session, f routing.Filter) (*watch, error) {
	t, literal := f.Topic()
	key := watchKey{session, t}
	s.watching.Lock()
	w := s.watches[key]
	if w == nil || !literal {
		w = &watch{server: s, session: session, filter: f, topic: t, made: make(chan struct{}),
			newest: map[routing.Topic]uint64{}}
		if literal {
			s.watches[key] = w
		}
		w.refs = 1
		s.watching.Unlock()
		if c := s.shelf.find(t); c != nil {
			w.most, w.limited = c.most, c.hasMost
		}
		w.err = w.open()
		close(w.made)
	} else {
		w.refs++
		s.watching.Unlock()
		<-w.made
	}
	if w.err != nil {
		s.release(w)
		return nil, w.err
	}
	return w, nil
}

// open makes the queue and begins to take from it.
func (w *watch) open() error {
	ctx, s := context.Background(), w.server
	n := s.queues.Add(1)
	key := core.Key(core.TopicQueue, protocol, strconv.FormatUint(n, 10))
	s.watching.Lock()
	w.key, s.queued[key] = key, w
	s.watching.Unlock()
	_, err := w.session.DeclareQueue(ctx, core.QueueSpec{Key: key, AutoDelete: true,
		Args: core.QueueArgs{MaxLength: s.cfg.FilterTopics, HasMaxLength: true}})
	if err != nil {
		return fmt.Errorf("observation: %w", err)
	}
	w.consumer, err = w.session.Consume(ctx, key, core.ConsumeOptions{NoAck: true}, w)
	if err != nil {
		_, _ = w.session.DeleteQueue(ctx, key, core.DeleteOptions{}) // nobody uses it
		return fmt.Errorf("observation: %w", err)
	}
	replay := core.ReplayNever
	if w.topic.IsZero() {
		replay = core.ReplayAlways
	}
	err = w.session.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: w.filter,
		AtMostOnce: true, Replay: replay})
	if err != nil {
		w.consumer.Cancel(core.Return)
		w.consumer = nil
	}
	return err
}

// release gives up a hold; the last one ends the watch. It may block.
func (s *Server) release(w *watch) {
	s.watching.Lock()
	w.refs--
	last := w.refs == 0
	if last && s.watches[watchKey{w.session, w.topic}] == w {
		delete(s.watches, watchKey{w.session, w.topic})
	}
	if last {
		delete(s.queued, w.key)
	}
	s.watching.Unlock()
	if last && w.consumer != nil {
		w.consumer.Cancel(core.Return)
	}
}

// Deliver implements core.Receiver.
func (w *watch) Deliver(d core.Delivery) core.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return core.Settled
	}
	if len(w.newest) >= w.server.cfg.FilterTopics {
		if _, known := w.newest[d.Topic]; !known {
			w.full = true
			return core.Full
		}
	}
	m := d.Message
	if w.server.endsWhenCleared(w.topic, m) {
		m = nil
	}
	w.put(d.Topic, m)
	if !w.queued {
		w.queued = true
		d.Batch.Add(w)
	}
	return core.Settled
}

// put makes m the topic's newest value. With mu held.
func (w *watch) put(t routing.Topic, m *core.Message) {
	w.version = max(w.version+1, w.server.clock())
	w.log = append(w.log, value{version: w.version, topic: t, msg: m, gone: codes.NotFound})
	w.newest[t] = w.version
	if !w.topic.IsZero() {
		w.kept = m
	}
	if len(w.log) > 2*len(w.newest)+16 {
		w.compact()
	}
}

// seed notes what the first answer of an observation held, which is what there is
// to say again when nothing new comes.
func (w *watch) seed(m *core.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.log) > 0 || w.topic.IsZero() {
		return
	}
	if m == nil {
		m = &core.Message{Topic: w.topic}
	}
	w.log = append(w.log, value{version: w.version, topic: w.topic, msg: m})
	w.newest[w.topic], w.kept = w.version, m
}

// again makes the newest value new to an observer.
func (w *watch) again(o *observer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.log); n > 0 {
		o.cursor.Store(w.log[n-1].version - 1)
	}
}

// keeps is the newest value of a topic, for blocks behind the first.
func (w *watch) keeps() *core.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept
}

// compact drops the values that have a newer one. With mu held.
func (w *watch) compact() {
	kept := w.log[:0]
	for _, v := range w.log {
		if w.newest[v.topic] == v.version {
			kept = append(kept, v)
		}
	}
	clear(w.log[len(kept):])
	w.log = kept
}

// end says to all observers that it is over, and why; who comes later gets
// another watch.
func (w *watch) end(why codes.Code) {
	w.server.watching.Lock()
	if key := (watchKey{w.session, w.topic}); w.server.watches[key] == w {
		delete(w.server.watches, key)
	}
	w.server.watching.Unlock()
	w.mu.Lock()
	w.put(w.topic, nil)
	w.log[len(w.log)-1].gone = why
	w.over = true
	spread := !w.queued
	w.queued = true
	w.mu.Unlock()
	if spread {
		w.Flush()
	}
}

// Flush implements core.Flusher.
func (w *watch) Flush() { w.server.fan.add(w) }

// next is the oldest of the newest values that came after a version.
func (w *watch) next(after uint64) (value, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nextLocked(after)
}

func (w *watch) nextLocked(after uint64) (value, bool) {
	i := sort.Search(len(w.log), func(i int) bool { return w.log[i].version > after })
	for ; i < len(w.log); i++ {
		if v := w.log[i]; w.newest[v.topic] == v.version {
			return v, true
		}
	}
	return value{}, false
}

// more tells whether there is anything after a version.
func (w *watch) more(after uint64) bool {
	_, ok := w.next(after)
	return ok
}

// enter adds an observer, who gets what comes from now on, or for a filter what
// is replayed too; false when there are too many.
func (w *watch) enter(o *observer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server.observers.Add(1) > int64(w.server.cfg.MaxObservers) || !w.server.subscribers.add(w.topic, w.most, w.limited) {
		w.server.observers.Add(-1)
		o.place = -1
		return false
	}
	if w.version == 0 {
		w.version = w.server.clock()
	}
	if !w.topic.IsZero() {
		o.cursor.Store(w.version)
	}
	o.place = len(w.observers)
	w.observers = append(w.observers, o)
	return true
}

// leave takes an observer out and gives up its hold, elsewhere since that may
// block.
func (w *watch) leave(o *observer) {
	w.mu.Lock()
	if o.place >= 0 && o.place < len(w.observers) && w.observers[o.place] == o {
		last := len(w.observers) - 1
		w.observers[o.place] = w.observers[last]
		w.observers[o.place].place = o.place
		w.observers[last] = nil
		w.observers = w.observers[:last]
		w.server.observers.Add(-1)
		w.server.subscribers.remove(w.topic)
	}
	o.place = -1
	w.mu.Unlock()
	w.server.aside(func() { w.server.release(w) })
}

// limit sets how many observers there may be, and how many of them here; those
// that are too many, the youngest, are told that it is over. It returns how many
// are left.
func (w *watch) limit(most int, limited bool, here int) (left int) {
	w.mu.Lock()
	w.most, w.limited = most, limited
	var over []*observer
	if left = len(w.observers); limited && left > here {
		over = append(over, w.observers[here:]...)
		left = here
	}
	w.mu.Unlock()
	for _, o := range over {
		o.peer.dismiss(o)
	}
	return left
}

// dismiss sends an observer a last 4.04.
func (p *peer) dismiss(o *observer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.gone {
		return
	}
	res := ended()
	o.remove()
	p.enqueue(&outgoingPacket{code: res.code, token: o.token, options: res.options, payload: res.payload}, nil)
	p.rest()
}

// spread tells the observers that there is something new, and forgets what all
// have.
func (w *watch) spread(scratch []*observer) []*observer {
	w.mu.Lock()
	w.queued = false
	scratch = append(scratch[:0], w.observers...)
	w.mu.Unlock()
	now := time.Now()
	for _, o := range scratch {
		o.peer.mark(o, now)
	}
	w.prune()
	clear(scratch)
	return scratch
}

// prune forgets what every observer has, and takes more when there is room
// again.
func (w *watch) prune() {
	w.mu.Lock()
	full := w.full
	if len(w.log) > 64 || full {
		w.pruneLocked()
	}
	room := full && len(w.newest) <= w.server.cfg.FilterTopics/2
	if room {
		w.full = false
	}
	w.mu.Unlock()
	if room && w.consumer != nil {
		w.consumer.Resume(nil)
	}
}

// pruneLocked reads cursors without their peers' locks: one that moves meanwhile
// only grows.
func (w *watch) pruneLocked() {
	least := w.version
	for _, o := range w.observers {
		least = min(least, o.cursor.Load())
	}
	n := sort.Search(len(w.log), func(i int) bool { return w.log[i].version > least })
	for _, v := range w.log[:n] {
		if w.newest[v.topic] == v.version {
			delete(w.newest, v.topic)
		}
	}
	w.log = append(w.log[:0:0], w.log[n:]...)
}

// fan spreads watches, one after the other, by a goroutine that is there while
// there is something to do.
type fan struct {
	mu      sync.Mutex
	list    []*watch
	running bool
	wg      sync.WaitGroup
}

func (f *fan) add(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, w)
	if !f.running {
		f.running = true
		f.wg.Go(f.run)
	}
}

func (f *fan) run() {
	var scratch []*observer
	var list []*watch
	for {
		f.mu.Lock()
		clear(list)
		list, f.list = f.list, list[:0]
		f.running = len(list) > 0
		f.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, w := range list {
			scratch = w.spread(scratch)
		}
	}
}
