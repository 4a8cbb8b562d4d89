package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrLimit is an ErrFull: not the broker, but what one client or user may have of
// it is used up.
var ErrLimit = fmt.Errorf("limit of one client or user: %w", ErrFull)

// ClientConfig bounds what one client or user may have of a realm. 0 is no limit.
type ClientConfig struct {
	// UserConnections is how many connections one user may have open; anonymous
	// clients are not counted. A durable subscription of STOMP counts as one.
	UserConnections int `toml:"user_connections"`
	// Messages and Bytes (payload) are what one connection may publish in a second,
	// and Burst how many seconds' worth may come at once. Who publishes more is
	// read slower: nothing is refused or lost, but where there is no stream.
	Messages int           `toml:"messages"`
	Bytes    int           `toml:"bytes"`
	Burst    time.Duration `toml:"burst"`
	// Replayed is how many retained messages one connection's subscriptions may
	// find in a second. Ten seconds' worth may be found at once.
	Replayed int `toml:"replayed"`
	// Queues and Bindings are how many one connection may have made.
	Queues   int `toml:"queues"`
	Bindings int `toml:"bindings"`
	// QueuesInAll and ExchangesInAll are how many named queues and exchanges the realm
	// may have, UserQueues how many of those queues one user may have made; anonymous
	// clients are not counted.
	QueuesInAll    int `toml:"queues_in_all"`
	ExchangesInAll int `toml:"exchanges_in_all"`
	UserQueues     int `toml:"user_queues"`
	// TakeOvers is how many times a session may be taken over at once before the
	// next who does so has to wait, longer each time. One is forgotten in every
	// three seconds.
	TakeOvers int `toml:"take_overs"`
}

// defaultClientConfig is what runs when nothing is set.
func defaultClientConfig() ClientConfig {
	return ClientConfig{Burst: 2 * time.Second, Replayed: 100_000, Queues: 10_000, Bindings: 100_000,
		QueuesInAll: 100_000, ExchangesInAll: 10_000, TakeOvers: 5}
}

// Validate returns an error wrapping ErrInvalid for a setting that makes no sense.
func (c ClientConfig) Validate() error {
	for _, n := range []struct {
		name  string
		value int
	}{
		{"user_connections", c.UserConnections}, {"messages", c.Messages}, {"bytes", c.Bytes}, {"replayed", c.Replayed},
		{"queues", c.Queues}, {"bindings", c.Bindings},
		{"queues_in_all", c.QueuesInAll}, {"exchanges_in_all", c.ExchangesInAll}, {"user_queues", c.UserQueues}, {"take_overs", c.TakeOvers},
	} {
		if n.value < 0 {
			return invalid("clients: %s %d: not negative", n.name, n.value)
		}
	}
	if c.Burst < 100*time.Millisecond || c.Burst > time.Hour {
		return invalid("clients: burst %v: from 100ms to 1h", c.Burst)
	}
	return nil
}

// Limit is one that a client or user has come to.
type Limit uint8

const (
	LimitUserConnections Limit = iota
	LimitMessages
	LimitBytes
	LimitReplayed
	LimitQueues
	LimitBindings
	LimitTakeOvers
	// LimitUnackedBytes is of a protocol: what may be out without acknowledgement.
	LimitUnackedBytes
	LimitQueuesInAll
	LimitExchangesInAll
	LimitUserQueues
	limits
)

// String is the limit as a metric's label: its setting.
func (l Limit) String() string {
	return [...]string{"user_connections", "messages", "bytes", "replayed", "queues", "bindings", "take_overs", "unacked_bytes",
		"queues_in_all", "exchanges_in_all", "user_queues"}[l]
}

// Limited counts how often somebody came to each limit: was refused, or had to
// wait.
func (b *Broker) Limited() map[string]uint64 {
	counts := map[string]uint64{}
	for l := range limits {
		counts[l.String()] = b.limited[l].Load()
	}
	return counts
}

// Reached counts that the client came to a limit which its front-end keeps.
func (s *Session) Reached(l Limit) { s.broker.limited[l].Add(1) }

// reached counts, and is what the client is told.
func (b *Broker) reached(l Limit, most int) error {
	b.limited[l].Add(1)
	return fmt.Errorf("%s: at most %d: %w", l, most, ErrLimit)
}

type limited [limits]atomic.Uint64

// userShare is what the connections of one user have together.
type userShare struct {
	open  int
	meter *meter // nil: none
}

// join counts a user's connection in, under b.mu. One that takes over another of
// the same user takes its place.
func (b *Broker) join(h *Hello) error {
	user := h.Principal.User
	if user == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.cfg.Clients.UserConnections
	if own := h.Principal.Limits.Connections; own > 0 {
		most = own
	}
	u := b.shares[user]
	if u == nil {
		u = &userShare{}
		b.shares[user] = u
	}
	if most > 0 && u.open >= most && !b.takesPlace(h) {
		return b.reached(LimitUserConnections, most)
	}
	if l := h.Principal.Limits; u.meter == nil && (l.Messages > 0 || l.Bytes > 0) {
		u.meter = newMeter(l.Messages, l.Bytes, b.cfg.Clients.Burst)
	}
	u.open++
	return nil
}

// takesPlace tells whether h takes over a connection of the same user. With b.mu
// held.
func (b *Broker) takesPlace(h *Hello) bool {
	if !h.Resumable {
		return false
	}
	r := b.sessions[sessionName{h.Protocol, h.ClientID}]
	return r != nil && r.present != nil && r.present.hello.Principal.User == h.Principal.User
}

// part counts a user's connection out. With b.mu held.
func (b *Broker) partLocked(user string) {
	u := b.shares[user]
	if u == nil {
		return
	}
	if u.open--; u.open <= 0 {
		delete(b.shares, user)
	}
}

func (b *Broker) part(user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partLocked(user)
}

// meters are those that a connection spends from. With b.mu held.
func (b *Broker) metersLocked(h *Hello) []*meter {
	var all []*meter
	if c := b.cfg.Clients; c.Messages > 0 || c.Bytes > 0 {
		all = append(all, newMeter(c.Messages, c.Bytes, c.Burst))
	}
	if u := b.shares[h.Principal.User]; u != nil && u.meter != nil {
		all = append(all, u.meter)
	}
	return all
}

// meter is two buckets, of messages and of bytes, that fill with time. What is
// taken beyond what there is is owed, and the time until it is there again is to
// be waited.
type meter struct {
	mu              sync.Mutex
	messages, bytes bucket
	last            time.Time
}

type bucket struct{ rate, have, most float64 }

func newBucket(rate int, burst time.Duration) bucket {
	most := max(1, float64(rate)*burst.Seconds())
	return bucket{float64(rate), most, most}
}

func newMeter(messages, bytes int, burst time.Duration) *meter {
	return &meter{messages: newBucket(messages, burst), bytes: newBucket(bytes, burst), last: time.Now()}
}

// owes takes n out and returns the time until that is paid for.
func (b *bucket) owes(n uint64) time.Duration {
	if b.rate == 0 {
		return 0
	}
	if b.have -= float64(n); b.have >= 0 {
		return 0
	}
	return time.Duration(-b.have / b.rate * float64(time.Second))
}

// fill takes note of time that went by.
func (b *bucket) fill(d time.Duration) { b.have = min(b.most, b.have+b.rate*d.Seconds()) }

func (b *bucket) full() bool { return b.rate == 0 || b.have >= b.most }

// pass takes note of the time. With mu held.
func (m *meter) pass() {
	now := time.Now()
	past := now.Sub(m.last)
	m.last = now
	m.messages.fill(past)
	m.bytes.fill(past)
}

// spend takes messages and bytes out, and returns how long to wait for which.
func (m *meter) spend(messages, bytes uint64) (wait time.Duration, why Limit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass()
	wait = m.messages.owes(messages)
	if w := m.bytes.owes(bytes); w > wait {
		return w, LimitBytes
	}
	return wait, LimitMessages
}

// least is a wait that is worth it: shorter ones add up in the meter.
const least = time.Millisecond

// metered is how long the connection has to wait for what it published since the
// last call, and for what its subscriptions found. By one goroutine at a time.
func (s *Session) metered() (wait time.Duration) {
	var why Limit
	in, bytes := s.Traffic.In.Load()+s.spent, s.Traffic.InBytes.Load()+s.spentB
	if in != s.meteredIn {
		for _, m := range s.meters {
			if w, l := m.spend(in-s.meteredIn, bytes-s.meteredBytes); w > wait {
				wait, why = w, l
			}
		}
		s.meteredIn, s.meteredBytes = in, bytes
	}
	if n := s.found.Swap(0); n > 0 && s.replays != nil {
		if w, _ := s.replays.spend(n, 0); w > wait {
			wait, why = w, LimitReplayed
		}
	}
	if wait < least {
		return 0
	}
	s.broker.limited[why].Add(1)
	return wait
}

// admit takes a message out, or returns how long it is until it fits.
func (m *meter) admit(messages, bytes int) (wait time.Duration, why Limit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass()
	wait = m.messages.until(messages)
	if w := m.bytes.until(bytes); w > wait {
		return w, LimitBytes
	}
	if wait == 0 {
		m.messages.owes(uint64(messages))
		m.bytes.owes(uint64(bytes))
	}
	return wait, LimitMessages
}

// until is the time until n is there, or all that ever is.
func (b *bucket) until(n int) time.Duration {
	short := min(float64(n), b.most) - b.have
	if b.rate == 0 || short <= 0 {
		return 0
	}
	return time.Duration(short / b.rate * float64(time.Second))
}

// Admit is for adapters whose clients can be told to come again: it tells how long
// one is to wait before it publishes messages of so many bytes in sum. 0 counts
// them, and then Pace is not to be called.
func (s *Session) Admit(messages, bytes int) time.Duration {
	for _, m := range s.meters {
		if wait := s.broker.admit(m, messages, bytes); wait > 0 {
			return wait
		}
	}
	return 0
}

// Meter is for one of several clients that share a session: admit is as Session's
// Admit, and idle tells that nothing is remembered that a new meter would not say,
// too. Both may be called from any goroutine; they are nil when clients may publish
// as they please.
func (b *Broker) Meter() (admit func(messages, bytes int) time.Duration, idle func() bool) {
	c := b.cfg.Clients
	if c.Messages == 0 && c.Bytes == 0 {
		return nil, nil
	}
	m := newMeter(c.Messages, c.Bytes, c.Burst)
	return func(messages, bytes int) time.Duration { return b.admit(m, messages, bytes) }, m.idle
}

func (b *Broker) admit(m *meter, messages, bytes int) time.Duration {
	wait, why := m.admit(messages, bytes)
	if wait > 0 {
		b.limited[why].Add(1)
	}
	return wait
}

func (m *meter) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass()
	return m.messages.full() && m.bytes.full()
}

// replayBurst is how many seconds' worth of retained messages may be found at
// once.
const replayBurst = 10 * time.Second

// finds notes that a subscription found n retained messages.
func (s *Session) finds(n int) {
	if most := s.broker.cfg.Clients.Replayed; most > 0 && n > 0 {
		s.found.Add(uint64(n))
	}
}

// roomForQueue refuses a queue beyond the limit of one connection; one that it
// made already is none, nor is one that went by itself.
func (s *Session) roomForQueue(ctx context.Context, k QueueKey) error {
	err := s.mayDeclare(k)
	if err == nil {
		return nil
	}
	s.prune(func(k QueueKey) bool {
		_, err := s.broker.engine.DeclareQueue(ctx, QueueSpec{Key: k, Passive: true, By: s.ID()})
		return errors.Is(err, ErrNotFound)
	})
	if s.mayDeclare(k) == nil {
		return nil
	}
	s.broker.limited[LimitQueues].Add(1)
	return err
}

func (s *Session) mayDeclare(k QueueKey) error {
	most := s.broker.cfg.Clients.Queues
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, own := s.made[k]; most == 0 || own || len(s.made) < most {
		return nil
	}
	return fmt.Errorf("%s: at most %d: %w", LimitQueues, most, ErrLimit)
}

func (s *Session) madeQueue(k QueueKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = map[QueueKey]struct{}{}
	}
	s.made[k] = struct{}{}
}

func (s *Session) unmadeQueue(k QueueKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, k)
}

// mayBind refuses a binding beyond the limit of one connection. boundOne counts it.
func (s *Session) mayBind() error {
	most := s.broker.cfg.Clients.Bindings
	if most == 0 || int(s.boundNow.Load()) < most {
		return nil
	}
	return s.broker.reached(LimitBindings, most)
}

// countUnbound notes that a binding of the connection, or of another, went.
func (s *Session) countUnbound() {
	if s.boundNow.Add(-1) < 0 {
		s.boundNow.Store(0)
	}
}

// prune is called at the limit of queues: those that went by themselves do not
// count.
func (s *Session) prune(gone func(QueueKey) bool) {
	s.mu.Lock()
	var all []QueueKey
	for k := range s.made {
		all = append(all, k)
	}
	s.mu.Unlock()
	for _, k := range all {
		if gone(k) {
			s.unmadeQueue(k)
		}
	}
}
