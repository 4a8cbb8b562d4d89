package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// overTransport is the address of a CoAP listener, "" before it is there.
func (p *program) overTransport(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := regexp.MustCompile(`protocol=coap address=(\S+) transport=` + name + `\b`)
	for _, l := range p.lines {
		if m := line.FindStringSubmatch(l); m != nil {
			return m[1]
		}
	}
	return ""
}

// coapClient runs one of libcoap's clients and returns what it got.
func coapClient(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got := filepath.Join(t.TempDir(), "got")
	cmd := exec.CommandContext(ctx, program, append([]string{"-B", "20", "-o", got}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	b, _ := os.ReadFile(got) // there is none without an answer
	return string(b)
}

// authority makes a CA and what it signs, as files of PEM in dir.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", true)
	return a
}

// issue makes NAME.crt, NAME.key and NAME.pem with both.
func (a *authority) issue(name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	must := func(err error) {
		if err != nil {
			a.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: ca,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if !ca {
		c.IPAddresses, c.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	}
	parent, signer := a.cert, a.key
	if ca {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	must(err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	must(os.WriteFile(a.file(name+".crt"), cert, 0o600))
	must(os.WriteFile(a.file(name+".key"), private, 0o600))
	must(os.WriteFile(a.file(name+".pem"), append(bytes.Clone(cert), private...), 0o600))
	made, err := x509.ParseCertificate(der)
	must(err)
	return made, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// libcoap's clients over DTLS with keys and with certificates, over TCP and over
// TLS: a value, 200 KB in blocks both ways, and an observation (RFC 7252, 9.1.3;
// RFC 8323, 8.1, 8.2).
func TestInteropCoAPTransports(t *testing.T) {
	needPrograms(t, "libcoap3-bin", "coap-client-openssl", "coap-client-gnutls")
	ca := newAuthority(t)
	ca.issue("server", false)
	ca.issue("device", false)
	settings := ca.file("entrepot.toml")
	keys := ca.file("keys")
	text := "[tls]\ncerts = [\"" + ca.file("server.crt") + "\"]\nkeys = [\"" + ca.file("server.key") + "\"]\nclient_cas = [\"" +
		ca.file("ca.crt") + "\"]\n[coap]\npsk_file = \"" + keys + "\"\n"
	for file, content := range map[string]string{settings: text, keys: "dev-7:" + "73656372657450534b2d313233343536\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := startProgram(t, "--config", settings, "--coap", "tcp:127.0.0.1:0,dtls:127.0.0.1:0?client_auth=require,tls:127.0.0.1:0?client_auth=require")
	defer p.stop(t)
	key := []string{"-u", "dev-7", "-k", "secretPSK-123456"}
	certificate := []string{"-c", ca.file("device.pem"), "-C", ca.file("ca.crt"), "-R", ca.file("ca.crt")}
	for _, c := range []struct {
		title, program, scheme, transport string
		proof                             []string
	}{
		{"DTLS, key, OpenSSL", "coap-client-openssl", "coaps", "dtls", key},
		{"DTLS, key, GnuTLS", "coap-client-gnutls", "coaps", "dtls", key},
		{"DTLS, certificate, OpenSSL", "coap-client-openssl", "coaps", "dtls", certificate},
		{"DTLS, certificate, GnuTLS", "coap-client-gnutls", "coaps", "dtls", certificate},
		{"TCP", "coap-client-openssl", "coap+tcp", "tcp", nil},
		{"TLS, certificate", "coap-client-openssl", "coaps+tcp", "tls", certificate},
	} {
		t.Run(c.title, func(t *testing.T) {
			at := c.scheme + "://" + p.overTransport(c.transport) + "/t/" + strings.NewReplacer(" ", "", ",", "-").Replace(c.title)
			ask := func(path string, args ...string) string {
				t.Helper()
				return coapClient(t, c.program, append(append(append([]string{}, c.proof...), args...), at+path)...)
			}
			ask("/temp", "-m", "put", "-e", "21.5")
			if got := ask("/temp"); got != "21.5" {
				t.Fatalf("got %q\n%s", got, p.log())
			}
			large := make([]byte, 200_000)
			_, _ = rand.Read(large)
			file := filepath.Join(t.TempDir(), "large")
			if err := os.WriteFile(file, large, 0o600); err != nil {
				t.Fatal(err)
			}
			ask("/large", "-m", "put", "-t", "42", "-f", file)
			if got := ask("/large"); got != string(large) {
				t.Errorf("%d bytes came back of %d", len(got), len(large))
			}
			if got := ask("/temp", "-s", "1"); !strings.HasPrefix(got, "21.5") {
				t.Errorf("observed %q", got)
			}
		})
	}
}
