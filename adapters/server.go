package adapters

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Server accepts connections of one protocol on any number of listeners. Its
// methods may be called from any goroutine.
type Server struct {
	cfg    Config
	name   string
	log    *slog.Logger
	open   func(*Conn) Protocol
	bufs   *buffers
	stacks stacks
	wheel  *Wheel

	door *Door

	refused  [refusals]atomic.Uint64
	unopened unopened

	mu        sync.Mutex
	listeners []net.Listener
	conns     map[*Conn]struct{}
	opening   map[net.Conn]struct{} // by Listener.open
	admitted  int                   // conns and those about to be among them
	peers     map[netip.Addr]peerCount
	stopping  chan struct{} // closed by Shutdown
	wg        sync.WaitGroup
}

type peerCount struct{ open, pending int }

// refusal is the limit that turns a connection away.
type refusal uint8

const (
	notRefused       refusal = iota
	tooMany                  // Config.MaxConnections
	tooManyInAll             // DoorConfig.MaxConnections
	tooManyOfPeer            // Config.MaxPerPeer
	tooManyOfAddress         // DoorConfig.MaxPerAddress
	tooManyPending           // Config.MaxPending
	lineTooLong              // DoorConfig.MaxWaiting, MaxWait
	stopping                 // the server's, no limit
	refusals
)

// String is a metric's label.
func (r refusal) String() string {
	return [...]string{"", "max_connections", "limits.max_connections", "max_per_peer", "limits.max_per_address",
		"max_pending", "limits.max_wait", "stopping"}[r]
}

// NewServer returns a server that makes a Protocol for each connection with
// open, which must not block. name is the protocol's, for the log.
func NewServer(cfg Config, name string, log *slog.Logger, open func(*Conn) Protocol) *Server {
	return &Server{
		cfg: cfg, name: name, log: log.With("protocol", name), open: open,
		door: NewDoor(DefaultDoorConfig()),
		bufs: newBuffers(), wheel: NewWheel(),
		conns: map[*Conn]struct{}{}, opening: map[net.Conn]struct{}{}, peers: map[netip.Addr]peerCount{},
		stopping: make(chan struct{}),
	}
}

// Behind makes clients come in by a door that other servers have, too. Called
// before the first Serve; without it the server has a door of its own.
func (s *Server) Behind(d *Door) { s.door = d }

// Serve accepts from l until Shutdown, which closes l. It returns at once; the
// error says that the server is shut down already, and l is the caller's then.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing() {
		return fmt.Errorf("%s server: %w", s.name, net.ErrClosed)
	}
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	go s.accept(l)
	return nil
}

// Refused counts the connections that a limit turned away, by the limit's name.
func (s *Server) Refused() map[string]uint64 {
	counts := map[string]uint64{}
	for r := tooMany; r < stopping; r++ {
		counts[r.String()] = s.refused[r].Load()
	}
	return counts
}

// Open is the number of open connections.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admitted
}

func (s *Server) closing() bool { return closed(s.stopping) }

func (s *Server) accept(l net.Listener) {
	defer s.wg.Done()
	from, _ := l.(*Listener)
	// It ends when the server or the listener closes, which is no failure.
	_ = acceptAll(l, s.log, s.stopping, func(c net.Conn) { s.arrive(from, c) })
}

// ServeConn takes over a connection, from a listener or from elsewhere (a
// WebSocket, a pipe). It returns at once; a limit may close the connection. The
// connection must honour its deadlines.
func (s *Server) ServeConn(nc net.Conn) { s.ServeConnAs(nc, s.open) }

// ServeConnAs is ServeConn with a Protocol of its own for this connection, for
// carriers that agreed with the client on something.
func (s *Server) ServeConnAs(nc net.Conn, open func(*Conn) Protocol) {
	nc = lifted(nc)
	if peer := peerOf(nc); s.admitOrClose(nc, peer) {
		s.start(&Conn{server: s, conn: nc, peer: peer}, open, s.cfg.LoginTimeout)
	}
}

// admitOrClose closes a connection that is over a limit.
func (s *Server) admitOrClose(nc net.Conn, peer netip.Addr) bool {
	why := s.admit(peer)
	if why == notRefused {
		return true
	}
	s.refused[why].Add(1)
	// Nobody is told: the peer is over its limit.
	_ = nc.Close()
	return false
}

// start serves a connection that was admitted and is ready for its protocol.
func (s *Server) start(c *Conn, open func(*Conn) Protocol, login time.Duration) {
	c.raw, c.maxFrame = rawOf(c.conn), s.cfg.LoginBytes
	c.place = place{of: s.door.logIns, peer: c.peer}
	c.Outbox = newOutbox(c.conn, c.raw, s.bufs, s.cfg.OutboxBytes)
	if t, ok := c.conn.(*secure); ok && c.raw != nil {
		t.direct(c.raw, s.bufs)
		c.secure, c.Outbox.secure = t, t
	}
	c.Outbox.broken = c.writeFailed
	s.wheel.Set(&c.alarm, login, c.timeout)
	c.proto = open(c)
	if !s.enter(c) { // Shutdown did not see it
		c.Kick(ErrKicked)
	}
	go s.serve(c)
}

func (s *Server) serve(c *Conn) {
	c.run()
	s.leave(c)
}

// peerOf is whom the limits of one network address count: the address, of IPv6
// the /64, as a client has all of that. Unix sockets have none.
func peerOf(c net.Conn) netip.Addr { return Peer(addrOf(c.RemoteAddr())) }

// Peer is whom limits of one network address count: an address of IPv4, or the
// first of an IPv6 /64.
func Peer(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		p, _ := a.WithZone("").Prefix(64) // never fails
		return p.Addr()
	}
	return a
}

// admit counts a connection in, unless a limit is reached.
func (s *Server) admit(peer netip.Addr) refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[peer]
	known := peer.IsValid()
	switch {
	case s.closing():
		return stopping
	case s.cfg.MaxConnections > 0 && s.admitted >= s.cfg.MaxConnections:
		return tooMany
	case known && s.peerFull(p) != notRefused:
		return s.peerFull(p)
	}
	if why := s.door.enter(peer); why != notRefused {
		return why
	}
	p.open++
	p.pending++
	s.peers[peer] = p
	s.admitted++
	s.wg.Add(1)
	return notRefused
}

func (s *Server) peerFull(p peerCount) refusal {
	switch {
	case s.cfg.MaxPerPeer > 0 && p.open >= s.cfg.MaxPerPeer:
		return tooManyOfPeer
	case p.pending >= s.cfg.MaxPending:
		return tooManyPending
	}
	return notRefused
}

// enter makes c known to Shutdown; false when that came first.
func (s *Server) enter(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return !s.closing()
}

func (s *Server) loggedIn(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[c.peer]
	p.pending--
	s.peers[c.peer] = p
}

func (s *Server) leave(c *Conn) {
	s.door.leave(c.peer)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncount(c)
	delete(s.conns, c)
	s.admitted--
	s.wg.Done()
}

// uncount takes c off its peer's figures. With mu held.
func (s *Server) uncount(c *Conn) {
	p := s.peers[c.peer]
	p.open--
	if !c.loggedIn {
		p.pending--
	}
	s.peers[c.peer] = p
	if p.open == 0 {
		delete(s.peers, c.peer)
	}
}

// Shutdown stops accepting, tells every client, closes the connections and
// waits for them, or for ctx; those that are left then end by themselves within
// twice Config.Linger of their Feed's return. A connection that came in
// meanwhile ends without being told.
func (s *Server) Shutdown(ctx context.Context) error {
	listeners, conns := s.stop()
	for _, l := range listeners {
		// Accept's end is what counts.
		_ = l.Close()
	}
	for _, c := range conns {
		c.proto.Shutdown()
		c.Kick(ErrKicked)
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		s.wheel.Close()
		close(done)
	}()
	defer s.stacks.close()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %d connections left: %w", s.name, s.Open(), ctx.Err())
	}
}

// stop lets nobody in any more and returns what there is to close; a second
// call returns nothing.
func (s *Server) stop() (listeners []net.Listener, conns []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing() {
		return nil, nil
	}
	close(s.stopping)
	for c := range s.conns {
		conns = append(conns, c)
	}
	for c := range s.opening { // nobody to say good-bye to
		_ = c.Close()
	}
	listeners, s.listeners = s.listeners, nil
	return listeners, conns
}
