package adapters

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// opens tells whether a connection needs more than to be accepted.
func (l *Listener) opens() bool { return l != nil && (l.tls != nil || l.Address.Proxy) }

// arrive takes what a listener accepted. It never waits for the client.
func (s *Server) arrive(from *Listener, nc net.Conn) {
	peer := netip.Addr{}
	if from == nil || !from.Address.Proxy {
		peer = peerOf(nc)
	}
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
	deadline, err := s.opened(c, deadline)
	if err != nil {
		if !s.turnedAway(err) {
			s.unopened.count(err)
		}
		c.from.report(s.log, c.conn.RemoteAddr(), err)
		_ = bare.Close()
		s.leave(c)
		return
	}
	s.start(c, s.open, time.Until(deadline))
}

// opened makes of a bare connection what its protocol is spoken on. Shutdown ends
// it. The deadline that it returns is later when the connection had to wait for a
// place.
func (s *Server) opened(c *Conn, deadline time.Time) (time.Time, error) {
	bare := c.conn
	if !s.beginOpening(bare) {
		return deadline, net.ErrClosed
	}
	defer s.endOpening(bare)
	if err := bare.SetDeadline(deadline); err != nil {
		return deadline, err
	}
	w := &wire{Conn: bare, from: c.from, exact: c.from.tls != nil}
	c.conn = w
	if c.from.Address.Proxy {
		if err := w.readProxy(); err != nil {
			return deadline, err
		}
		if why := s.rename(c, peerOf(w)); why != notRefused {
			s.refused[why].Add(1)
			return deadline, errOverLimit
		}
	}
	if c.from.tls != nil {
		t, later, err := s.door.secured(w, c.peer, deadline, s.cfg.LoginTimeout, s.stopping)
		if err != nil {
			return deadline, err
		}
		c.conn, deadline = lifted(t), later
	}
	return deadline, bare.SetDeadline(time.Time{})
}

// turnedAway tells that it was a limit's doing, or the server's end, and not the
// client's, that a connection was not opened. It counts who got no place.
func (s *Server) turnedAway(err error) bool {
	_ = s.notTaken(err) // err itself
	return errors.Is(err, errLineFull) || errors.Is(err, errWaitedLong) || errors.Is(err, errOverLimit) || s.closing()
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

var errOverLimit = errors.New("over a limit of its address")

// rename counts a connection for the peer that its proxy named, unless that one is
// at its limits.
func (s *Server) rename(c *Conn, peer netip.Addr) refusal {
	if !peer.IsValid() {
		return notRefused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[peer]
	if why := s.peerFull(p); why != notRefused {
		return why
	}
	if why := s.door.enter(peer); why != notRefused {
		return why
	}
	s.door.leave(c.peer)
	s.uncount(c)
	c.peer = peer
	p.open++
	p.pending++
	s.peers[peer] = p
	return notRefused
}

// unopened counts connections that did not get as far as their protocol.
type unopened [reasons]atomic.Uint64

// Reasons for that.
const (
	noTLS      = iota // the client does not speak TLS
	noProxy           // no PROXY header, a bad one, or from elsewhere
	noVersion         // TLS, but nothing that both speak (version, cipher, ALPN), or malformed
	badCert           // the client's certificate
	tooSlow           // not done within the login timeout
	goneBefore        // the client went away, or refused our certificate
	reasons
)

func (u *unopened) count(err error) {
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &record), errors.Is(err, errPlain):
		u[noTLS].Add(1)
	case errors.Is(err, errNoProxyHeader), errors.Is(err, errBadProxyHeader), errors.Is(err, errNoProxy):
		u[noProxy].Add(1)
	case errors.As(err, &cert), errors.Is(err, errClientCert), strings.Contains(err.Error(), "provide a certificate"):
		u[badCert].Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		u[tooSlow].Add(1)
	case isNegotiation(err):
		u[noVersion].Add(1)
	default:
		u[goneBefore].Add(1)
	}
}

// Unopened counts the connections that ended before their protocol began, by
// reason.
func (s *Server) Unopened() map[string]uint64 { return s.unopened.counts() }

func (u *unopened) counts() map[string]uint64 {
	names := [reasons]string{"no_tls", "proxy", "negotiation", "certificate", "timeout", "gone"}
	all := map[string]uint64{}
	for i, name := range names {
		all[name] = u[i].Load()
	}
	return all
}

// Certificate is the client's, which was verified; nil when it gave none.
func (c *Conn) Certificate() *x509.Certificate { return certificateOf(c.conn) }

// Listener is the name of the listener that the connection came to, that of HTTP
// for a WebSocket; "" when it came from elsewhere.
func (c *Conn) Listener() string {
	if c.from != nil {
		return c.from.Address.Name
	}
	if w := wireOf(c.conn); w != nil {
		return w.from.Address.Name
	}
	return ""
}

// Peer is the client's network address: what a proxy told, if the listener is
// for proxies. It is not valid for unix sockets, and for clients of which a proxy
// told no address, or one that would make them this machine's own.
func (c *Conn) Peer() netip.Addr { return addrOf(c.conn.RemoteAddr()) }

// errPlain is for a client that speaks TLS where there is none, and is counted
// like one that does not where there is.
var errPlain = errors.New("the client speaks TLS, and this listener does not")

// speaksTLS tells whether b begins as TLS does: a handshake record that holds a
// ClientHello.
func speaksTLS(b []byte) bool {
	return len(b) > 5 && b[0] == 0x16 && b[1] == 0x03 && b[2] <= 4 && b[5] == 0x01
}

// isNegotiation tells that crypto/tls ended a handshake, and not the client.
func isNegotiation(err error) bool {
	return strings.HasPrefix(err.Error(), "tls: ") || strings.HasPrefix(err.Error(), "local error: tls: ")
}
