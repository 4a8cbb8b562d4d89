package coap

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pion/dtls/v3"

	"entrepot/adapters"
)

// dtlsSocket is a UDP socket on which DTLS is spoken. It knows its clients by
// address and by connection id; a stranger is known to nobody until its
// ClientHello has a cookie.
type dtlsSocket struct {
	*socket
	name    string
	auth    adapters.ClientAuth
	tls     *adapters.TLSMaterial // nil: no certificates
	cookies *cookies
	fake    [32]byte // makes keys of identities that are not known

	mu      sync.Mutex
	opening map[netip.AddrPort]*association // those in their handshake
	byAddr  map[netip.AddrPort]*association // open, by where their handshake was
	byCID   map[string]*association
	stopped bool
}

// ServeDTLS answers DTLS clients on c until Shutdown, which closes it. a is its
// address; m has the certificates and may be nil where keys are shared. It returns
// at once, as Serve.
func (s *Server) ServeDTLS(c net.PacketConn, a adapters.Address, m *adapters.TLSMaterial) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return fmt.Errorf("%s server: %w", protocol, net.ErrClosed)
	}
	k := &dtlsSocket{socket: newSocket(s, c), name: a.Name, auth: a.ClientAuth, tls: m, cookies: newCookies(),
		opening: map[netip.AddrPort]*association{}, byAddr: map[netip.AddrPort]*association{},
		byCID: map[string]*association{}}
	_, _ = rand.Read(k.fake[:]) // never fails
	if k.auth == "" && m != nil {
		k.auth = m.Settings().ClientAuth
	}
	k.socket.take = k.receive
	s.sockets[c] = struct{}{}
	s.secure = append(s.secure, k)
	s.wg.Go(k.read)
	return nil
}

// receive takes a datagram to whom it belongs.
func (k *dtlsSocket) receive(b []byte, from netip.AddrPort) {
	switch {
	case len(b) <= recordHeader:
	case b[0] == recordCID:
		if len(b) > recordHeader+cidSize {
			k.pass(b, from, k.named(string(b[recordHeader-2:recordHeader-2+cidSize])))
		}
	case isHello(b):
		k.hello(b, from)
	default:
		k.mu.Lock()
		opening, open := k.opening[from], k.byAddr[from]
		k.mu.Unlock()
		// Either may have sent it; the other cannot read it.
		k.pass(b, from, opening)
		k.pass(b, from, open)
	}
}

func (k *dtlsSocket) pass(b []byte, from netip.AddrPort, to *association) {
	if to != nil {
		to.carrier.push(b, from)
	}
}

func (k *dtlsSocket) named(cid string) *association {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byCID[cid]
}

// hello answers a stranger's ClientHello with a cookie, of which nothing is kept,
// and lets it wait for its handshake when it comes back (RFC 6347, 4.2.1). One that
// is turned away is not told: it sends its ClientHello again.
func (k *dtlsSocket) hello(b []byte, from netip.AddrPort) {
	h, err := readHello(b)
	if err != nil {
		k.server.count(countMalformed)
		return
	}
	now := time.Now()
	if !k.cookies.valid(h, from, now) {
		var room [128]byte
		k.write(appendHelloVerify(room[:0], h, k.cookies.make(h, from, now)), from)
		return
	}
	if a, again := k.begun(h, from); again {
		k.pass(b, from, a)
		return
	}
	if k.server.broker.PutOff(k.credentials(from)) {
		k.server.count(countPutOff)
		return
	}
	peer := adapters.Peer(from.Addr())
	guest, err := k.server.streams.Admit(peer, func(own bool) bool {
		a := k.server.crowd.makeRoom(peer, own, now)
		k.server.putOut(a)
		return a != nil
	})
	if err != nil {
		k.server.count(countTurnedAway)
		return
	}
	k.begin(newAssociation(k, guest, h, b, from), peer, now)
}

// begun tells whether the ClientHello is that of a handshake which is under way,
// or was made.
func (k *dtlsSocket) begun(h *hello, from netip.AddrPort) (*association, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range [...]*association{k.opening[from], k.byAddr[from]} {
		if a != nil && a.random == string(h.random) {
			return a, true
		}
	}
	return nil, false
}

// begin lets an association's handshake go, when there is a place. One that is under
// way from the same address is over.
func (k *dtlsSocket) begin(a *association, peer netip.Addr, now time.Time) {
	k.mu.Lock()
	old, stopped := k.opening[a.began], k.stopped
	k.opening[a.began], k.byCID[a.cid] = a, a
	k.mu.Unlock()
	k.server.crowd.enter(a, peer, now)
	k.server.wg.Add(1) // serve's
	if old != nil {
		old.close()
	}
	if stopped {
		a.close()
	}
	a.guest.Begin(a.serve)
}

// opened notes that a handshake is done. An older association from the same
// address is over (RFC 6347, 4.2.8), but not one with a connection id: its client
// may be elsewhere by now, and another one have got the address. false: the server
// stops.
func (k *dtlsSocket) opened(a *association) bool {
	a.carrier.opened()
	a.guest.LoggedIn()
	k.mu.Lock()
	if k.opening[a.began] == a {
		delete(k.opening, a.began)
	}
	old := k.byAddr[a.began]
	k.byAddr[a.began] = a
	stopped := k.stopped
	k.mu.Unlock()
	if old != nil && !old.moves.Load() {
		old.close()
	}
	return !stopped
}

// remove forgets an association.
func (k *dtlsSocket) remove(a *association) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opening[a.began] == a {
		delete(k.opening, a.began)
	}
	if k.byAddr[a.began] == a {
		delete(k.byAddr, a.began)
	}
	delete(k.byCID, a.cid)
	k.server.crowd.leave(a)
}

// sweep ends the associations whose clients were not heard for long.
func (k *dtlsSocket) sweep(now time.Time) {
	for _, a := range k.all() {
		if now.Sub(time.Unix(a.heard.Load(), 0)) > k.server.cfg.DTLSIdle {
			a.close()
		}
	}
}

func (k *dtlsSocket) all() []*association {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*association, 0, len(k.byCID))
	for _, a := range k.byCID {
		all = append(all, a)
	}
	return all
}

// shut tells all clients good-bye; nobody comes in any more.
func (k *dtlsSocket) shut() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	for _, a := range k.all() {
		a.close()
	}
}

// count is how many associations there are.
func (k *dtlsSocket) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.byCID)
}

// suites are those that are spoken: what RFC 7252, 9.1.3 asks for, and what else
// is good.
func suites(psk, certificates bool) []dtls.CipherSuiteID {
	var all []dtls.CipherSuiteID
	if certificates {
		all = append(all, dtls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, dtls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			dtls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, dtls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
			dtls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, dtls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			dtls.TLS_ECDHE_ECDSA_WITH_AES_128_CCM, dtls.TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8)
	}
	if psk {
		all = append(all, dtls.TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256, dtls.TLS_ECDHE_PSK_WITH_AES_128_CBC_SHA256,
			dtls.TLS_PSK_WITH_AES_128_GCM_SHA256, dtls.TLS_PSK_WITH_CHACHA20_POLY1305_SHA256,
			dtls.TLS_PSK_WITH_AES_128_CCM, dtls.TLS_PSK_WITH_AES_128_CCM_8, dtls.TLS_PSK_WITH_AES_256_CCM_8)
	}
	return all
}

// options are those of one association's handshake.
func (k *dtlsSocket) options(a *association) []dtls.ServerOption {
	keys := k.server.psks.Load() != nil || k.server.broker.Door() != nil
	certificates := k.tls != nil && len(k.tls.Certificates()) > 0
	all := []dtls.ServerOption{
		dtls.WithCipherSuites(suites(keys, certificates)...),
		dtls.WithExtendedMasterSecret(dtls.RequestExtendedMasterSecret),
		dtls.WithConnectionIDGenerator(func() []byte {
			a.moves.Store(true)
			return []byte(a.cid)
		}),
	}
	if keys {
		all = append(all, dtls.WithPSK(func(identity []byte) ([]byte, error) { return k.keyOf(a, identity), nil }))
	}
	if !certificates {
		return all
	}
	all = append(all, dtls.WithGetCertificate(func(h *dtls.ClientHelloInfo) (*tls.Certificate, error) {
		return k.tls.Certificate(h.ServerName)
	}))
	if k.auth != "" && k.auth != adapters.AuthOff {
		ask := dtls.RequestClientCert
		if k.auth == adapters.AuthRequire {
			ask = dtls.RequireAnyClientCert
		}
		all = append(all, dtls.WithClientAuth(ask), dtls.WithVerifyPeerCertificate(func(raw [][]byte, _ [][]*x509.Certificate) error {
			err := k.verify(raw)
			if err != nil {
				a.claim.refuse()
			}
			return err
		}))
	}
	return all
}

var errNoCertificate = errors.New("no certificate")

// verify holds a client's certificates to the settings of now.
func (k *dtlsSocket) verify(raw [][]byte) error {
	if len(raw) == 0 {
		return errNoCertificate
	}
	sent := make([]*x509.Certificate, len(raw))
	for i, der := range raw {
		var err error
		if sent[i], err = x509.ParseCertificate(der); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	return k.tls.VerifyClient(sent)
}
