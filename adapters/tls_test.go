package adapters

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// secured is a fixture that listens with TLS on a free port.
type secured struct {
	*fixture
	at       string
	material *TLSMaterial
}

func newSecured(t testing.TB, c TLSConfig, options string, alpn ...string) *secured {
	t.Helper()
	return listening(t, newFixture(testConfig(), nil), c, options, alpn...)
}

// listening makes a fixture listen.
func listening(t testing.TB, f *fixture, c TLSConfig, options string, alpn ...string) *secured {
	t.Helper()
	s := &secured{fixture: f, material: newMaterial(t, c)}
	a, err := ParseAddress("tls:127.0.0.1:0"+options, OverTCP)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Gate{TLS: s.material}.Listen(a, alpn...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	s.at = l.Addr().String()
	return s
}

// dial shakes hands and logs in.
func (s *secured) dial(c *tls.Config) (*tls.Conn, error) {
	conn, err := tls.Dial("tcp", s.at, c)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(frame("in")); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		return nil, err
	}
	return conn, nil
}

func TestTLSOnAListener(t *testing.T) {
	ca := newAuthority(t, "test CA")
	server := ca.server("server", "localhost")
	s := newSecured(t, TLSConfig{Certs: []string{server.certFile}, Keys: []string{server.keyFile}}, "")
	defer s.end(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c, err := s.dial(&tls.Config{RootCAs: ca.pool(), ServerName: "localhost", MaxVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().Version; got != version {
			t.Errorf("version %x", got)
		}
		c.Close()
	}
}

// Who may log in by certificate: those of the CAs, in their time, for
// clients, not revoked; and a reload counts for the next handshake, a resumed one
// too.
// It shows fault 56.
func TestClientCertificates(t *testing.T) {
	ca, other := newAuthority(t, "test CA"), newAuthority(t, "test CA") // of the same name
	host, ann, bob := ca.server("host", "localhost"), ca.client("ann"), ca.client("bob")
	crl := ca.revoke("crl.pem")
	s := newSecured(t, TLSConfig{Certs: []string{host.certFile}, Keys: []string{host.keyFile},
		ClientCAs: []string{ca.file("ca.pem")}, CRLs: []string{crl}}, "?client_auth=require")
	defer s.end(t)
	old := ca.issue("old", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		with := func(certs ...tls.Certificate) *tls.Config {
			return &tls.Config{RootCAs: ca.pool(), ServerName: "localhost", MaxVersion: version, Certificates: certs}
		}
		for name, cert := range map[string][]tls.Certificate{
			"none": nil, "of another CA": {other.client("eve").Certificate}, "over": {old.Certificate}, "a server's": {host.Certificate},
		} {
			if c, err := s.dial(with(cert...)); err == nil {
				c.Close()
				t.Errorf("%s: let in", name)
			}
		}
		cache := with(ann.Certificate)
		cache.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for turn := range 2 {
			c, err := s.dial(cache)
			if err != nil {
				t.Fatal(err)
			}
			if cert := s.last().conn.Certificate(); cert == nil || cert.Subject.CommonName != "ann" {
				t.Errorf("the broker sees %v", cert)
			}
			if c.ConnectionState().DidResume != (turn == 1) {
				t.Errorf("resumed %v at turn %d", c.ConnectionState().DidResume, turn)
			}
			c.Close()
		}
		there, err := s.dial(with(ann.Certificate))
		if err != nil {
			t.Fatal(err)
		}
		ca.revoke("crl.pem", ann)
		s.reload(t)
		if c, err := s.dial(cache); err == nil {
			c.Close()
			t.Error("a revoked certificate resumed a session")
		}
		if c, err := s.dial(with(ann.Certificate)); err == nil {
			c.Close()
			t.Error("a revoked certificate was let in")
		}
		if c, err := s.dial(with(bob.Certificate)); err != nil {
			t.Errorf("another certificate: %v", err)
		} else {
			c.Close()
		}
		send(t, there, "ask")
		receive(t, there, "told")
		there.Close()
		ca.revoke("crl.pem")
		s.reload(t)
	}
	if n := s.Unopened()["certificate"]; n < 10 {
		t.Errorf("%d counted: %v", n, s.Unopened())
	}
}

func (s *secured) reload(t *testing.T) {
	t.Helper()
	apply, err := s.material.Read()
	if err != nil {
		t.Fatal(err)
	}
	apply()
}

// The name that a client asks for chooses the certificate; others get the first.
func TestServerNames(t *testing.T) {
	ca := newAuthority(t, "test CA")
	one, two := ca.server("one", "one.example"), ca.server("two", "*.two.example", "two.example")
	s := newSecured(t, TLSConfig{Certs: []string{one.certFile, two.certFile}, Keys: []string{one.keyFile, two.keyFile}}, "")
	defer s.end(t)
	for name, want := range map[string]string{"one.example": "one", "two.example": "two", "a.two.example": "two", "three.example": "one", "": "one"} {
		c, err := s.dial(&tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("%q: %s", name, got)
		}
		c.Close()
	}
}

// Bad files are named, and nothing counts that was read beside them.
func TestBadFiles(t *testing.T) {
	ca, other := newAuthority(t, "CA"), newAuthority(t, "another CA")
	host, leaf := ca.server("host", "localhost"), ca.client("ann")
	good := TLSConfig{Certs: []string{host.certFile}, Keys: []string{host.keyFile}, ClientCAs: []string{ca.file("ca.pem")}}
	open := ca.server("open", "localhost").keyFile
	if err := os.Chmod(open, 0o604); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		set  func(*TLSConfig)
		want string
	}{
		"no certificate": {func(c *TLSConfig) { c.Certs = []string{"/no/such/file"} }, "certificate: stat /no/such/file"},
		"a folder":       {func(c *TLSConfig) { c.Certs = []string{ca.dir} }, "not a regular file"},
		"a key for all":  {func(c *TLSConfig) { c.Keys = []string{open} }, "key: " + open + ": mode 0604 lets everybody use it; chmod 600"},
		"another key":    {func(c *TLSConfig) { c.Keys = []string{leaf.keyFile} }, "does not match"},
		"no key":         {func(c *TLSConfig) { c.Keys = []string{host.certFile} }, "certificate " + host.certFile},
		"no CA":          {func(c *TLSConfig) { c.ClientCAs = []string{leaf.certFile} }, "is not a CA's"},
		"no CA in it":    {func(c *TLSConfig) { c.ClientCAs = []string{host.keyFile} }, "no certificate in it"},
		"no CRL":         {func(c *TLSConfig) { c.CRLs = []string{host.keyFile} }, "no list of revocations"},
		"another's CRL":  {func(c *TLSConfig) { c.CRLs = []string{other.revoke("crl.pem")} }, "not signed by one of client_cas"},
	} {
		bad := good
		c.set(&bad)
		if _, err := readMaterial(bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What does not begin with TLS, never ends beginning, or does so on a plain
// listener is ended, counted, and costs the others nothing.
func TestBadBeginnings(t *testing.T) {
	ca := newAuthority(t, "CA")
	host := ca.server("host", "localhost")
	cfg := testConfig()
	cfg.LoginTimeout = 300 * time.Millisecond
	s := listening(t, newFixture(cfg, nil), TLSConfig{Certs: []string{host.certFile}, Keys: []string{host.keyFile}}, "", "mqtt")
	defer s.end(t)
	hello := "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03"
	for say, reason := range map[string]string{
		"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00": "no_tls", "GET / HTTP/1.1\r\n\r\n": "no_tls",
		"": "timeout", "\x16": "timeout", hello: "timeout",
		"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00": "negotiation",
	} {
		before := s.Unopened()[reason]
		c, err := net.Dial("tcp", s.at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(say)); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.Copy(io.Discard, c) // an alert may come, and a reset
		c.Close()
		soon(t, fmt.Sprintf("%q is counted: %v", say, s.Unopened()), func() bool { return s.Unopened()[reason] == before+1 })
	}
	plain := newFixture(testConfig(), nil)
	defer plain.end(t)
	c, server := dialled(t, "127.0.0.1:0")
	plain.ServeConn(server)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if err := tls.Client(c, &tls.Config{ServerName: "localhost"}).Handshake(); err == nil {
		t.Error("a handshake on a plain listener")
	}
	c.Close()
	soon(t, "counted", func() bool { return plain.Unopened()["no_tls"] == 1 })
}
