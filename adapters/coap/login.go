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
	// opens is called when there is a session, of a user or of nobody (""), and full
	// when the user has as many as it may: whether one was ended. Both may be nil.
	opens func(user string)
	full  func(user string) bool

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
	hello := core.Hello{Protocol: protocol, Principal: who, ClientID: who.ClientID,
		Remote: l.remote, Kick: l.ended, Withdrawn: l.server.withdrawn}
	l.session, _, err = l.server.broker.Connect(ctx, hello)
	if errors.Is(err, core.ErrLimit) && l.full != nil && l.full(who.User) {
		l.session, _, err = l.server.broker.Connect(ctx, hello)
	}
	if err == nil && l.opens != nil {
		l.opens(who.User)
	}
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

// putOut ends an association that has to make room, and counts it out at once; nil
// is nobody.
func (s *Server) putOut(a *association) {
	if a == nil {
		return
	}
	s.count(countPutOut)
	s.log.Debug("association put out", "remote", a.where().String())
	a.socket.remove(a)
	a.close()
	a.guest.Leave()
}

// makeRoomOf ends an association of a user that was silent for long; false when
// there is none.
func (s *Server) makeRoomOf(user string) bool {
	a := s.crowd.makeRoomOf(user, time.Now())
	if a == nil {
		return false
	}
	s.putOut(a)
	s.leave(a.route(), &a.login, core.CloseLost)
	return true
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
