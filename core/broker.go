package core

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/core/auth"
)

// SessionID names a client session for as long as it lives, over
// reconnections; 0 is the broker itself.
type SessionID uint64

// Config is a broker's settings.
type Config struct {
	// MaxMessage is the largest payload in bytes that any protocol may publish.
	MaxMessage int
	// MaxRetained and MaxRetainedBytes bound the retained messages of a realm.
	MaxRetained      int
	MaxRetainedBytes int64
	// DiskMark is how many bytes have to be free on the disk of what is durable;
	// below it DiskAlarm is on. 0 is no mark.
	DiskMark int64
	// MemoryMark is the part of the memory that may be in use; above it
	// MemoryAlarm is on. 0 is no mark.
	MemoryMark float64
	// CallTimeout ends calls that came as messages and say nothing of their own;
	// 0 is never.
	CallTimeout time.Duration
	// Clients bounds what one client or user may have.
	Clients ClientConfig
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{MaxMessage: 16 << 20, MaxRetained: 1_000_000, MaxRetainedBytes: 1 << 30,
		DiskMark: 256 << 20, MemoryMark: 0.6, CallTimeout: time.Minute, Clients: defaultClientConfig()}
}

// Validate returns an error wrapping ErrInvalid for a setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.MaxMessage < 1 || c.MaxMessage > 512<<20:
		return invalid("max message %d: from 1 byte to 512 MiB", c.MaxMessage)
	case c.MaxRetained < 0 || c.MaxRetainedBytes < 0:
		return invalid("limits of retained messages: not negative")
	case c.DiskMark < 0:
		return invalid("disk mark %d: not negative", c.DiskMark)
	case !(c.MemoryMark >= 0 && c.MemoryMark <= 1):
		return invalid("memory mark %v: from 0 to 1", c.MemoryMark)
	case c.CallTimeout < 0:
		return invalid("call timeout %v: not negative", c.CallTimeout)
	}
	return c.Clients.Validate()
}

// Broker is one realm: a name space with its exchanges, queues, sessions and
// retained messages. All methods may be called from any goroutine.
type Broker struct {
	cfg       Config
	realm     string
	engine    Engine
	policy    atomic.Pointer[ruling] // nil: everything is allowed
	logins    logins
	log       *slog.Logger
	retained  *retainedStore
	groups    groups
	vault     *vault // nil: nothing is kept over a restart
	lastID    atomic.Uint64
	alarms    alarms
	deadlines deadlines

	limited    limited
	damper     damper
	wills      chan struct{} // one for each that may be published at once
	procedures procedures
	replies    replies
	given      given

	reviews sync.Mutex  // held over a review of what clients have
	second  *time.Timer // the second review; under mu

	mu        sync.Mutex
	sessions  map[sessionName]*record
	shares    map[string]*userShare
	protocols map[string]*protocol
	closing   bool
}

// NewBroker makes the broker of a realm on an engine. The nil policy allows
// everything. Whoever made the engine closes it after Broker.Close.
func NewBroker(cfg Config, realm string, e Engine, p auth.Policy, log *slog.Logger) *Broker {
	b := &Broker{
		cfg: cfg, realm: realm, engine: e, log: log,
		retained:  newRetainedStore(cfg.MaxRetained, cfg.MaxRetainedBytes),
		groups:    groups{holders: map[QueueKey]int{}},
		sessions:  map[sessionName]*record{},
		shares:    map[string]*userShare{},
		wills:     make(chan struct{}, willsAtOnce),
		protocols: map[string]*protocol{},
	}
	b.rule(p)
	b.bound()
	return b
}

// Realm is the broker's name.
func (b *Broker) Realm() string { return b.realm }

// MaxMessage is the largest payload that Publish takes.
func (b *Broker) MaxMessage() int { return b.cfg.MaxMessage }

// Close refuses new sessions; those that wait for their client neither expire
// nor send wills any more. Call it after the adapters closed their
// connections.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closing = true
	stopTimer(&b.second)
	var waiting []*record
	for _, r := range b.sessions {
		waiting = append(waiting, r)
	}
	b.mu.Unlock()
	for _, r := range waiting {
		r.stopTimers()
	}
	b.retained.stopTimers()
	b.alarms.end()
	b.deadlines.end()
	if b.vault != nil {
		b.vault.debts.end()
	}
}

// stopping tells whether Close was called.
func (b *Broker) stopping() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closing
}

// Realms finds a broker by the name that a client gave (AMQP virtual host,
// STOMP host, WAMP realm).
type Realms struct {
	byName   map[string]*Broker
	fallback *Broker
}

// NewRealms serves the given brokers by their names; unknown names, which
// clients send as they please (STOMP's host is often a host name), get the
// first.
func NewRealms(first *Broker, more ...*Broker) *Realms {
	r := &Realms{byName: map[string]*Broker{first.realm: first}, fallback: first}
	for _, b := range more {
		r.byName[b.realm] = b
	}
	return r
}

// Broker returns the broker of a realm, exact telling whether it has that name.
func (r *Realms) Broker(name string) (b *Broker, exact bool) {
	if b, ok := r.byName[name]; ok {
		return b, true
	}
	return r.fallback, false
}

// Each calls f for every broker.
func (r *Realms) Each(f func(*Broker)) {
	for _, b := range r.byName {
		f(b)
	}
}
