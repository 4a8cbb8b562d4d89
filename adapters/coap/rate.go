package coap

import (
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// maxMetered bounds the clients over UDP whose rate is known; beyond it those who
// are new have one rate together.
const maxMetered = 100_000

// rates are what clients over UDP have published, who share a session: one meter
// for each address and port, as long as it is not full again.
type rates struct {
	broker *core.Broker
	most   int

	mu   sync.Mutex
	all  map[route]*meter
	rest *meter // of those for whom there was no room
}

// meter is a core.Broker's.
type meter struct {
	admit func(messages, bytes int) time.Duration
	idle  func() bool
}

func (a *rates) meter() *meter {
	admit, idle := a.broker.Meter()
	if admit == nil {
		return nil
	}
	return &meter{admit, idle}
}

func newRates(b *core.Broker, most int) *rates {
	return &rates{broker: b, most: most, all: map[route]*meter{}}
}

// admit tells how long a client is to wait before it publishes, see core.Session.Admit.
func (a *rates) admit(to route, messages, bytes int) time.Duration {
	m := a.of(to)
	if m == nil {
		return 0
	}
	return m.admit(messages, bytes)
}

// of is a client's meter, nil when there are no limits.
func (a *rates) of(to route) *meter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.all[to]; m != nil {
		return m
	}
	if len(a.all) >= a.most {
		if a.rest == nil {
			a.rest = a.meter()
		}
		return a.rest
	}
	m := a.meter()
	if m != nil {
		a.all[to] = m
	}
	return m
}

// sweep forgets clients who were quiet for long enough.
func (a *rates) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for to, m := range a.all {
		if m.idle() {
			delete(a.all, to)
		}
	}
}

func (a *rates) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// hurried refuses what a client would publish beyond its rate, and says when to
// come again (RFC 8516); what is not confirmable is dropped. Streams are read
// slower instead. A body in blocks is one message, which its first block counts.
func (s *Server) hurried(r *request) bool {
	if r.exchange.turn != nil || !r.publishes() {
		return false
	}
	messages := 1
	if r.block1.there && r.block1.num > 0 {
		messages = 0
	}
	wait := s.admit(r, messages)
	if wait == 0 {
		return false
	}
	s.count(countHurried)
	if !r.confirmable() {
		r.silent(true)
		return true
	}
	r.fail(&refusal{code: codes.TooManyRequests, text: "too much for a second", maxAge: seconds(wait)})
	return true
}

// admit asks the meter of the client of a datagram.
func (s *Server) admit(r *request, messages int) time.Duration {
	if _, ok := r.to.link.(*association); !ok {
		return s.rates.admit(r.to, messages, len(r.payload))
	}
	session, err := r.to.link.identity()
	if err != nil {
		return 0 // the resource tells
	}
	return session.Admit(messages, len(r.payload))
}
