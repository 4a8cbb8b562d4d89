package core

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sessionName is what a resumable session is found by.
type sessionName struct{ protocol, clientID string }

// record is a client session, which may outlive its connections. Its mutex is
// held over a whole take-over or leave, so that a newcomer never meets
// half-cleaned remains; current is the fence: only the connection that it
// names may change the record.
type record struct {
	broker *Broker
	name   sessionName

	mu      sync.Mutex
	id      SessionID
	current *Session
	gone    bool // removed from the broker's map; look again
	state   any
	expiry  time.Duration
	timer   *time.Timer // expiry, while no connection is there
	epoch   uint64      // counts connections; a timer of an older one does nothing

	will      *pendingWill
	owned     map[QueueKey]struct{}
	ownedLock sync.Mutex
	held      map[QueueKey]struct{} // group queues; under groups.mu
}

type pendingWill struct {
	message *Message
	session *Session // whose rights it is published with
	timer   *time.Timer
}

// Connect opens a client's session. resumed tells that an older session was
// found and goes on. An older connection of the same name is fenced off before
// Connect returns. Errors: ErrClosed when the broker stops.
func (b *Broker) Connect(_ context.Context, h Hello) (s *Session, resumed bool, err error) {
	s = &Session{broker: b, hello: h, drops: b.Drops(h.Protocol)}
	for {
		r, err := b.record(h)
		if err != nil {
			return nil, false, err
		}
		if resumed, ok := r.enter(s); ok {
			b.opened(s)
			return s, resumed, nil
		}
	}
}

// record finds or makes the record for a newcomer.
func (b *Broker) record(h Hello) (*record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return nil, fmt.Errorf("broker: %w", ErrClosed)
	}
	name := sessionName{h.Protocol, h.ClientID}
	if !h.Resumable {
		return &record{broker: b, name: name}, nil
	}
	r := b.sessions[name]
	if r == nil {
		r = &record{broker: b, name: name}
		b.sessions[name] = r
	}
	return r, nil
}

// enter makes s the record's connection; false when the record is gone.
func (r *record) enter(s *Session) (resumed, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return false, false
	}
	r.epoch++
	stopTimer(&r.timer)
	old, known := r.current, r.id != 0
	resumed = known && !s.hello.Clean
	r.current = s
	s.rec = r
	if old != nil {
		r.kick(old)
	}
	r.settleWill(resumed)
	if known && !resumed {
		r.clear()
	}
	if !resumed {
		r.id = SessionID(r.broker.lastID.Add(1))
		r.state = nil
	}
	r.expiry = s.hello.Expiry
	s.origin = &Origin{Protocol: s.hello.Protocol, ClientID: s.hello.ClientID,
		User: s.hello.Principal.User, Session: r.id}
	return resumed, true
}

// kick fences an older connection off and keeps its will for settleWill.
func (r *record) kick(old *Session) {
	old.fence()
	r.broker.closed(old)
	if w := old.hello.Will; w != nil {
		r.will = &pendingWill{message: w.Message, session: old}
		if w.Delay == 0 {
			r.publishWill()
		}
	}
	if old.hello.Kick != nil {
		go old.hello.Kick()
	}
}

// settleWill: a will that waits is cancelled by a resume and due at once when
// its session ends [MQTT-3.1.3-9].
func (r *record) settleWill(resumed bool) {
	if r.will == nil {
		return
	}
	if resumed {
		stopTimer(&r.will.timer)
		r.will = nil
		return
	}
	r.publishWill()
}

// publishWill publishes with the rights of the connection that left it.
func (r *record) publishWill() {
	w := r.will
	r.will = nil
	stopTimer(&w.timer)
	m := w.message
	if err := w.session.admitWill(m); err != nil {
		w.session.drops.Add(DropNotAllowed, 1)
		return
	}
	r.broker.PublishOwn(m)
}

// admitWill checks a will as its publisher's message, though the connection is
// closed by now.
func (s *Session) admitWill(m *Message) error {
	as := &Session{broker: s.broker, rec: s.rec, hello: s.hello, origin: s.origin, drops: s.drops}
	return as.admit(m)
}

// leave ends the hold of s; nothing happens when s was taken over.
func (r *record) leave(s *Session, reason CloseReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != s {
		return
	}
	s.fence()
	r.current = nil
	r.epoch++
	if w := s.hello.Will; w != nil && reason != CloseNormal {
		r.will = &pendingWill{message: w.Message, session: s}
		r.armWill(w.Delay)
	}
	switch {
	case r.expiry == 0:
		r.end()
	case r.expiry > 0:
		epoch := r.epoch
		r.timer = time.AfterFunc(r.expiry, func() { r.expire(epoch) })
	}
}

func (r *record) armWill(delay time.Duration) {
	if delay == 0 || r.expiry == 0 {
		r.publishWill()
		return
	}
	epoch := r.epoch
	r.will.timer = time.AfterFunc(delay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.epoch == epoch && r.will != nil {
			r.publishWill()
		}
	})
}

func (r *record) expire(epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch == epoch && r.current == nil && !r.gone {
		r.end()
	}
}

// end finishes the client session: will, queues, name. Under r.mu.
func (r *record) end() {
	r.settleWill(false)
	r.clear()
	r.gone = true
	b := r.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[r.name] == r {
		delete(b.sessions, r.name)
	}
}

// clear deletes what the session owns. Under r.mu.
func (r *record) clear() {
	r.ownedLock.Lock()
	owned := r.owned
	r.owned = nil
	r.ownedLock.Unlock()
	ctx := context.Background()
	for k := range owned {
		// Gone already is as good.
		_, _ = r.broker.engine.DeleteQueue(ctx, k, DeleteOptions{By: r.id})
	}
	r.broker.groups.releaseAll(ctx, r)
	r.state = nil
}

func (r *record) own(k QueueKey) {
	r.ownedLock.Lock()
	defer r.ownedLock.Unlock()
	if r.owned == nil {
		r.owned = map[QueueKey]struct{}{}
	}
	r.owned[k] = struct{}{}
}

func (r *record) disown(k QueueKey) {
	r.ownedLock.Lock()
	defer r.ownedLock.Unlock()
	delete(r.owned, k)
}

func (r *record) stopTimers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	stopTimer(&r.timer)
	if r.will != nil {
		stopTimer(&r.will.timer)
	}
}

func stopTimer(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}
