package coap

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/dtls/v3"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
)

// cidSize is the length of the connection ids that clients are given.
const cidSize = 8

// maxRecord is the most that a message over DTLS may have.
const maxRecord = 4 << 10

// association is one DTLS client: a link of datagrams of its own. It lives as
// long as its keys, wherever the client's datagrams come from (RFC 9146).
type association struct {
	socket  *dtlsSocket
	carrier *carrier
	tls     *dtls.Conn
	cid     string
	random  string         // the client's, of its ClientHello
	number  netip.AddrPort // in place of an address, which may change
	began   netip.AddrPort // where the handshake was
	at      atomic.Pointer[netip.AddrPort]
	heard   atomic.Int64 // when, in seconds
	login   login
	moves   atomic.Bool // it has a connection id, and is not bound to an address
	guest   *adapters.Guest
	seat    seat // in the crowd, under its mu
	claim   claim

	mu     sync.Mutex
	closed bool
}

// newAssociation is one that waits for its handshake. Nothing is kept of it yet but
// the datagram.
func newAssociation(k *dtlsSocket, g *adapters.Guest, h *hello, datagram []byte, from netip.AddrPort) *association {
	a := &association{socket: k, carrier: newCarrier(k, g, h, datagram, from), guest: g, began: from, random: string(h.random)}
	var name [16 + cidSize]byte
	_, _ = rand.Read(name[:]) // never fails
	a.number, a.cid = netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[:16])), 0), string(name[16:])
	a.at.Store(&from)
	a.hear()
	a.login = login{server: k.server, remote: from.String(), ended: a.kicked, proof: k.credentials(from),
		opens: func(user string) { k.server.crowd.know(a, user, time.Now()) }, full: k.server.makeRoomOf}
	return a
}

// credentials are what is known of a client before its handshake.
func (k *dtlsSocket) credentials(from netip.AddrPort) auth.Credentials {
	return auth.Credentials{Protocol: protocol, Listener: k.name, Remote: from.Addr().Unmap()}
}

func (a *association) route() route { return route{a, a.number} }

// serve makes the handshake and reads until the end. err says that there was no
// place for that.
func (a *association) serve(err error) {
	k := a.socket
	defer k.server.wg.Done()
	if err == nil {
		err = a.begin()
	}
	if err == nil {
		err = a.handshake()
		if err != nil {
			k.server.unproved(a, err)
		}
	}
	if err == nil && k.opened(a) {
		err = a.read()
	}
	reason := core.CloseLost
	switch {
	case k.server.stopping():
		reason = core.CloseShutdown
	case err == nil:
		reason = core.CloseNormal
	}
	k.server.log.Debug("association ended", "remote", a.where().String(), "error", err)
	k.remove(a)
	a.guest.Leave()
	k.server.leave(a.route(), &a.login, reason)
	if a.tls != nil {
		// It may be closed already.
		_ = a.tls.Close()
	}
}

// begin lets the library in.
func (a *association) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return net.ErrClosed
	}
	c, err := dtls.ServerWithOptions(a.carrier, net.UDPAddrFromAddrPort(a.began), a.socket.options(a)...)
	if err != nil {
		return fmt.Errorf("DTLS: %w", err)
	}
	a.tls, a.carrier.tls = c, c
	return nil
}

// errHandshakeTime ends a handshake that took too long.
var errHandshakeTime = errors.New("not done in time")

// handshake makes it within its time, in which waits for a place do not count, and
// notes what the client proved.
func (a *association) handshake() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	patience := a.socket.server.cfg.Limits.LoginTimeout
	timer := time.AfterFunc(patience, func() { cancel(errHandshakeTime) })
	defer timer.Stop()
	a.carrier.pause, a.carrier.resume = func() { timer.Stop() }, func() { timer.Reset(patience) }
	if err := a.tls.HandshakeContext(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("handshake: %w", err)
	}
	state, ok := a.tls.ConnectionState()
	if !ok {
		return errors.New("handshake: no state")
	}
	a.login.proof.PSK = string(state.IdentityHint)
	a.login.proof.User = a.login.proof.PSK
	if len(state.PeerCertificates) > 0 {
		c, err := x509.ParseCertificate(state.PeerCertificates[0])
		if err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		a.login.proof.Certificate = c
	}
	return nil
}

// read takes messages until the client or the broker ends it.
func (a *association) read() error {
	s := a.socket.server
	buf := make([]byte, maxRecord)
	for {
		n, err := a.tls.Read(buf)
		if err != nil {
			var passing *dtls.TemporaryError
			switch {
			case errors.As(err, &passing): // a record that is larger than any message
				s.count(countMalformed)
				continue
			case errors.Is(err, io.EOF):
				return nil
			}
			return err
		}
		a.hear()
		a.follow()
		in := s.receivers.get()
		in.receive(buf[:n], a.route())
		s.receivers.put(in)
	}
}

// hear notes that something came that only the client can have sent.
func (a *association) hear() {
	now := time.Now()
	if a.heard.Swap(now.Unix()) != now.Unix() {
		a.socket.server.crowd.heard(a, now)
	}
}

// follow notes where the client's newest datagram came from, which the library
// takes for its address (RFC 9146, 6). What was known of the old one does not
// hold there.
func (a *association) follow() {
	at, ok := a.tls.RemoteAddr().(*net.UDPAddr)
	if !ok {
		return
	}
	now := at.AddrPort()
	if was := *a.at.Load(); was == now {
		return
	}
	a.at.Store(&now)
	a.socket.server.count(countMoved)
	if p := a.socket.server.known(a.route()); p != nil {
		p.mu.Lock()
		p.proven = false
		p.mu.Unlock()
	}
}

// left tells that the broker ended it.
func (a *association) left() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// where is the client's address.
func (a *association) where() netip.AddrPort { return *a.at.Load() }

// kicked is called by the core, from another goroutine, when it ended the
// session.
func (a *association) kicked(core.EndReason) { a.close() }

// close ends it from outside; serve goes on, and cleans up.
func (a *association) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if c := a.tls; c != nil {
		a.socket.server.aside(func() { _ = c.Close() })
		return
	}
	a.guest.Leave()
}

// send implements link.
func (a *association) send(m *outgoingPacket, to netip.AddrPort) {
	buf := a.socket.server.bufs.get()
	buf.b = m.append(buf.b)
	a.write(buf.b, to)
	a.socket.server.bufs.put(buf)
}

// write implements datagrams.
func (a *association) write(b []byte, _ netip.AddrPort) {
	// A datagram may be lost anywhere.
	_, _ = a.tls.Write(b)
}

// identity implements link.
func (a *association) identity() (*core.Session, error) { return a.login.get() }

// proven implements link: by the cookie of the handshake, but not where the client
// may have moved to.
func (a *association) proven(netip.AddrPort) bool {
	at := a.where()
	return at == a.began || at.Addr().Unmap().IsLoopback()
}
