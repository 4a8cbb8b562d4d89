package adapters

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// ClientAuth says what clients are asked for when TLS begins.
type ClientAuth string

// What a listener may ask for. A certificate that is given is always checked.
const (
	AuthOff     ClientAuth = "off"     // no certificate
	AuthRequest ClientAuth = "request" // one, if the client has any
	AuthRequire ClientAuth = "require" // one; who has none is refused
)

// Validate returns an error for a word that is not known.
func (a ClientAuth) Validate() error {
	switch a {
	case AuthOff, AuthRequest, AuthRequire:
		return nil
	}
	return fmt.Errorf("client_auth %q: off, request or require", string(a))
}

// policy is a for crypto/tls.
func (a ClientAuth) policy() tls.ClientAuthType {
	switch a {
	case AuthRequire:
		return tls.RequireAndVerifyClientCert
	case AuthRequest:
		return tls.VerifyClientCertIfGiven
	}
	return tls.NoClientCert
}

// TLSConfig is what listeners with TLS or DTLS have in common. Files are PEM.
type TLSConfig struct {
	// Certs and Keys are files that belong together by their place in the list.
	// A file of Certs holds a certificate and what leads from it to its CA. The
	// name that a client asks for chooses; the first is for all other clients.
	Certs []string `toml:"certs"`
	Keys  []string `toml:"keys"`
	// ClientCAs are files of the CAs whose certificates prove who a client is.
	ClientCAs []string `toml:"client_cas"`
	// CRLs are files of the certificates that those CAs revoked, PEM or DER.
	CRLs []string `toml:"crls"`
	// ClientAuth is for listeners that do not say it themselves.
	ClientAuth ClientAuth `toml:"client_auth"`
	// MinVersion is the oldest version of TLS that is spoken: "1.2" or "1.3".
	MinVersion string `toml:"min_version"`
}

// DefaultTLSConfig is what runs when nothing is set: no TLS.
func DefaultTLSConfig() TLSConfig {
	return TLSConfig{Certs: []string{}, Keys: []string{}, ClientCAs: []string{}, CRLs: []string{},
		ClientAuth: AuthOff, MinVersion: "1.2"}
}

// Validate returns an error for a setting that makes no sense. It does not read
// the files.
func (c TLSConfig) Validate() error {
	if err := c.ClientAuth.Validate(); err != nil {
		return err
	}
	switch {
	case len(c.Certs) != len(c.Keys):
		return fmt.Errorf("%d certs and %d keys: each file of certs has its key at the same place of keys", len(c.Certs), len(c.Keys))
	case c.ClientAuth != AuthOff && len(c.ClientCAs) == 0:
		return fmt.Errorf("client_auth %q: needs client_cas, the CAs of the clients' certificates", string(c.ClientAuth))
	case len(c.CRLs) > 0 && len(c.ClientCAs) == 0:
		return errors.New("crls: are those of client_cas, which is empty")
	case c.MinVersion != "1.2" && c.MinVersion != "1.3":
		return fmt.Errorf("min_version %q: 1.2 or 1.3", c.MinVersion)
	}
	return nil
}

func (c TLSConfig) minVersion() uint16 {
	if c.MinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// TLSMaterial is the certificates and keys of all listeners. What a Read
// finds in their place counts for handshakes from then on; connections that are
// open go on. Methods may be called from any goroutine.
type TLSMaterial struct {
	cfg     TLSConfig
	log     *slog.Logger
	current atomic.Pointer[material]
}

// NewTLSMaterial reads the files of cfg, which must be valid.
func NewTLSMaterial(cfg TLSConfig, log *slog.Logger) (*TLSMaterial, error) {
	t := &TLSMaterial{cfg: cfg, log: log.With("part", "tls")}
	apply, err := t.Read()
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	apply()
	return t, nil
}

// Read reads all files again and checks them; the error says which one is bad.
// They count from apply on.
func (t *TLSMaterial) Read() (apply func(), err error) {
	m, err := readMaterial(t.cfg)
	if err != nil {
		return nil, err
	}
	return func() {
		for _, w := range m.warnings(time.Now()) {
			t.log.Warn(w.text, "file", w.file)
		}
		t.current.Store(m)
	}, nil
}

// Config is for a listener's handshakes, which see every Read. auth goes before
// that of the settings unless it is ""; alpn are the protocols that clients may
// name (RFC 7301): who names others only is refused, who names none is not.
// Sessions are resumed across reloads, if the client's certificate is still good.
func (t *TLSMaterial) Config(auth ClientAuth, alpn ...string) *tls.Config {
	if auth == "" {
		auth = t.cfg.ClientAuth
	}
	c := &tls.Config{
		MinVersion: t.cfg.minVersion(),
		NextProtos: alpn,
		ClientAuth: auth.policy(),
		// The outbox gathers what can go at once.
		DynamicRecordSizingDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return t.current.Load().certificate(hello)
		},
		VerifyConnection: func(s tls.ConnectionState) error { return t.verify(s) },
	}
	if auth == AuthOff {
		return c
	}
	ofNow := c.Clone() // without keys for tickets: those of c count
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := ofNow.Clone()
		now.ClientCAs = t.current.Load().clientCAs
		return now, nil
	}
	return c
}

// Certificates are those of now, the first for clients that ask for no name that
// is known; not to be changed.
func (t *TLSMaterial) Certificates() []tls.Certificate { return t.current.Load().certs }

// Certificate is the one of now for a server's name.
func (t *TLSMaterial) Certificate(name string) (*tls.Certificate, error) {
	return t.current.Load().named(name)
}

// ClientCAs are those of now; not to be changed.
func (t *TLSMaterial) ClientCAs() *x509.CertPool { return t.current.Load().clientCAs }

// Settings are those that it was made from.
func (t *TLSMaterial) Settings() TLSConfig { return t.cfg }

// VerifyClient checks a client's certificate, which is the first, with the others
// that it sent, against the CAs and what they revoked, as of now.
func (t *TLSMaterial) VerifyClient(sent []*x509.Certificate) error {
	return t.current.Load().verify(sent, time.Now())
}

// verify is called at the end of every handshake, those too that resume a session
// from before a Read.
func (t *TLSMaterial) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil // what the listener requires is crypto/tls's to see to
	}
	return t.VerifyClient(s.PeerCertificates)
}
