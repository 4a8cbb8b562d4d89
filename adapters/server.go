package adapters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Server accepts connections of one protocol on any number of listeners.
type Server struct {
	cfg   Config
	name  string
	log   *slog.Logger
	open  func(*Conn) Protocol
	bufs  *buffers
	wheel *Wheel

	refused atomic.Uint64

	mu        sync.Mutex
	listeners []net.Listener
	conns     map[*Conn]struct{}
	peers     map[string]*peerCount
	closing   bool
	wg        sync.WaitGroup
}

type peerCount struct{ open, pending int }

// NewServer returns a server that makes a Protocol for each connection with
// open, which must not block.
func NewServer(cfg Config, name string, log *slog.Logger, open func(*Conn) Protocol) *Server {
	return &Server{
		cfg: cfg, name: name, log: log.With("protocol", name), open: open,
		bufs: newBuffers(), wheel: NewWheel(),
		conns: map[*Conn]struct{}{}, peers: map[string]*peerCount{},
	}
}

// Serve accepts from l until Shutdown, which closes l. It returns at once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return fmt.Errorf("%s server: %w", s.name, net.ErrClosed)
	}
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	go s.accept(l)
	return nil
}

// Refused counts connections that a limit turned away.
func (s *Server) Refused() uint64 { return s.refused.Load() }

// accept waits out a shortage of file descriptors instead of ending.
func (s *Server) accept(l net.Listener) {
	defer s.wg.Done()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			s.ServeConn(c)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.log.Warn("accept failed, trying again", "listener", l.Addr().String(), "error", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// ServeConn takes over a connection, from a listener or from elsewhere (a
// WebSocket, a pipe). It returns at once; a limit may close the connection.
func (s *Server) ServeConn(nc net.Conn) {
	c := &Conn{server: s, conn: nc, peer: peerOf(nc), maxFrame: s.cfg.LoginBytes}
	if !s.admit(c) {
		s.refused.Add(1)
		// Nobody is told: the peer is over its limit.
		_ = nc.Close()
		return
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	c.Outbox = newOutbox(nc, c.raw, s.bufs, s.cfg.OutboxBytes)
	c.Outbox.broken = func(err error) { c.Kick(fmt.Errorf("write: %w", err)) }
	s.wheel.Set(&c.alarm, s.cfg.LoginTimeout, func() { c.Kick(ErrTimeout) })
	c.proto = s.open(c)
	go func() {
		defer s.left(c)
		c.run()
	}()
}

// peerOf is the network address without the port; unix sockets have none.
func peerOf(c net.Conn) string {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return ""
}

// admit counts the connection in, unless a limit is reached.
func (s *Server) admit(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[c.peer]
	if p == nil {
		p = &peerCount{}
	}
	switch {
	case s.closing,
		s.cfg.MaxConnections > 0 && len(s.conns) >= s.cfg.MaxConnections,
		c.peer != "" && s.cfg.MaxPerPeer > 0 && p.open >= s.cfg.MaxPerPeer,
		c.peer != "" && p.pending >= s.cfg.MaxPending:
		return false
	}
	p.open++
	p.pending++
	s.peers[c.peer] = p
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *Server) loggedIn(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[c.peer].pending--
}

func (s *Server) left(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[c.peer]
	p.open--
	if !c.loggedIn {
		p.pending--
	}
	if p.open == 0 {
		delete(s.peers, c.peer)
	}
	delete(s.conns, c)
	s.wg.Done()
}

// Open is the number of open connections.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown stops accepting, tells every client, closes the connections and
// waits for them, or for ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	listeners := s.listeners
	s.listeners = nil
	open := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, l := range listeners {
		// Accept's end is what counts.
		_ = l.Close()
	}
	for _, c := range open {
		c.proto.Shutdown()
		c.Kick(ErrKicked)
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	defer s.wheel.Close()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s connections: %w", s.name, ctx.Err())
	}
}
