package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	caName   = "ca"
	certDays = 397 // what browsers take at most
	caDays   = 3650
)

// certificates is what `entrepot certs` was told.
type certificates struct {
	dir     string
	hosts   []string
	clients []string
}

func certsCommand() *cobra.Command {
	var m certificates
	c := &cobra.Command{
		Use:   "certs DIR",
		Short: "Make a private CA and certificates for trying out TLS",
		Long: `Make a private CA in DIR, a certificate for the broker and one for each --client,
each as NAME.pem with its key NAME.key, which only its owner may read. A CA that
is in DIR already signs the new ones; no file is overwritten, and a certificate
that is there is left as it is.

A client that shows the certificate of --client NAME is the user NAME where the
settings say user = "{cn}" under [auth.certificate].

Whoever has ca.key can make certificates that the broker takes: keep it where
clients do not get at it. For a broker that others rely on, have a CA of your own.`,
		Example: `  entrepot certs certs
  entrepot certs certs --host broker.example --host 192.0.2.7
  entrepot certs certs --client ann --client bob`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().StringSliceVar(&m.hosts, "host", []string{"localhost", "127.0.0.1", "::1"}, "`NAME` or address of the broker (repeatable)")
	c.Flags().StringSliceVar(&m.clients, "client", nil, "make a certificate for the client `NAME`, too (repeatable)")
	c.RunE = func(c *cobra.Command, args []string) error {
		m.dir = args[0]
		if err := m.check(); err != nil {
			return usage(err)
		}
		made, err := m.make()
		if err != nil {
			return err
		}
		return m.tell(c, made)
	}
	return c
}

func (m *certificates) check() error {
	if len(m.hosts) == 0 {
		return errors.New("--host: at least one")
	}
	for _, name := range m.clients {
		if name == caName || name == "server" || name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return fmt.Errorf("--client %q: cannot be the name of a client's files", name)
		}
	}
	return nil
}

// make writes what is not there and returns the names of the new files.
func (m *certificates) make() (made []string, err error) {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	ca, fresh, err := m.authority()
	if err != nil {
		return nil, err
	}
	if fresh {
		made = append(made, caName)
	}
	issue := func(name string, c *x509.Certificate) error {
		written, err := m.issue(name, c, ca)
		if written {
			made = append(made, name)
		}
		return err
	}
	server := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, h := range m.hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, h)
		}
	}
	server.Subject.CommonName = m.hosts[0]
	if err := issue("server", server); err != nil {
		return made, err
	}
	for _, name := range m.clients {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if err := issue(name, c); err != nil {
			return made, err
		}
	}
	return made, nil
}

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// authority reads the CA, or makes it.
func (m *certificates) authority() (ca pair, fresh bool, err error) {
	text, err := os.ReadFile(m.file(caName, ".pem"))
	if errors.Is(err, fs.ErrNotExist) {
		ca, err = m.newAuthority()
		return ca, true, err
	}
	if err != nil {
		return ca, false, fmt.Errorf("CA: %w", err)
	}
	secret, err := os.ReadFile(m.file(caName, ".key"))
	if err != nil {
		return ca, false, fmt.Errorf("CA: its certificate is there, but not its key: %w", err)
	}
	cert, key := first(text, "CERTIFICATE"), first(secret, "PRIVATE KEY")
	if ca.cert, err = x509.ParseCertificate(cert); err != nil {
		return ca, false, fmt.Errorf("CA %s: %w", m.file(caName, ".pem"), err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return ca, false, fmt.Errorf("CA %s: %w", m.file(caName, ".key"), err)
	}
	var ok bool
	if ca.key, ok = parsed.(*ecdsa.PrivateKey); !ok || !ca.cert.IsCA || !ca.key.PublicKey.Equal(ca.cert.PublicKey) {
		return ca, false, fmt.Errorf("CA %s: not one that this command made", m.file(caName, ".pem"))
	}
	return ca, false, nil
}

// first is the first block of a kind.
func first(text []byte, kind string) []byte {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			return block.Bytes
		}
	}
	return nil
}

func (m *certificates) newAuthority() (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("CA: %w", err)
	}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "Entrepot private CA " + rand.Text()[:6]}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	ca, err := sign(c, pair{c, key}, key, caDays)
	if err != nil {
		return pair{}, err
	}
	return ca, m.write(caName, ca)
}

// issue signs a certificate and writes it, unless it is there.
func (m *certificates) issue(name string, c *x509.Certificate, ca pair) (written bool, err error) {
	if _, err := os.Stat(m.file(name, ".pem")); err == nil {
		return false, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	c.KeyUsage, c.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	made, err := sign(c, ca, key, certDays)
	if err != nil {
		return false, err
	}
	return true, m.write(name, made)
}

// sign completes a certificate.
func sign(c *x509.Certificate, ca pair, key *ecdsa.PrivateKey, days int) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, fmt.Errorf("certificate: %w", err)
	}
	c.SerialNumber = serial
	c.NotBefore = time.Now().Add(-time.Hour) // clocks differ
	c.NotAfter = time.Now().AddDate(0, 0, days)
	der, err := x509.CreateCertificate(rand.Reader, c, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert, key}, err
}

// write makes NAME.key, for its owner only, and NAME.pem; neither may be there.
func (m *certificates) write(name string, p pair) error {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := create(m.file(name, ".key"), "PRIVATE KEY", der, 0o600); err != nil {
		return err
	}
	return create(m.file(name, ".pem"), "CERTIFICATE", p.cert.Raw, 0o644)
}

func create(file, kind string, der []byte, mode fs.FileMode) error {
	return createText(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

func (m *certificates) file(name, suffix string) string { return filepath.Join(m.dir, name+suffix) }

// tell prints what was made, and what to write where.
func (m *certificates) tell(c *cobra.Command, made []string) error {
	dir, err := filepath.Abs(m.dir)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if len(made) == 0 {
		c.PrintErrln("entrepot: all of them are there already")
	}
	for _, name := range made {
		c.PrintErrf("entrepot: made %s and %s\n", m.file(name, ".pem"), m.file(name, ".key"))
	}
	lines := fmt.Sprintf("# for the broker's settings\nmqtt.listen = [\"127.0.0.1:1883\", \"tls:127.0.0.1:8883\"]\n[tls]\ncerts = [%q]\nkeys = [%q]\n",
		filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
	if len(m.clients) > 0 {
		lines += fmt.Sprintf("client_cas = [%q]\nclient_auth = \"request\"\n", filepath.Join(dir, caName+".pem"))
	}
	_, err = fmt.Fprint(c.OutOrStdout(), lines)
	return err
}
