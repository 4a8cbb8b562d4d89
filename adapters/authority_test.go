package adapters

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
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is a CA of a test, and the folder that its files go to.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64 // serial number
}

// signed is a certificate with its key, as files and ready for use.
type signed struct {
	certFile, keyFile string
	tls.Certificate
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = newKey(t)
	a.cert = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}, nil, &a.key.PublicKey)
	a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// file is a path in the authority's folder.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return a.file(name)
}

// sign completes a certificate; a nil parent is itself.
func (a *authority) sign(c, parent *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	if parent == nil {
		parent = c
	}
	a.last++
	c.SerialNumber = big.NewInt(a.last)
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(name string, c *x509.Certificate) signed {
	a.t.Helper()
	key := newKey(a.t)
	c.Subject.CommonName = name
	cert := a.sign(c, a.cert, &key.PublicKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed{
		a.write(name+".pem", "CERTIFICATE", cert.Raw), a.write(name+".key", "PRIVATE KEY", der),
		tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert},
	}
}

// server issues a certificate for hosts.
func (a *authority) server(name string, hosts ...string) signed {
	return a.issue(name, &x509.Certificate{DNSNames: hosts, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

// client issues a client's certificate.
func (a *authority) client(name string) signed {
	return a.issue(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// revoke writes NAME, a list of revocations.
func (a *authority) revoke(name string, certs ...signed) string {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name, "X509 CRL", der)
}

// pool is the CA alone.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// material reads settings, which are completed by their defaults.
func newMaterial(t testing.TB, c TLSConfig) *TLSMaterial {
	t.Helper()
	if c.ClientAuth == "" {
		c.ClientAuth = AuthOff
	}
	if c.MinVersion == "" {
		c.MinVersion = "1.2"
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	m, err := NewTLSMaterial(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
