package adapters

import (
	"crypto/tls"
	"io"
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
