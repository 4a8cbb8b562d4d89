package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pion/dtls/v3"
)

// coapLink takes a client's messages to the broker.
type coapLink interface {
	send(m *coapMessage) error
	close()
}

// udpLink is CoAP in datagrams that anybody may have sent.
type udpLink struct {
	net  *coapNet
	from *net.UDPAddr
}

func (l udpLink) send(m *coapMessage) error {
	l.net.in <- coapDatagram{m.encode(), l.from}
	return nil
}

func (l udpLink) close() {}

// dtlsLink is CoAP over DTLS (RFC 7252, 9).
type dtlsLink struct{ conn *dtls.Conn }

// openDTLS makes an association with the key of a user and reads from it.
func (a *coapActor) openDTLS(user, key string) error {
	end := &coapEnd{net: a.broker.dtls, in: make(chan []byte, 100), late: make(chan struct{})}
	end.at = a.broker.dtls.join(end.take)
	c, err := dtls.ClientWithOptions(end, a.broker.dtls.LocalAddr(), dtls.WithPSK(func([]byte) ([]byte, error) { return []byte(key), nil }),
		dtls.WithPSKIdentityHint([]byte(user)), dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_CCM_8))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		a.box.add(event{end: "no association"})
		return nil
	}
	a.link = dtlsLink{c}
	go func() {
		b := make([]byte, 2000)
		for {
			n, err := c.Read(b)
			if err != nil {
				a.box.add(event{end: "closed"})
				return
			}
			a.take(append([]byte(nil), b[:n]...))
		}
	}()
	return nil
}

func (l dtlsLink) send(m *coapMessage) error {
	_, err := l.conn.Write(m.encode())
	return err
}

func (l dtlsLink) close() { _ = l.conn.Close() } // the broker may have closed it

// coapEnd is a client's socket on a coapNet, a net.PacketConn.
type coapEnd struct {
	net *coapNet
	at  *net.UDPAddr
	in  chan []byte

	mu   sync.Mutex
	late chan struct{} // closed when the deadline is over
}

func (e *coapEnd) take(b []byte) { e.in <- append([]byte(nil), b...) }

func (e *coapEnd) ReadFrom(b []byte) (int, net.Addr, error) {
	e.mu.Lock()
	late := e.late
	e.mu.Unlock()
	select {
	case d := <-e.in:
		return copy(b, d), e.net.LocalAddr(), nil
	case <-late:
		return 0, nil, os.ErrDeadlineExceeded
	}
}

func (e *coapEnd) WriteTo(b []byte, _ net.Addr) (int, error) {
	e.net.in <- coapDatagram{append([]byte(nil), b...), e.at}
	return len(b), nil
}

func (e *coapEnd) Close() error                       { return e.SetReadDeadline(time.Unix(1, 0)) }
func (e *coapEnd) LocalAddr() net.Addr                { return e.at }
func (e *coapEnd) SetDeadline(t time.Time) error      { return e.SetReadDeadline(t) }
func (e *coapEnd) SetWriteDeadline(_ time.Time) error { return nil }

// SetReadDeadline is used with a past time, or none.
func (e *coapEnd) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	over := false
	select {
	case <-e.late:
		over = true
	default:
	}
	switch {
	case t.IsZero() && over:
		e.late = make(chan struct{})
	case !t.IsZero() && !over:
		close(e.late)
	}
	return nil
}

// csm is the code of the first message of both.
const csm = 7<<5 | 1

// streamLink is CoAP over TLS (RFC 8323).
type streamLink struct{ conn net.Conn }

// openTLS connects by a pipe with a user's certificate, and reads from it.
func (a *coapActor) openTLS(user string) error {
	ours, theirs, err := newTrust(user)
	if err != nil {
		return err
	}
	here, there := net.Pipe()
	client, server := tls.Client(here, ours), tls.Server(there, theirs)
	made := make(chan error, 1)
	go func() { made <- client.Handshake() }()
	if err := server.Handshake(); err != nil {
		return err
	}
	if err := <-made; err != nil {
		return err
	}
	a.broker.coap.ServeConn(server)
	a.link = streamLink{client}
	go func() {
		r := bufio.NewReader(client)
		for {
			m, err := readCoAPFrame(r)
			if err != nil {
				a.box.add(event{end: ending(err)})
				return
			}
			if m.code != csm {
				a.see(m)
			}
		}
	}()
	_, err = client.Write([]byte{0, csm})
	return err
}

func (l streamLink) send(m *coapMessage) error {
	_, err := l.conn.Write(m.encodeFrame())
	return err
}

func (l streamLink) close() { _ = l.conn.Close() } // the broker may have closed it

// encodeFrame is the message on a stream, with the same token as encode's.
func (m *coapMessage) encodeFrame() []byte {
	body := m.encode()[6:]
	var b []byte
	switch n := len(body); {
	case n < 13:
		b = []byte{byte(n)<<4 | 2}
	case n < 269:
		b = []byte{13<<4 | 2, byte(n - 13)}
	default:
		b = binary.BigEndian.AppendUint16([]byte{14<<4 | 2}, uint16(n-269))
	}
	return append(append(b, m.code, byte(m.id>>8), byte(m.id)), body...)
}

// readCoAPFrame reads what the broker sends on a stream, which is well-formed.
func readCoAPFrame(r *bufio.Reader) (*coapMessage, error) {
	first, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	n := int(first >> 4)
	if extended := [16]int{13: 1, 14: 2, 15: 4}[n]; extended > 0 {
		long := make([]byte, 8)
		if _, err := io.ReadFull(r, long[8-extended:]); err != nil {
			return nil, err
		}
		n = [16]int{13: 13, 14: 269, 15: 65805}[n] + int(binary.BigEndian.Uint64(long))
	}
	rest := make([]byte, 1+int(first&15)+n)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	// As a datagram it has a kind, which is not shown, and an id.
	m := decodeCoAP(append([]byte{0x40 | first&15, rest[0], 0, 0}, rest[1:]...))
	m.kind = onStream
	return m, nil
}

// newTrust makes the settings of a client whose certificate names a user, and of
// a server that knows its CA.
func newTrust(user string) (client, server *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	known := x509.NewCertPool()
	known.AddCert(cert)
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return &tls.Config{Certificates: own, RootCAs: known, ServerName: "localhost"},
		&tls.Config{Certificates: own, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true}, nil
}
