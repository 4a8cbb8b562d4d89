package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/core/auth"
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
	will    *pendingWill
	due     []*pendingWill        // to be published by unlock
	left    time.Time             // when the last connection ended
	user    string                // of the last connection
	groups  []string              // that it was in
	owner   atomic.Pointer[Owner] // of the last that was bound

	resumable bool
	restored  bool // bindings on disk are of who had it then
	onDisk    bool // a record of it is there
	late      bool // what is on disk is to be written when the wills in due are sent

	ownedLock sync.Mutex
	owned     map[QueueKey]struct{} // exclusive queues, some gone already
	ownedMost int                   // at which own looks which are gone

	present *Session // the connection that is there; under Broker.mu

	held map[QueueKey]struct{} // group queues; under groups.mu
}

type pendingWill struct {
	message *Message
	session *Session // whose rights it is published with
	delay   time.Duration
	timer   *time.Timer
}

// Connect opens a client's session. resumed tells that an older session was
// found and goes on. An older connection of the same name is fenced off before
// Connect returns: none of its verbs runs any more and its consumers are
// cancelled. Errors: ErrClosed when the broker stops; ErrFull for a new session
// that would go to a disk which is full or failed; ErrLimit for a user who has
// enough connections; ErrNotAllowed where there is a session of that name that
// another user began, which goes on as if nothing was, and, with ErrWill, for a
// will that may not be published.
func (b *Broker) Connect(_ context.Context, h Hello) (s *Session, resumed bool, err error) {
	if err := checkHello(h); err != nil {
		return nil, false, err
	}
	if !h.Resumable {
		h.Expiry = 0
	}
	if err := b.vouched(&h); err != nil {
		return nil, false, err
	}
	if err := (&Session{broker: b, hello: h}).allowWill(); err != nil {
		return nil, false, err
	}
	if err := b.join(&h); err != nil {
		return nil, false, fmt.Errorf("session %q: %w", h.ClientID, err)
	}
	return b.connect(h)
}

// connect is Connect for a client that was counted in.
func (b *Broker) connect(h Hello) (s *Session, resumed bool, err error) {
	p := b.protocol(h.Protocol)
	s = &Session{broker: b, hello: h, drops: &p.drops, unheard: p.unheard}
	for {
		r, err := b.record(h)
		if err != nil {
			b.part(h.Principal.User)
			return nil, false, err
		}
		resumed, ok, err := r.enter(s)
		if errors.Is(err, ErrNotAllowed) {
			b.refusedID(&h)
		}
		if err != nil {
			b.part(h.Principal.User)
			return nil, false, fmt.Errorf("session %q: %w", h.ClientID, err)
		}
		if !ok {
			continue
		}
		b.opened(s)
		if err := b.vouched(&h); err != nil { // the door changed meanwhile
			if !resumed {
				s.SetExpiry(0)
			}
			s.Close(CloseNormal)
			return nil, false, err
		}
		if resumed {
			b.takeOver(s)
		}
		if s.wrote {
			err = s.synced()
		}
		if err != nil {
			s.Close(CloseLost)
			return nil, false, err
		}
		return s, resumed, nil
	}
}

// checkHello holds that every protocol can carry who a client is: others see
// it as a message's origin.
func checkHello(h Hello) error {
	switch {
	case !plainText(h.Principal.ClientID):
		return invalid("client id is not UTF-8 without NUL and U+FFFF")
	case !plainText(h.Principal.User):
		return invalid("user name is not UTF-8 without NUL and U+FFFF")
	}
	return nil
}

// vouched is an error where the log-in is not, or no more, one by the door.
func (b *Broker) vouched(h *Hello) error {
	if b.Door().Vouches(front(h.Protocol), h.Principal) {
		return nil
	}
	return fmt.Errorf("session %q: %w any more", h.ClientID, ErrNotAllowed)
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
		r = &record{broker: b, name: name, resumable: true}
		b.sessions[name] = r
	}
	return r, nil
}

// unlock lets go of the record, then publishes the wills that became due: the
// policy and the receivers' outboxes are not called under mu.
func (r *record) unlock() {
	due, late := r.due, r.late
	r.due, r.late = nil, false
	r.mu.Unlock()
	for _, w := range due {
		w.publish()
	}
	if late {
		r.broker.rewrite(r.name)
	}
}

// enter makes s the record's connection; not ok when the record is gone.
func (r *record) enter(s *Session) (resumed, ok bool, err error) {
	r.mu.Lock()
	defer r.unlock()
	if r.gone {
		return false, false, nil
	}
	if r.foreign(s) {
		return false, false, fmt.Errorf("%w: it is another user's", ErrNotAllowed)
	}
	s.wrote = r.onDisk
	old, known := r.current, r.id != 0
	// A session that does not outlive its connection is none to resume.
	resumed = known && !s.hello.Clean && r.expiry != 0
	if err := r.broker.vault.room(); err != nil && !resumed && s.hello.Expiry != 0 {
		if !known {
			r.remove()
		}
		return false, false, err
	}
	r.epoch++
	stopTimer(&r.timer)
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
	if r.restored {
		r.owner.Store(r.restoredOwner(&s.hello.Principal))
		r.restored = false
	}
	r.user, r.groups = s.hello.Principal.User, s.hello.Principal.Groups
	r.keep()
	s.origin = &Origin{Protocol: s.hello.Protocol, ClientID: s.hello.ClientID,
		User: s.hello.Principal.User, Session: r.id}
	s.wrote = s.wrote || r.onDisk
	return resumed, true, nil
}

// restoredOwner is who bound what is there of the session from before a start,
// nil where that is the same as who comes now. With r.mu held.
func (r *record) restoredOwner(now *auth.Principal) *Owner {
	if r.user == now.User && slices.Equal(r.groups, now.Groups) {
		return nil
	}
	return &Owner{Session: r.id, Principal: auth.Principal{User: r.user, Groups: r.groups, ClientID: r.name.clientID}}
}

// foreign tells whether the client session was begun by another user than s's.
// One without a user, from before there were users, is whose asks first, as it
// always was; without a door there are no users, only names. With r.mu held.
func (r *record) foreign(s *Session) bool {
	return r.id != 0 && r.user != "" && r.user != s.hello.Principal.User && r.broker.Door() != nil
}

// kick fences an older connection off and keeps its will for settleWill.
func (r *record) kick(old *Session) {
	old.fence(false)
	r.broker.closed(old)
	if w := old.hello.Will; w != nil {
		r.will = &pendingWill{message: w.Message, session: old, delay: w.Delay}
		if w.Delay == 0 {
			r.willDue()
		}
	}
	if old.hello.Kick != nil {
		go old.hello.Kick(EndTakenOver)
	}
}

// settleWill: a will that waits is cancelled by a resume and due at once when
// its session ends [MQTT-3.1.3-9].
func (r *record) settleWill(resumed bool) {
	switch {
	case r.will == nil:
	case resumed:
		stopTimer(&r.will.timer)
		r.will = nil
	default:
		r.willDue()
	}
}

// willDue leaves the will to unlock.
func (r *record) willDue() {
	stopTimer(&r.will.timer)
	r.due = append(r.due, r.will)
	r.will = nil
}

// willsAtOnce is how many wills are published at a time: many clients may be lost
// at once, and what others publish is not to wait behind all of their wills.
const willsAtOnce = 4

// publish sends the will with the rights of the connection that left it.
func (w *pendingWill) publish() {
	s := w.session
	s.broker.wills <- struct{}{}
	defer func() { <-s.broker.wills }()
	as := &Session{broker: s.broker, rec: s.rec, hello: s.hello, origin: s.origin, drops: s.drops}
	as.renewed.Store(s.renewed.Load())
	if err := as.admit(w.message); err != nil {
		s.drops.Add(refusal(err), 1)
		return
	}
	s.broker.publishOwn(w.message, s.unheard.get(w.message.Retain))
}

// leave ends the hold of s; nothing happens, and false is returned, when s was
// taken over.
func (r *record) leave(s *Session, reason CloseReason) bool {
	r.mu.Lock()
	defer r.unlock()
	if r.current != s {
		return false
	}
	s.fence(reason == CloseShutdown)
	r.current = nil
	r.left = time.Now()
	r.epoch++
	if w := s.hello.Will; w != nil && reason != CloseNormal {
		r.will = &pendingWill{message: w.Message, session: s, delay: w.Delay}
		r.armWill(w.Delay)
	}
	if r.expiry == 0 {
		r.end()
		return true
	}
	if r.expiry > 0 && !r.broker.stopping() {
		r.armExpiry(r.expiry)
	}
	r.groups = s.Principal().Groups // they may be others by now
	r.keep()
	return true
}

// armExpiry ends the session after d, unless a connection comes.
func (r *record) armExpiry(d time.Duration) {
	epoch := r.epoch
	r.timer = time.AfterFunc(d, func() { r.expire(epoch) })
}

func (r *record) armWill(delay time.Duration) {
	if delay <= 0 || r.expiry == 0 {
		r.willDue()
		return
	}
	if r.broker.stopping() {
		return
	}
	epoch := r.epoch
	r.will.timer = time.AfterFunc(delay, func() {
		r.mu.Lock()
		defer r.unlock()
		if r.epoch == epoch && r.will != nil {
			r.willDue()
			r.keep()
		}
	})
}

func (r *record) expire(epoch uint64) {
	r.mu.Lock()
	defer r.unlock()
	if r.epoch == epoch && r.current == nil && !r.gone {
		r.end()
	}
}

// end finishes the client session: will, queues, name. Under r.mu.
func (r *record) end() {
	r.settleWill(false)
	r.clear()
	r.remove()
}

// remove takes the name out of the broker's map. Under r.mu.
func (r *record) remove() {
	r.gone = true
	b := r.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[r.name] == r {
		delete(b.sessions, r.name)
	}
}

// clear deletes what the session owns. Under r.mu, after the fence.
func (r *record) clear() {
	r.ownedLock.Lock()
	owned := r.owned
	r.owned, r.ownedMost = nil, 0
	r.ownedLock.Unlock()
	ctx := context.Background()
	for k := range owned {
		// Gone already, or another's by now, is as good.
		_, _ = r.broker.engine.DeleteQueue(ctx, k, DeleteOptions{IfOwned: true, By: r.id})
	}
	r.broker.given.removeAll(r)
	r.broker.groups.releaseAll(ctx, r)
	r.forget()
	if e, ok := r.state.(SessionEnded); ok {
		e.SessionEnded()
	}
	r.state = nil
}

// own notes an exclusive queue. Queues also go by themselves (auto-delete,
// x-expires), which nobody tells here, so what is gone is looked for whenever
// the number has doubled.
func (r *record) own(ctx context.Context, k QueueKey, by SessionID) {
	r.ownedLock.Lock()
	defer r.ownedLock.Unlock()
	if r.owned == nil {
		r.owned = map[QueueKey]struct{}{}
	}
	r.owned[k] = struct{}{}
	if len(r.owned) <= max(r.ownedMost, 64) {
		return
	}
	for k := range r.owned {
		_, err := r.broker.engine.DeclareQueue(ctx, QueueSpec{Key: k, Passive: true, By: by})
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrLocked) {
			delete(r.owned, k)
		}
	}
	r.ownedMost = 2 * len(r.owned)
}

// exclusive tells whether a queue is one of those, still.
func (r *record) exclusive(k QueueKey) bool {
	r.ownedLock.Lock()
	_, noted := r.owned[k]
	r.ownedLock.Unlock()
	if !noted {
		return false
	}
	look := func(by SessionID) error {
		_, err := r.broker.engine.DeclareQueue(context.Background(), QueueSpec{Key: k, Passive: true, By: by})
		return err
	}
	return look(r.id) == nil && errors.Is(look(^r.id), ErrLocked) // as any other session sees it
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
