package coap

import (
	"context"
	"errors"
	"sync"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
)

// loginTime bounds how long it may take to find out who a client is.
const loginTime = 10 * time.Second

// login is who the client of a connection is, and its session, which is opened
// by its first request.
type login struct {
	server *Server
	proof  auth.Credentials
	remote string
	// ended is called, from another goroutine, when the broker ended the session.
	ended func(core.EndReason)

	mu      sync.Mutex
	session *core.Session
	over    bool
}

// get returns the session. Its error is 4.01 when the client has to prove more.
func (l *login) get() (*core.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return nil, core.ErrClosed
	case l.session != nil:
		return l.session, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), loginTime)
	defer cancel()
	who, err := l.server.broker.Authenticate(ctx, l.proof)
	if errors.Is(err, core.ErrNotAllowed) {
		return nil, refuse(refusedUnknown, "clients have to log in")
	}
	if err != nil {
		return nil, err
	}
	if who.User == "" {
		who.User = l.proof.PSK // it was proved, though nobody asked
	}
	l.session, _, err = l.server.broker.Connect(ctx, core.Hello{Protocol: protocol, Principal: who, ClientID: who.ClientID,
		Remote: l.remote, Kick: l.ended, Withdrawn: l.server.withdrawn})
	return l.session, err
}

// opened is the session, nil when there is none yet.
func (l *login) opened() *core.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// end closes the session; nobody gets another one.
func (l *login) end(why core.CloseReason) {
	l.mu.Lock()
	session := l.session
	l.session, l.over = nil, true
	l.mu.Unlock()
	if session != nil {
		session.Close(why)
	}
}

// leave ends all that the client of a connection has: its observations,
// registrations, leases and unfinished transfers.
func (s *Server) leave(to route, l *login, why core.CloseReason) {
	s.callees.leave(to)
	if p := s.known(to); p != nil {
		p.leave()
	}
	s.uploads.leave(to)
	s.pages.leave(to)
	s.lists.leave(to)
	if session := l.opened(); session != nil {
		s.leases.leave(session)
	}
	l.end(why)
}

// paceOf is what a connection's reader asks, see adapters.Conn.Pace.
func (s *Server) paceOf(l *login) func() (time.Duration, bool) {
	return func() (time.Duration, bool) {
		if session := l.opened(); session != nil {
			return session.Pace(nil)
		}
		return 0, false
	}
}
