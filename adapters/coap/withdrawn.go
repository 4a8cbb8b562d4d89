package coap

import (
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// withdrawn is called by the core, from another goroutine, when rules that
// changed have ended something of a session. Its client is told by a last 4.03.
func (s *Server) withdrawn(w core.Withdrawal) {
	s.aside(func() {
		switch {
		case w.Binding != nil:
			if bound := s.bound(w.Binding.Queue); bound != nil {
				bound.end(codes.Forbidden)
			}
		case w.Registration != nil:
			s.callees.refuse(w.Registration)
		case w.Consumer != nil:
			s.leases.refuse(w.Consumer)
		}
	})
}

// bound is the watch behind a queue.
func (s *Server) bound(queue core.QueueKey) *watch {
	s.watching.Lock()
	defer s.watching.Unlock()
	return s.queued[queue]
}

// watchesBy are the watches of a session.
func (s *Server) watchesBy(session *core.Session) []*watch {
	s.watching.Lock()
	defer s.watching.Unlock()
	var all []*watch
	for _, w := range s.queued {
		if w.session == session {
			all = append(all, w)
		}
	}
	return all
}

// refuse ends the registration that the core has given up.
func (cs *callees) refuse(reg *core.Registration) {
	cs.mu.Lock()
	var found *callee
	for _, all := range cs.all {
		for _, c := range all {
			if c.reg == reg {
				found = c
			}
		}
	}
	cs.mu.Unlock()
	if found == nil {
		return
	}
	cs.server.confirm(found.to, &outgoingPacket{code: codes.Forbidden, token: found.token}, nil)
	cs.end(found)
}

// refuse forgets the leases of a worker whose consumer the core has cancelled.
func (l *leases) refuse(c core.Consumer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ls := range l.open {
		if ls.worker.consumer == c {
			l.forget(ls)
		}
	}
	for key, w := range l.workers {
		if w.consumer == c {
			delete(l.workers, key)
		}
	}
}

// kicked is called by the core, from another goroutine, when clients that proved
// nothing may not be here any more: those that observe are told to log in, and the
// next request begins anew.
func (a *anonymous) kicked(core.EndReason) {
	a.server.aside(func() {
		a.mu.Lock()
		session := a.session
		a.session = nil
		a.mu.Unlock()
		for _, w := range a.server.watchesBy(session) {
			w.end(refusedUnknown)
		}
		a.server.leases.leave(session)
	})
}
