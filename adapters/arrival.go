package adapters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"
)

// opens tells whether a connection needs more than to be accepted.
func (l *Listener) opens() bool { return l != nil && l.tls != nil }

// open makes of a bare connection what its protocol is spoken on. It waits for
// the client; the connection's deadline bounds that.
func (l *Listener) open(c *shaking) (net.Conn, error) {
	defer c.end()
	t := tls.Server(c, l.tls)
	if err := t.HandshakeContext(context.Background()); err != nil {
		return nil, err
	}
	return t, nil
}

// arrive takes what a listener accepted. It never waits for the client.
func (s *Server) arrive(from *Listener, nc net.Conn) {
	peer := peerOf(nc)
	if !s.admitOrClose(nc, peer) {
		return
	}
	c := &Conn{server: s, conn: nc, from: from, peer: peer}
	if !from.opens() {
		s.start(c, s.open, s.cfg.LoginTimeout)
		return
	}
	go s.openThenStart(c, time.Now().Add(s.cfg.LoginTimeout))
}

// openThenStart opens a connection, on a goroutine that ends then, as the stack
// that a handshake needs is of no use later.
func (s *Server) openThenStart(c *Conn, deadline time.Time) {
	bare := c.conn
	ready, deadline, err := s.opened(c, deadline)
	if s.notTaken(err) != nil {
		s.log.Info("not opened", "listener", c.from.Address.Name, "remote", bare.RemoteAddr().String(), "error", err)
		_ = bare.Close()
		s.leave(c)
		return
	}
	c.conn = ready
	s.start(c, s.open, time.Until(deadline))
}

// opened lets Shutdown end the opening. The deadline that it returns is later when
// the connection had to wait for a place.
func (s *Server) opened(c *Conn, deadline time.Time) (net.Conn, time.Time, error) {
	bare := c.conn
	if !s.beginOpening(bare) {
		return nil, deadline, net.ErrClosed
	}
	defer s.endOpening(bare)
	if err := bare.SetDeadline(deadline); err != nil {
		return nil, deadline, err
	}
	shaking, err := s.door.shake(bare, deadline, s.cfg.LoginTimeout, s.stopping)
	if err != nil {
		return nil, deadline, err
	}
	ready, err := c.from.open(shaking)
	if err != nil {
		return nil, deadline, err
	}
	return ready, shaking.deadline, bare.SetDeadline(time.Time{})
}

func (s *Server) beginOpening(bare net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening[bare] = struct{}{}
	return !s.closing()
}

func (s *Server) endOpening(bare net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.opening, bare)
}

// Certificate is the client's, which was verified; nil when it gave none.
func (c *Conn) Certificate() *x509.Certificate { return certificateOf(c.conn) }

// certificateOf looks below what a WebSocket adds.
func certificateOf(nc net.Conn) *x509.Certificate {
	switch c := nc.(type) {
	case *websocketConn:
		return certificateOf(c.websocketSocket.Conn)
	case *tls.Conn:
		if chains := c.ConnectionState().VerifiedChains; len(chains) > 0 {
			return chains[0][0]
		}
	}
	return nil
}

// Listener is the name of the listener that the connection came to; "" when it
// came from elsewhere.
func (c *Conn) Listener() string {
	if c.from == nil {
		return ""
	}
	return c.from.Address.Name
}
