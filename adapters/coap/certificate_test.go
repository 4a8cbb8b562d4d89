package coap

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
)

// office makes certificates, and lists of those that it revoked.
type office struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	made int64
	list int64
}

func newOffice(t *testing.T) *office {
	o := &office{t: t, dir: t.TempDir()}
	c := o.issue("office", func(c *x509.Certificate) { c.IsCA = true })
	o.cert, o.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	o.revoke()
	return o
}

func (o *office) file(name string) string { return filepath.Join(o.dir, name) }

func (o *office) write(name, kind string, der []byte) {
	o.t.Helper()
	if err := os.WriteFile(o.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// issue makes NAME.crt and NAME.key; the first is the office's own.
func (o *office) issue(name string, change func(*x509.Certificate)) tls.Certificate {
	o.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		o.t.Fatal(err)
	}
	o.made++
	c := &x509.Certificate{SerialNumber: big.NewInt(o.made), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	change(c)
	parent, signer := o.cert, o.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		o.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		o.t.Fatal(err)
	}
	o.write(name+".crt", "CERTIFICATE", der)
	o.write(name+".key", "PRIVATE KEY", private)
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		o.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// revoke writes a new list.
func (o *office) revoke(all ...tls.Certificate) {
	o.t.Helper()
	o.list++
	list := &x509.RevocationList{Number: big.NewInt(o.list), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range all {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, o.cert, o.key)
	if err != nil {
		o.t.Fatal(err)
	}
	o.write("revoked.crl", "X509 CRL", der)
}

// asked is whom the broker took the last publisher for.
type asked struct {
	mu  sync.Mutex
	who string
}

func (a *asked) policy(who auth.Principal, act auth.Action, _ auth.Object) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if act == auth.Publish {
		a.who = who.User
	}
	return nil
}

func (a *asked) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	who := a.who
	a.who = ""
	return who
}

// certified is a server with DTLS and TLS whose clients need certificates, which
// name users by a rule.
type certified struct {
	*secured
	asked    asked
	material *adapters.TLSMaterial
	stream   net.Addr
}

func newCertified(t *testing.T, o *office, rule string) *certified {
	t.Helper()
	cfg := adapters.DefaultTLSConfig()
	cfg.Certs, cfg.Keys = []string{o.file("server.crt")}, []string{o.file("server.key")}
	cfg.ClientCAs, cfg.CRLs, cfg.ClientAuth = []string{o.file("office.crt")}, []string{o.file("revoked.crl")}, adapters.AuthRequire
	m, err := adapters.NewTLSMaterial(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &certified{secured: newSecuredOf(t, DefaultConfig(), core.DefaultConfig(), l, m), material: m}
	who := auth.DefaultConfig()
	who.Certificate.User = rule
	door, err := who.Door()
	if err != nil {
		t.Fatal(err)
	}
	s.broker.SetDoor(door)
	s.broker.SetPolicy(s.asked.policy)
	a, err := adapters.ParseAddress("tls:127.0.0.1:0", adapters.OverTCP)
	if err != nil {
		t.Fatal(err)
	}
	at, err := adapters.Gate{TLS: m}.Listen(a, "coap")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ServeStream(at); err != nil {
		t.Fatal(err)
	}
	s.stream = at.Addr()
	return s
}

var putOne = outgoingPacket{kind: message.Confirmable, code: codes.PUT, id: 1, payload: []byte("1")}

// put publishes over DTLS or TLS with a certificate. The code is 0 when the client
// did not get in.
func (s *certified) put(t *testing.T, transport string, c tls.Certificate) codes.Code {
	t.Helper()
	m := putOne
	m.options = options([]string{"t", "a"})
	if transport == "dtls" {
		conn, err := dial(t, s.at, dtls.WithCertificates(c), dtls.WithInsecureSkipVerify(true))
		if err != nil {
			return 0
		}
		return exchangeOn(t, conn, &m).code
	}
	conn, err := tls.Dial("tcp", s.stream.String(), &tls.Config{Certificates: []tls.Certificate{c}, InsecureSkipVerify: true, NextProtos: []string{"coap"}})
	if err != nil {
		return 0
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append(framed(csm(2000)), framed(&m)...)); err != nil {
		return 0
	}
	var in []byte
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return 0
		}
		for in = append(in, buf[:n]...); ; {
			h, ok, err := readFrameHeader(in)
			if err != nil {
				t.Fatal(err)
			}
			if !ok || uint64(len(in)) < h.size {
				break
			}
			if code := codes.Code(in[h.tokenAt-1]); code < 7<<5 {
				return code
			}
			in = in[h.size:]
		}
	}
}

// The rule of the settings makes the user of a certificate, by its common name or
// by its only name of a kind; who has none of it, or two, is not let do anything
// (RFC 7252, 9.1.3.3). It is the same over DTLS and TLS.
func TestCertificateNamesTheUser(t *testing.T) {
	o := newOffice(t)
	o.issue("server", func(*x509.Certificate) {})
	plain := o.issue("dev-7", func(*x509.Certificate) {})
	named := o.issue("other", func(c *x509.Certificate) { c.DNSNames = []string{"dev-8.example"} })
	twice := o.issue("twice", func(c *x509.Certificate) { c.DNSNames = []string{"a.example", "b.example"} })
	for _, c := range []struct {
		rule string
		cert tls.Certificate
		user string // "": refused
	}{
		{"{cn}", plain, "dev-7"}, {"device {cn}", plain, "device dev-7"},
		{"{dns}", named, "dev-8.example"}, {"{dns}", plain, ""}, {"{dns}", twice, ""},
	} {
		s := newCertified(t, o, c.rule)
		for _, transport := range []string{"dtls", "tls"} {
			code := s.put(t, transport, c.cert)
			if got := s.asked.take(); got != c.user || (code>>5 == 2) != (c.user != "") || c.user == "" && code != codes.Unauthorized {
				t.Errorf("%s, %s over %s: %q, %v", c.rule, c.cert.Leaf.Subject.CommonName, transport, got, code)
			}
		}
	}
}

// A certificate that was revoked is refused from the reload on, over DTLS and TLS,
// others are not; so is one of another office, and none at all. What is open goes
// on. It shows fault 56.
func TestCertificateIsRevoked(t *testing.T) {
	o := newOffice(t)
	o.issue("server", func(*x509.Certificate) {})
	good := o.issue("good", func(*x509.Certificate) {})
	bad := o.issue("bad", func(*x509.Certificate) {})
	foreign := newOffice(t).issue("good", func(*x509.Certificate) {})
	s := newCertified(t, o, "{cn}")
	for _, transport := range []string{"dtls", "tls"} {
		for _, c := range []tls.Certificate{good, bad} {
			if code := s.put(t, transport, c); code>>5 != 2 {
				t.Errorf("%s over %s: %v", c.Leaf.Subject.CommonName, transport, code)
			}
		}
		if code := s.put(t, transport, foreign); code != 0 {
			t.Errorf("one of another office over %s: %v", transport, code)
		}
	}
	if code := s.put(t, "tls", tls.Certificate{}); code != 0 {
		t.Errorf("none at all: %v", code)
	}
	open := mustDial(t, s.at, dtls.WithCertificates(bad), dtls.WithInsecureSkipVerify(true))
	before := s.Unopened()["certificate"]
	o.revoke(bad)
	apply, err := s.material.Read()
	if err != nil {
		t.Fatal(err)
	}
	apply()
	for _, transport := range []string{"dtls", "tls"} {
		if code := s.put(t, transport, bad); code != 0 {
			t.Errorf("what was revoked over %s: %v", transport, code)
		}
		if code := s.put(t, transport, good); code>>5 != 2 {
			t.Errorf("what was not, over %s: %v", transport, code)
		}
	}
	m := putOne
	m.options = options([]string{"t", "a"})
	if p := exchangeOn(t, open, &m); p.code>>5 != 2 {
		t.Errorf("what was open: %+v", p)
	}
	until(t, "both are counted", func() bool { return s.Unopened()["certificate"] == before+2 })
}
