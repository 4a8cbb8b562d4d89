package adapters

import (
	"errors"
	"net"
	"net/netip"
	"sync"
)

// Errors of Server.Admit.
var (
	// ErrTooMany is a limit of all connections.
	ErrTooMany = errors.New("too many connections")
	// ErrTooManyOfPeer is a limit of one network address.
	ErrTooManyOfPeer = errors.New("too many connections of one address")
)

// Guest is a client that comes in without a connection of its own: an association
// over datagrams. The limits of the Server and of the Door count it as one, and it
// waits for its handshake in the same line. Methods may be called from any
// goroutine.
type Guest struct {
	conn Conn // for what it counts

	mu      sync.Mutex
	place   place
	waiting func(error) // Begin's, which waits for a place
	held    bool        // the place
	in, out bool
}

// Admit counts a guest in, unless a limit is reached. Then it asks for room, of the
// guest's own address alone or of all; if that tells that some was made, it tries
// once more. Errors: ErrTooMany, ErrTooManyOfPeer, net.ErrClosed when the server is
// shut down, another when too many of the address are not in yet.
func (s *Server) Admit(peer netip.Addr, room func(own bool) bool) (*Guest, error) {
	peer = Peer(peer)
	why := s.admit(peer)
	if own := why == tooManyOfPeer || why == tooManyOfAddress; own || why == tooMany || why == tooManyInAll {
		if room(own) {
			why = s.admit(peer)
		}
	}
	if why != notRefused {
		s.refused[why].Add(1)
	}
	switch why {
	case notRefused:
		return &Guest{conn: Conn{server: s, peer: peer}, place: place{of: s.door.handshakes, peer: peer}}, nil
	case stopping:
		return nil, net.ErrClosed
	case tooMany, tooManyInAll:
		return nil, ErrTooMany
	case tooManyOfPeer, tooManyOfAddress:
		return nil, ErrTooManyOfPeer
	}
	return nil, errOverLimit
}

// Peer is whom the limits of one address count.
func (g *Guest) Peer() netip.Addr { return g.conn.peer }

// Begin waits for a place to work on the guest's handshake and then calls f, once,
// on a goroutine of its own. Until then nothing is kept of the guest but itself.
// The error that f gets says that there was no place to be had in time, or that
// the guest has left. Begin does not block; it is called once.
func (g *Guest) Begin(f func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.out {
		go f(ErrKicked)
		return
	}
	g.place.call = g.begun
	got, err := g.place.of.ask(&g.place)
	switch {
	case err != nil:
		err = g.conn.server.notTaken(err)
		go f(err)
	case got == nil:
		g.held = true
		go f(nil)
	default:
		g.waiting = f
	}
}

// begun is called by the door when it has an answer for Begin.
func (g *Guest) begun(err error) {
	g.mu.Lock()
	f := g.waiting
	g.waiting = nil
	switch {
	case err != nil:
		err = g.conn.server.notTaken(err)
	case g.out:
		g.place.give(true)
		err = ErrKicked
	default:
		g.held = true
	}
	g.mu.Unlock()
	f(err)
}

// Work takes the place again that Rest gave up, when there is more to do; before it
// waits it calls waits. It ends with ErrKicked when cancel is closed. One goroutine
// calls it at a time.
func (g *Guest) Work(cancel <-chan struct{}, waits func()) error {
	g.mu.Lock()
	if g.held || g.in || g.out {
		g.mu.Unlock()
		return nil
	}
	g.place.call = nil
	got, err := g.place.of.ask(&g.place)
	if err == nil && got == nil {
		g.held = true
	}
	g.mu.Unlock()
	if got == nil || err != nil {
		return err
	}
	waits()
	select {
	case err = <-got:
	case <-cancel:
		if g.place.of.forget(&g.place) {
			return ErrKicked
		}
		err = <-got // it came at the same time
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		return err
	case g.in || g.out:
		g.place.give(true)
	default:
		g.held = true
	}
	return nil
}

// Rest gives the place to others while the client is to say something.
func (g *Guest) Rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest(false)
}

// rest is with mu held.
func (g *Guest) rest(done bool) {
	if g.held {
		g.held = false
		g.place.give(done)
	}
}

// LoggedIn ends the limits that hold before a client is in; it needs no place any
// more.
func (g *Guest) LoggedIn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in || g.out {
		return
	}
	g.in, g.conn.loggedIn = true, true
	g.rest(true)
	g.conn.server.loggedIn(&g.conn)
}

// Leave counts the guest out. Further calls do nothing.
func (g *Guest) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.out {
		return
	}
	g.out = true
	g.rest(true)
	if f := g.waiting; f != nil && g.place.of.forget(&g.place) {
		g.waiting = nil
		go f(ErrKicked)
	}
	g.conn.server.leave(&g.conn)
}
