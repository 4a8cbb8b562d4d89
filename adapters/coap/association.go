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
	"sync/atomic"
	"time"

	"github.com/pion/dtls/v3"

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
	open    bool        // the handshake is done; under the socket's mu
}

func newAssociation(k *dtlsSocket, h *hello, datagram []byte, from netip.AddrPort) (*association, error) {
	a := &association{socket: k, carrier: newCarrier(k, h, datagram, from), began: from, random: string(h.random)}
	var name [16 + cidSize]byte
	_, _ = rand.Read(name[:]) // never fails
	a.number, a.cid = netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[:16])), 0), string(name[16:])
	a.at.Store(&from)
	a.hear()
	a.login = login{server: k.server, remote: from.String(), ended: a.kicked,
		proof: auth.Credentials{Protocol: protocol, Listener: k.name, Remote: from.Addr().Unmap()}}
	var err error
	a.tls, err = dtls.ServerWithOptions(a.carrier, net.UDPAddrFromAddrPort(from), k.options(a)...)
	a.carrier.tls = a.tls
	return a, err
}

func (a *association) route() route { return route{a, a.number} }

// serve makes the handshake and reads until the end.
func (a *association) serve() {
	k := a.socket
	err := a.handshake()
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
	k.server.leave(a.route(), &a.login, reason)
	// It may be closed already.
	_ = a.tls.Close()
}

// handshake makes it within its time, and notes what the client proved.
func (a *association) handshake() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.socket.server.cfg.Limits.LoginTimeout)
	defer cancel()
	if err := a.tls.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	state, ok := a.tls.ConnectionState()
	if !ok {
		return errors.New("handshake: no state")
	}
	a.login.proof.PSK = string(state.IdentityHint)
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
func (a *association) hear() { a.heard.Store(time.Now().Unix()) }

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

// where is the client's address.
func (a *association) where() netip.AddrPort { return *a.at.Load() }

// kicked is called by the core, from another goroutine, when it ended the
// session.
func (a *association) kicked(core.EndReason) { a.close() }

// close ends it from outside.
func (a *association) close() {
	a.socket.server.aside(func() { _ = a.tls.Close() }) // serve goes on
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
