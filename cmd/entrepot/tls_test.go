package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// encrypted is a broker that has every protocol on TLS, too.
type encrypted struct {
	*broker
	dir string // of what `entrepot certs` made
}

func startEncrypted(t *testing.T, args ...string) *encrypted {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	well(t, "certs", dir, "--client", "ann")
	t.Setenv("ENTREPOT_TLS_CERTS", filepath.Join(dir, "server.pem"))
	t.Setenv("ENTREPOT_TLS_KEYS", filepath.Join(dir, "server.key"))
	t.Setenv("ENTREPOT_TLS_CLIENT_CAS", filepath.Join(dir, "ca.pem"))
	const at = "tls:127.0.0.1:0"
	return &encrypted{start(t, append(args, "--mqtt", at, "--stomp", at, "--amqp", at, "--coap", at, "--http", at)...), dir}
}

// at is where a protocol is spoken over TLS.
func (e *encrypted) at(t *testing.T, protocol string) string {
	t.Helper()
	m := regexp.MustCompile(`msg=listening protocol=` + protocol + ` address=(\S+) transport=tls`).FindStringSubmatch(e.log.String())
	if m == nil {
		t.Fatalf("%s has no TLS:\n%s", protocol, e.log)
	}
	return m[1]
}

func (e *encrypted) file(name string) string { return filepath.Join(e.dir, name) }

func (e *encrypted) config(t *testing.T) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(e.file("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	c.RootCAs.AppendCertsFromPEM(text)
	return c
}

// TLS 1.2 and 1.3 on every listener, with the protocol's name in ALPN (RFC 7301)
// and without one; a client that names others only is refused.
func TestTLSOnEveryListener(t *testing.T) {
	e := startEncrypted(t)
	for protocol, c := range map[string]struct{ alpn, say, answer string }{
		"mqtt":  {"mqtt", "\x10\x0D\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00", "\x20"},
		"stomp": {"stomp", "CONNECT\naccept-version:1.2\nhost:/\n\n\x00", "CONNECTED\n"},
		"amqp":  {"amqp", "AMQP\x00\x00\x09\x01", "\x01\x00\x00"},
		"http":  {"http/1.1", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, offered := range [][]string{nil, {c.alpn}, {"h9", c.alpn}} {
				cfg := e.config(t)
				cfg.MinVersion, cfg.MaxVersion, cfg.NextProtos = version, version, offered
				conn, err := tls.Dial("tcp", e.at(t, protocol), cfg)
				if err != nil {
					t.Errorf("%s, %x, %q: %v", protocol, version, offered, err)
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(limit))
				if _, err := io.WriteString(conn, c.say); err != nil {
					t.Error(err)
				}
				got := make([]byte, len(c.answer))
				if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.answer {
					t.Errorf("%s, %x, %q: %q, %v", protocol, version, offered, got, err)
				}
				if chosen := conn.ConnectionState().NegotiatedProtocol; (chosen == c.alpn) != (offered != nil) {
					t.Errorf("%s: %q of %q", protocol, chosen, offered)
				}
				conn.Close()
			}
		}
		cfg := e.config(t)
		cfg.NextProtos = []string{"h9"}
		if conn, err := tls.Dial("tcp", e.at(t, protocol), cfg); err == nil || !strings.Contains(err.Error(), "no application protocol") {
			t.Errorf("%s: a client of another protocol: %v, %v", protocol, conn, err)
		}
	}
}

// A reload of certificates leaves clients alone, new handshakes get
// the new ones, and a bad file changes nothing.
// It shows fault 56.
func TestCertificatesAreReloaded(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	e := startEncrypted(t, "--data", data)
	conn, err := tls.Dial("tcp", e.at(t, "mqtt"), e.config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	r := bufio.NewReader(conn)
	connect, ping := "\x10\x0C\x00\x04MQTT\x04\x02\x00\x00\x00\x00", "\xC0\x00"
	if _, err := io.WriteString(conn, connect); err != nil {
		t.Fatal(err)
	}
	if head, err := r.Peek(4); err != nil || string(head) != "\x20\x02\x00\x00" {
		t.Fatalf("%x, %v", head, err)
	}
	_, _ = r.Discard(4)
	old := conn.ConnectionState().PeerCertificates[0].SerialNumber
	for _, name := range []string{"server.pem", "server.key"} {
		if err := os.Remove(e.file(name)); err != nil {
			t.Fatal(err)
		}
	}
	refusedWith(t, "nothing was reloaded: tls: certificate: stat "+e.file("server.pem"), "reload", "--data", data)
	serial := func() string {
		c, err := tls.Dial("tcp", e.at(t, "mqtt"), e.config(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	if serial() != old.String() {
		t.Error("a reload that failed changed the certificate")
	}
	well(t, "certs", e.dir)
	well(t, "reload", "--data", data)
	if serial() == old.String() {
		t.Error("the old certificate is still given")
	}
	if _, err := io.WriteString(conn, ping); err != nil {
		t.Fatal(err)
	}
	if head, err := r.Peek(2); err != nil || string(head) != "\xD0\x00" {
		t.Errorf("the client that was there: %x, %v", head, err)
	}
}

// pub and sub speak TLS, and say what is wrong with a certificate.
func TestPubAndSubOverTLS(t *testing.T) {
	e := startEncrypted(t)
	ca := []string{"--cafile", e.file("ca.pem"), "--cert", e.file("ann.pem"), "--key", e.file("ann.key")}
	for _, url := range []string{"mqtts://localhost:" + port(e.at(t, "mqtt")) + "/a", "stomps://localhost:" + port(e.at(t, "stomp")) + "/topic/a"} {
		well(t, append([]string{"pub", url, "x"}, ca...)...)
		refusedWith(t, "nobody who is trusted signed the broker's certificate; --cafile names the CA that did", "pub", url, "x")
	}
}

// Who takes a plain listener for one with TLS is told.
func TestTLSToAPlainListener(t *testing.T) {
	b := start(t)
	if r := do(t, "", "pub", strings.Replace(b.mqtt, "mqtt:", "mqtts:", 1)+"/a", "x"); r.code != exitFailed || !strings.Contains(r.errors, "TLS: ") {
		t.Errorf("%+v", r)
	}
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func TestMosquittoOverTLS(t *testing.T) {
	if _, err := exec.LookPath("mosquitto_pub"); err != nil {
		t.Skip("no mosquitto_pub")
	}
	e := startEncrypted(t)
	for _, version := range []string{"tlsv1.2", "tlsv1.3"} {
		out, err := exec.Command("mosquitto_pub", "-h", "localhost", "-p", port(e.at(t, "mqtt")), "--cafile", e.file("ca.pem"),
			"--cert", e.file("ann.pem"), "--key", e.file("ann.key"), "--tls-version", version, "--tls-alpn", "mqtt", "-q", "1", "-t", "a", "-m", "x").CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", version, err, out)
		}
	}
}

// https, from a client that would rather speak HTTP/2.
func TestHTTPS(t *testing.T) {
	e := startEncrypted(t)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: e.config(t), ForceAttemptHTTP2: true}}
	resp, err := c.Get("https://" + e.at(t, "http") + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "ready\n" || err != nil || resp.ProtoMajor != 1 {
		t.Errorf("%s %s %v", resp.Proto, body, err)
	}
}
