package adapters

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"entrepot/core/auth"
)

// maxPEM bounds what is read of one file of certificates, keys or revocations.
const maxPEM = 32 << 20

// material is what the files of a TLSConfig hold. It does not change.
type material struct {
	certs     []tls.Certificate
	certFiles []string
	clientCAs *x509.CertPool
	revoked   []revocations
}

// revocations are one CA's.
type revocations struct {
	issuer  *x509.Certificate
	serials map[string]bool // as big-endian bytes
	until   time.Time       // when the next list is due; zero: not said
	file    string
}

func readMaterial(c TLSConfig) (*material, error) {
	m := &material{clientCAs: x509.NewCertPool(), certFiles: c.Certs}
	for i := range c.Certs {
		cert, err := readKeyPair(c.Certs[i], c.Keys[i])
		if err != nil {
			return nil, err
		}
		m.certs = append(m.certs, cert)
	}
	var cas []*x509.Certificate
	for _, file := range c.ClientCAs {
		found, err := readCertificates(file)
		if err != nil {
			return nil, err
		}
		cas = append(cas, found...)
	}
	for _, ca := range cas {
		m.clientCAs.AddCert(ca)
	}
	for _, file := range c.CRLs {
		found, err := readRevocations(file, cas)
		if err != nil {
			return nil, err
		}
		m.revoked = append(m.revoked, found...)
	}
	return m, nil
}

// readKeyPair reads what belongs together. The key must not be readable by
// everybody.
func readKeyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := readPublic(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	key, err := auth.ReadSecret(keyFile, maxPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		// The errors name neither file, and quote neither.
		return tls.Certificate{}, fmt.Errorf("certificate %s with key %s: %s", certFile, keyFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return pair, nil
}

func readPublic(file string) ([]byte, error) {
	f, err := auth.ReadSmallFile(file, maxPEM)
	return f.Text, err
}

func readCertificates(file string) ([]*x509.Certificate, error) {
	text, err := readPublic(file)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("client CA %s: certificate %d: %w", file, len(all)+1, err)
		}
		if c.Version >= 3 && !c.IsCA {
			return nil, fmt.Errorf("client CA %s: certificate %d (%s) is not a CA's", file, len(all)+1, c.Subject)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("client CA %s: no certificate in it", file)
	}
	return all, nil
}

// readRevocations reads the lists of a file, each of which must be signed by one
// of cas.
func readRevocations(file string, cas []*x509.Certificate) ([]revocations, error) {
	text, err := readPublic(file)
	if err != nil {
		return nil, fmt.Errorf("CRL: %w", err)
	}
	var lists [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "X509 CRL" {
			lists = append(lists, block.Bytes)
		}
	}
	if len(lists) == 0 {
		lists = append(lists, text) // DER
	}
	var all []revocations
	for _, der := range lists {
		r, err := parseRevocations(der, cas)
		if err != nil {
			return nil, fmt.Errorf("CRL %s: %w", file, err)
		}
		r.file = file
		all = append(all, r)
	}
	return all, nil
}

func parseRevocations(der []byte, cas []*x509.Certificate) (revocations, error) {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return revocations{}, fmt.Errorf("no list of revocations in it: %w", err)
	}
	if err := checkExtensions(list); err != nil {
		return revocations{}, err
	}
	r := revocations{serials: map[string]bool{}, until: list.NextUpdate}
	for _, ca := range cas {
		if bytes.Equal(ca.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(ca) == nil {
			r.issuer = ca
		}
	}
	if r.issuer == nil {
		return r, fmt.Errorf("not signed by one of client_cas, but by %q", list.Issuer)
	}
	for _, e := range list.RevokedCertificateEntries {
		r.serials[string(e.SerialNumber.Bytes())] = true
	}
	return r, nil
}

// checkExtensions refuses lists that say less than that their entries are revoked
// by their issuer (RFC 5280, 5.2): differences to another list, and those that
// hold other issuers' entries.
func checkExtensions(list *x509.RevocationList) error {
	for _, e := range list.Extensions {
		if !e.Critical {
			continue
		}
		if !e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 28}) { // issuingDistributionPoint
			return fmt.Errorf("critical extension %s is not known", e.Id)
		}
		var fields []asn1.RawValue
		_, err := asn1.Unmarshal(e.Value, &fields)
		if err != nil || slices.ContainsFunc(fields, indirect) {
			return errors.New("a list of several issuers' revocations cannot be used")
		}
	}
	return nil
}

// indirect is the field indirectCRL, set.
func indirect(v asn1.RawValue) bool { return v.Tag == 4 && !bytes.Equal(v.Bytes, []byte{0}) }

// certificate chooses for a client.
func (m *material) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	for i := range m.certs {
		if hello.SupportsCertificate(&m.certs[i]) == nil {
			return &m.certs[i], nil
		}
	}
	return m.named("")
}

var errNoCertificate = errors.New("tls: no certificate is set")

// named is the first certificate that is good for a name, or the first of all.
func (m *material) named(name string) (*tls.Certificate, error) {
	if len(m.certs) == 0 {
		return nil, errNoCertificate
	}
	for i := range m.certs {
		if name != "" && m.certs[i].Leaf.VerifyHostname(name) == nil {
			return &m.certs[i], nil
		}
	}
	return &m.certs[0], nil
}

// verify checks a client's chain to a CA, its times, its purpose, and that no
// link of it is revoked.
func (m *material) verify(sent []*x509.Certificate, now time.Time) error {
	if len(sent) == 0 {
		return fmt.Errorf("%w: none", errClientCert)
	}
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	chains, err := sent[0].Verify(x509.VerifyOptions{Roots: m.clientCAs, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("%w: %w", errClientCert, err)
	}
	for _, chain := range chains {
		if !m.anyRevoked(chain) {
			return nil
		}
	}
	return fmt.Errorf("%w: revoked", errClientCert)
}

var errClientCert = errors.New("tls: client certificate")

func (m *material) anyRevoked(chain []*x509.Certificate) bool {
	for i, c := range chain[:len(chain)-1] {
		for _, r := range m.revoked {
			if r.by(chain[i+1]) && r.serials[string(c.SerialNumber.Bytes())] {
				return true
			}
		}
	}
	return false
}

// by tells whether the revocations are those of a CA: of its name and key, as it
// may have several certificates.
func (r revocations) by(ca *x509.Certificate) bool {
	return bytes.Equal(r.issuer.RawSubject, ca.RawSubject) &&
		bytes.Equal(r.issuer.RawSubjectPublicKeyInfo, ca.RawSubjectPublicKeyInfo)
}

type warning struct{ file, text string }

// warnings are what somebody should mend soon, and what is no reason to refuse
// the rest.
func (m *material) warnings(now time.Time) []warning {
	var all []warning
	for i, c := range m.certs {
		switch {
		case now.After(c.Leaf.NotAfter):
			all = append(all, warning{m.certFiles[i], "a certificate of this broker is over"})
		case now.Before(c.Leaf.NotBefore):
			all = append(all, warning{m.certFiles[i], "a certificate of this broker is not good yet"})
		}
	}
	for _, r := range m.revoked {
		if !r.until.IsZero() && now.After(r.until) {
			all = append(all, warning{r.file, "a list of revocations is old; what it holds still counts"})
		}
	}
	return all
}
