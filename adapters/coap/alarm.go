package coap

import (
	"sync/atomic"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// shortage knows whether memory is short. Streams are read slowly then
// (paceOf, spend); a socket is that of all clients, so there it is the clients who are
// told to be slow.
type shortage struct {
	on   atomic.Bool
	stop func()
}

func (a *shortage) watch(b *core.Broker) {
	a.stop = b.WatchAlarms(func(now core.Alarm) {
		if now.Kind == core.MemoryAlarm {
			a.on.Store(now.On)
		}
	})
}

// shortWait is what a client has to wait, in seconds.
const shortWait = 5

// slowed refuses what a datagram would publish while memory is short; whatever
// frees some goes on.
func (s *Server) slowed(r *request) bool {
	if !s.shortage.on.Load() || r.exchange.turn != nil || !r.publishes() {
		return false
	}
	s.count(countBusy)
	r.fail(&refusal{code: refusedBusy, text: "memory is short", maxAge: shortWait})
	return true
}

// spend makes a stream's pace count what is no publish by itself and is kept all
// the same: a topic's configuration, a block of a body (whose bytes count when it
// is whole).
func (s *Server) spend(r *request) {
	if r.exchange.turn == nil || !r.publishes() {
		return
	}
	session, err := r.to.link.identity()
	if err != nil {
		return // the resource tells
	}
	switch root, _ := r.root(); {
	case r.block1.there && r.block1.more:
		session.Spend(0, 0)
	case root == collectionRoot:
		session.Spend(1, r.size)
	}
}

// publishes tells whether a request's payload would be kept: for others, or as a
// topic's configuration.
func (r *request) publishes() bool {
	root, rest := r.root()
	if r.code != codes.PUT && r.code != codes.POST && (r.code != codes.IPATCH || root != collectionRoot) {
		return false
	}
	switch root {
	case topicRoot, exchangeRoot, procedureRoot, collectionRoot:
		return true
	case queueRoot:
		return len(rest) == 1
	}
	return false
}
