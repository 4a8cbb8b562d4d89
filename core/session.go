package core

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/core/auth"
)

// Forever is a session expiry that never comes.
const Forever time.Duration = -1

// Hello is what a client brings when it connects.
type Hello struct {
	Protocol  string
	Principal auth.Principal
	ClientID  string
	Remote    string
	// Resumable sessions are found again by protocol and client id; a second
	// connection of the same name takes the session over. Others end with
	// their connection.
	Resumable bool
	// Clean ends an older session of that name and begins a new one.
	Clean bool
	// Expiry is how long a resumable session outlives its connection: 0 not at
	// all, so that a take-over finds nothing to resume; negative, for ever.
	Expiry time.Duration
	Will   *Will
	// Kick is called once, from another goroutine, when the broker ended the
	// session's connection; all verbs then return ErrClosed. It must not block.
	// It may come before Connect returns.
	Kick func(EndReason)
	// Withdrawn is called, from another goroutine and for one thing after the
	// other, when rules that changed have ended something that the session had,
	// so that the adapter tells the client. It must not block. Without it Kick
	// is called with EndRefused.
	Withdrawn func(Withdrawal)
}

// EndReason says why the broker ended a connection. Its text may be told to the
// client.
type EndReason uint8

const (
	EndTakenOver EndReason = iota // another connection took the session over
	EndExpired                    // what the client had proved is over
	EndRefused                    // the client may not be here any more
	EndAdmin                      // somebody ended it
)

// String is a sentence for the client.
func (e EndReason) String() string {
	return [...]string{"another connection took the session over", "the credentials have expired",
		"access was withdrawn", "the session was ended by an administrator"}[e]
}

// Will is published when a connection is lost.
type Will struct {
	Message *Message
	Delay   time.Duration
}

// CloseReason says how a connection ended.
type CloseReason uint8

const (
	CloseNormal   CloseReason = iota // the client said good-bye: no will
	CloseWithWill                    // it said good-bye and asked for the will
	CloseLost                        // the network, a time-out, a protocol error
	CloseShutdown                    // the broker stops: will, as the connection is lost
)

// Session is one client connection's hold on the broker. Rights and owners are
// checked at every verb. Methods may be called from any goroutine, but not from
// a Receiver; after Close or a take-over they return ErrClosed.
type Session struct {
	// Traffic counts this connection's messages.
	Traffic Traffic

	broker  *Broker
	rec     *record
	hello   Hello
	origin  *Origin
	drops   *Drops
	unheard unheard
	ended   atomic.Bool
	wrote   bool // something of the record is, or was, on the disk; Connect's
	grants  grants
	renewed atomic.Pointer[auth.Principal] // nil: as in hello
	// deadline is the broker's, under deadlines.mu.
	deadline *deadline
	paced    uint64 // of Traffic.In and spends, at the last Pace
	calls    sessionCalls

	meters                  []*meter // nil: it may publish as it pleases
	meteredIn, meteredBytes uint64   // of Traffic and what was spent
	spends, spent, spentB   uint64   // calls of Spend, messages, bytes
	replays                 *meter
	found                   atomic.Uint64 // retained messages, since the last Pace
	boundNow                atomic.Int64

	// verbs is held shared by every verb that changes what the session has in
	// the engine, so that fence can wait for those that run.
	verbs sync.RWMutex

	mu        sync.Mutex
	consumers map[*heldConsumer]struct{}
	made      map[QueueKey]struct{} // queues
}

// ID names the client session, the same after a resume.
func (s *Session) ID() SessionID { return s.origin.Session }

// Origin is what the session's messages are stamped with; compare the pointer
// or the Session field to recognise a client's own messages.
func (s *Session) Origin() *Origin { return s.origin }

// Drops counts drops of this session's protocol.
func (s *Session) Drops() *Drops { return s.drops }

// Broker is the realm that the session lives in.
func (s *Session) Broker() *Broker { return s.broker }

// State is what the adapter kept for this client session with SetState, nil in
// a new one. Connect hands it over after the older connection is fenced off.
func (s *Session) State() any {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.rec.state
}

// SessionEnded is implemented by a state that wants to know when its client
// session ended. It must not block or call back.
type SessionEnded interface{ SessionEnded() }

// SetState keeps the adapter's own state with the client session; see
// SessionEnded.
func (s *Session) SetState(v any) {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if s.rec.current == s {
		s.rec.state = v
	}
}

// SetExpiry changes how long the session outlives its connection.
func (s *Session) SetExpiry(d time.Duration) {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if s.rec.current == s && s.hello.Resumable {
		s.rec.expiry = d
		s.rec.keep()
	}
}

func (s *Session) open() error {
	if s.ended.Load() {
		return fmt.Errorf("session %q: %w", s.hello.ClientID, ErrClosed)
	}
	return nil
}

// begin is the start of a verb that changes the topology; when it returns no
// error, verbs must be unlocked. Policies are asked before.
func (s *Session) begin() error {
	s.verbs.RLock()
	if err := s.open(); err != nil {
		s.verbs.RUnlock()
		return err
	}
	return nil
}

// DeclareExchange makes an exchange. Reserved names are refused with
// ErrNotAllowed unless it is there and the declare is passive or the same.
func (s *Session) DeclareExchange(ctx context.Context, x ExchangeSpec) error {
	if err := s.declareExchange(ctx, x); err != nil {
		return err
	}
	return s.synced()
}

func (s *Session) declareExchange(ctx context.Context, x ExchangeSpec) error {
	if err := s.allowExchange(x); err != nil {
		return err
	}
	if x.Alternate == RPCExchange {
		return fmt.Errorf("alternate exchange %q: %w", x.Alternate, errCalls)
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.verbs.RUnlock()
	if x.Name == DefaultExchange || x.Name == RPCExchange || reservedName(x.Name) {
		return s.declareReserved(ctx, x)
	}
	if err := checkName("exchange", x.Name); err != nil {
		return err
	}
	return s.broker.engine.DeclareExchange(ctx, x)
}

// DeleteExchange removes an exchange with its bindings.
func (s *Session) DeleteExchange(ctx context.Context, name string, ifUnused bool) error {
	if err := s.deleteExchange(ctx, name, ifUnused); err != nil {
		return err
	}
	return s.synced()
}

func (s *Session) deleteExchange(ctx context.Context, name string, ifUnused bool) error {
	if err := s.allow(auth.Declare, auth.Object{Kind: auth.Exchange, Name: name}); err != nil {
		return err
	}
	if name == DefaultExchange || name == RPCExchange || reservedName(name) {
		return fmt.Errorf("exchange %q: %w: it is the broker's own", name, ErrNotAllowed)
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.verbs.RUnlock()
	return s.broker.engine.DeleteExchange(ctx, name, ifUnused)
}

// DeclareQueue makes a queue, or takes hold of a group queue. Exclusive queues
// end with the client session. A named queue without a name gets one that
// nobody has, which the info tells.
func (s *Session) DeclareQueue(ctx context.Context, q QueueSpec) (QueueInfo, error) {
	if !q.Passive {
		if err := s.roomForQueue(ctx, q.Key); err != nil {
			return QueueInfo{}, err
		}
	}
	info, err := s.declareQueue(ctx, q)
	if err == nil && !q.Passive {
		s.madeQueue(info.Key)
		err = s.noted(q.Key)
	}
	return info, err
}

func (s *Session) declareQueue(ctx context.Context, q QueueSpec) (QueueInfo, error) {
	fresh := q.Key == Named("") && !q.Passive && s.nameQueue(&q)
	if err := s.allowQueueSpec(q); err != nil {
		return QueueInfo{}, err
	}
	if err := checkQueueName(q.Key, q.Passive || fresh); err != nil {
		return QueueInfo{}, err
	}
	if err := s.begin(); err != nil {
		return QueueInfo{}, err
	}
	defer s.verbs.RUnlock()
	q.By, q.User = s.ID(), s.Principal().User
	if q.Drops == nil {
		q.Drops = s.drops
	}
	if q.Key.Kind == GroupQueue && !q.Passive {
		return s.broker.groups.hold(ctx, s, q)
	}
	info, err := s.broker.engine.DeclareQueue(ctx, q)
	if err == nil && q.Exclusive && !q.Passive {
		s.rec.own(ctx, q.Key, s.ID())
	}
	return info, err
}

func checkQueueName(k QueueKey, passive bool) error {
	if k.Kind != NamedQueue {
		return nil
	}
	if err := checkName("queue", k.Name); err != nil {
		return err
	}
	if reservedName(k.Name) && !passive {
		return fmt.Errorf("%v: %w: names that start with amq. or $ are reserved", k, ErrNotAllowed)
	}
	return nil
}

// DeleteQueue removes a queue and returns how many ready messages went with
// it; of a group queue it gives up this session's hold.
func (s *Session) DeleteQueue(ctx context.Context, k QueueKey, o DeleteOptions) (int, error) {
	n, err := s.deleteQueue(ctx, k, o)
	if err == nil {
		s.unmadeQueue(k)
		err = s.noted(k)
	}
	return n, err
}

func (s *Session) deleteQueue(ctx context.Context, k QueueKey, o DeleteOptions) (int, error) {
	if k.Kind == NamedQueue { // to leave a group needs no right
		if err := s.allowQueue(auth.Declare, k); err != nil {
			return 0, err
		}
	}
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.verbs.RUnlock()
	if k.Kind == GroupQueue {
		return 0, s.broker.groups.release(ctx, s.rec, k)
	}
	o.By = s.ID()
	n, err := s.broker.engine.DeleteQueue(ctx, k, o)
	if err == nil {
		s.rec.disown(k)
		s.broker.given.remove(k)
	}
	return n, err
}

// PurgeQueue drops the ready messages and returns their number.
func (s *Session) PurgeQueue(ctx context.Context, k QueueKey) (int, error) {
	if err := s.allowQueue(auth.Consume, k); err != nil {
		return 0, err
	}
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.verbs.RUnlock()
	return s.broker.engine.PurgeQueue(ctx, k, s.ID())
}

// Bind makes a binding and, as b.Replay says, starts the replay of retained
// messages; binding and snapshot are one step for each topic. Nothing is bound
// to the default exchange (ErrNotAllowed). A queue bound to RPCExchange is a
// callee, until the session ends; errors as of Register.
func (s *Session) Bind(ctx context.Context, b BindSpec) error {
	if b.Source == RPCExchange {
		if err := s.allowTarget(b); err != nil {
			return err
		}
		return s.bindCallee(ctx, b)
	}
	if err := s.allowBind(b); err != nil {
		return err
	}
	if b.Source == DefaultExchange {
		return fmt.Errorf("binding to the default exchange: %w", ErrNotAllowed)
	}
	if b.Exchange == RPCExchange {
		return fmt.Errorf("binding of exchange %q: %w", b.Exchange, errCalls)
	}
	b.By = s.ID()
	if err := s.mayBind(); err != nil {
		return err
	}
	if b.Queue.Kind != GroupQueue { // whose members have the right each
		b.Owner = s.asOwner()
	}
	src, err := s.bind(ctx, b)
	if err == nil {
		s.boundNow.Add(1)
		err = s.bound(&b)
	}
	if src == nil || err != nil {
		return err
	}
	return s.broker.engine.Replay(ctx, b, src)
}

func (s *Session) bind(ctx context.Context, b BindSpec) (Source, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.verbs.RUnlock()
	src, found, err := s.broker.bind(ctx, b)
	s.finds(found)
	return src, err
}

// Unbind removes a binding; ErrNotFound when it is not there. A replay that it
// started ends.
func (s *Session) Unbind(ctx context.Context, b BindSpec) error {
	if err := s.unbind(ctx, b); err != nil {
		return err
	}
	s.countUnbound()
	return s.bound(&b)
}

func (s *Session) unbind(ctx context.Context, b BindSpec) error {
	if err := s.allowUnbind(b); err != nil {
		return err
	}
	if b.Source == RPCExchange {
		return s.unbindCallee(b)
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.verbs.RUnlock()
	b.By = s.ID()
	return s.broker.engine.Unbind(ctx, b)
}

// Consume attaches a receiver to a queue; it may get deliveries before Consume
// returns, unless it is Paused. The session cancels what is still attached
// when it closes.
func (s *Session) Consume(ctx context.Context, k QueueKey, o ConsumeOptions, r Receiver) (Consumer, error) {
	if err := s.allowQueue(auth.Consume, k); err != nil {
		return nil, err
	}
	paused := o.Paused
	o.By, o.Paused = s.ID(), true
	h, err := s.attach(ctx, k, o, r)
	if err != nil {
		return nil, err
	}
	if !paused && !o.Pull {
		h.Resume(nil)
	}
	return h, nil
}

func (s *Session) attach(ctx context.Context, k QueueKey, o ConsumeOptions, r Receiver) (*heldConsumer, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.verbs.RUnlock()
	c, err := s.broker.engine.Consume(ctx, k, o, r)
	if err != nil {
		return nil, err
	}
	h := &heldConsumer{Consumer: c, session: s, queue: k, lost: Requeue}
	if k.Kind == SessionQueue {
		h.lost = Return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.consumers == nil {
		s.consumers = map[*heldConsumer]struct{}{}
	}
	s.consumers[h] = struct{}{}
	return h, nil
}

// heldConsumer lets the session cancel what its client left open.
type heldConsumer struct {
	Consumer
	session *Session
	queue   QueueKey
	lost    Outcome // of held deliveries when the connection goes
}

// Cancel with Keep leaves it to the session to let go of what is kept.
func (h *heldConsumer) Cancel(o Outcome) {
	if o != Keep {
		h.session.mu.Lock()
		delete(h.session.consumers, h)
		h.session.mu.Unlock()
	}
	h.Consumer.Cancel(o)
}

// fence ends the connection's hold: no verb runs any more and none works after
// it, no Deliver runs. In a shutdown deliveries go back as if never made.
func (s *Session) fence(shutdown bool) {
	s.ended.Store(true)
	s.verbs.Lock() // waits for the running ones
	s.verbs.Unlock()
	s.mu.Lock()
	left := s.consumers
	s.consumers = nil
	s.mu.Unlock()
	for h := range left {
		if shutdown {
			h.lost = Return
		}
		h.Consumer.Cancel(h.lost)
	}
	s.calls.end(s)
}

// Close ends the connection's hold; the client session lives on for its
// expiry. Closing a session that was taken over does nothing.
func (s *Session) Close(reason CloseReason) {
	s.rec.leave(s, reason)
	s.broker.closed(s)
}
