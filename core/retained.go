package core

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"entrepot/routing"
)

// retainedStore keeps the last value of each topic. Its lock orders storing
// with routing: a retained publish holds it shared from the store to the end
// of routing, a Bind that replays holds it alone, so that for each topic a
// subscriber gets either the stored value or the live one, and never an older
// after a newer.
type retainedStore struct {
	order   sync.RWMutex
	stripes [64]sync.Mutex // by topic: two publishers of one topic route in the order they store
	seed    maphash.Seed

	// expired, where set, is told of topics whose value's time is over.
	expired func(routing.Topic)

	mu       sync.RWMutex // the tree and the sums; innermost
	tree     routing.Tree[*retainedValue]
	ages     retainedAges
	version  uint64
	bytes    int64
	maxCount int
	maxBytes int64
}

type retainedValue struct {
	msg     *Message
	version uint64
	timer   *time.Timer
}

func newRetainedStore(maxCount int, maxBytes int64) *retainedStore {
	return &retainedStore{seed: maphash.MakeSeed(), maxCount: maxCount, maxBytes: maxBytes}
}

// publish stores m and then routes it, as one step towards binds.
func (r *retainedStore) publish(m *Message, route func()) error {
	r.order.RLock()
	defer r.order.RUnlock()
	var err error
	r.hold(m.Topic, func() {
		if err = r.set(m); err == nil {
			route()
		}
	})
	return err
}

// hold calls f while nobody publishes to a topic.
func (r *retainedStore) hold(t routing.Topic, f func()) {
	s := &r.stripes[maphash.String(r.seed, t.String())%uint64(len(r.stripes))]
	s.Lock()
	defer s.Unlock()
	f()
}

// messages lists all values.
func (r *retainedStore) messages() []*Message {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*Message, 0, r.tree.Len())
	r.tree.All(func(_ routing.Topic, v *retainedValue) bool {
		all = append(all, v.msg)
		return true
	})
	return all
}

// set stores or, with an empty payload, clears.
func (r *retainedStore) set(m *Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, had := r.tree.Get(m.Topic)
	if len(m.Payload) == 0 {
		if had {
			r.removeLocked(m.Topic, old)
		}
		return nil
	}
	bytes, count := r.bytes+int64(len(m.Payload)), r.tree.Len()+1
	if had {
		bytes, count = bytes-int64(len(old.msg.Payload)), count-1
	}
	if bytes > r.maxBytes || count > r.maxCount {
		return fmt.Errorf("retained messages: %w", ErrFull)
	}
	if had {
		old.stop()
		r.ages.remove(old)
	}
	r.version++
	v := &retainedValue{msg: m, version: r.version}
	if m.Props != nil && m.Props.HasTTL {
		v.timer = time.AfterFunc(m.Props.TTL, func() { r.expire(m.Topic, v) })
	}
	r.tree.Set(m.Topic, v)
	r.ages.add(v)
	r.bytes = bytes
	return nil
}

func (v *retainedValue) stop() {
	if v.timer != nil {
		v.timer.Stop()
	}
}

func (r *retainedStore) removeLocked(t routing.Topic, v *retainedValue) {
	v.stop()
	r.tree.Delete(t)
	r.ages.remove(v)
	r.bytes -= int64(len(v.msg.Payload))
}

func (r *retainedStore) expire(t routing.Topic, v *retainedValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, ok := r.tree.Get(t); ok && now == v {
		r.removeLocked(t, v)
		if r.expired != nil {
			r.expired(t)
		}
	}
}

func (r *retainedStore) size() (int, int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Len(), r.bytes
}

// get is the topic's value; nil when there is none.
func (r *retainedStore) get(t routing.Topic) *retainedValue {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v, _ := r.tree.Get(t)
	return v
}

// mark is the place in the order of retained publishes that a snapshot has.
// With order held.
func (r *retainedStore) mark() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.version
}

// source yields the values that match and are no newer than mark, each when it
// is asked for; one that a newer replaced meanwhile, which the binding brought
// in, is left out. So it need not be made under order. What it keeps until its
// end does not grow with what it found: few topics are listed, many are met on
// the way through all values by age.
func (r *retainedStore) source(f routing.Filter, mark uint64) (src Source, found int) {
	var topics []routing.Topic
	var span span
	r.mu.RLock()
	few := max(listedTopics, r.tree.Len()/listedShare)
	r.tree.Match(f, func(t routing.Topic, v *retainedValue) bool {
		if v.version > mark {
			return true
		}
		if found++; found <= few {
			topics = append(topics, t)
		}
		span.take(v.version)
		return true
	})
	r.mu.RUnlock()
	if found > few {
		return r.byAge(f, span), found
	}
	return r.byTopic(topics, mark), found
}

// A source lists so many topics at most, or that share of all where it is more:
// to meet fewer matches by age would take long for each.
const (
	listedTopics = 256
	listedShare  = 64
)

// span is from the oldest version to the newest.
type span struct{ first, last uint64 }

func (s *span) take(version uint64) {
	if s.first == 0 || version < s.first {
		s.first = version
	}
	s.last = max(s.last, version)
}

func (r *retainedStore) byTopic(topics []routing.Topic, mark uint64) Source {
	return func() (*Message, bool) {
		for len(topics) > 0 {
			t := topics[0]
			topics = topics[1:]
			if v := r.get(t); v != nil && v.version <= mark && !v.msg.Expired(time.Now()) {
				return v.msg, true
			}
		}
		return nil, false
	}
}

// byAge goes through all values of a span.
func (r *retainedStore) byAge(f routing.Filter, left span) Source {
	return func() (*Message, bool) {
		for left.first <= left.last {
			if m := r.nextByAge(f, &left); m != nil {
				return m, true
			}
		}
		return nil, false
	}
}

// agedAtOnce bounds how many values are looked at while publishers wait.
const agedAtOnce = 1024

// nextByAge is the next value that matches, nil when there was none among the
// next few.
func (r *retainedStore) nextByAge(f routing.Filter, left *span) (m *Message) {
	now, seen := time.Now(), 0
	through := true // unless visiting is broken off
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.ages.each(left.first, left.last, func(v *retainedValue) bool {
		left.first = v.version + 1
		if f.Match(v.msg.Topic) && !v.msg.Expired(now) {
			m = v.msg
		}
		seen++
		through = m == nil && seen < agedAtOnce
		return through
	})
	if through {
		left.first = left.last + 1
	}
	return m
}

// stopTimers lets nothing expire any more.
func (r *retainedStore) stopTimers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tree.All(func(_ routing.Topic, v *retainedValue) bool {
		v.stop()
		return true
	})
}

// bind makes a binding and returns what it asks to be replayed, nil for
// nothing, and how many retained messages it found.
func (b *Broker) bind(ctx context.Context, s BindSpec) (Source, int, error) {
	if s.Replay == ReplayNever || s.Source != TopicExchange || s.Exchange != "" {
		_, err := b.engine.Bind(ctx, s)
		return nil, 0, err
	}
	added, mark, err := b.bindMarked(ctx, s)
	if err != nil || !added && s.Replay != ReplayAlways {
		return nil, 0, err
	}
	src, found := b.retained.source(s.Filter, mark)
	if found == 0 {
		return nil, 0, nil
	}
	return b.permitted(src, s.Owner), found, nil
}

// bindMarked binds at one place in the order of retained publishes.
func (b *Broker) bindMarked(ctx context.Context, s BindSpec) (added bool, mark uint64, err error) {
	b.retained.order.Lock()
	defer b.retained.order.Unlock()
	added, err = b.engine.Bind(ctx, s)
	return added, b.retained.mark(), err
}

// Retained returns the last value of a topic, nil when it has none. Rights:
// subscribe.
func (s *Session) Retained(t routing.Topic) (*Message, error) {
	if err := s.allowFilter(t.Filter()); err != nil {
		return nil, err
	}
	v := s.broker.retained.get(t)
	if v == nil || v.msg.Expired(time.Now()) {
		return nil, nil
	}
	return v.msg, nil
}

// EachRetained calls f with the last values of topics that match, in no order,
// until it returns false; those that the session may not read are left out. f
// is called without locks, and values that come or go meanwhile may be missed.
func (s *Session) EachRetained(filter routing.Filter, f func(*Message) bool) {
	s.broker.retained.order.RLock()
	mark := s.broker.retained.mark()
	s.broker.retained.order.RUnlock()
	next, _ := s.broker.retained.source(filter, mark)
	for m, ok := next(); ok; m, ok = next() {
		if s.allowFilter(m.Topic.Filter()) == nil && !f(m) {
			return
		}
	}
}
