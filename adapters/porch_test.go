package adapters

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// porched is an HTTP server behind a porch.
type porched struct {
	*Porch
	at     string
	client *tls.Config
	served chan error
	http   http.Server
}

// newPorched listens with TLS, or without where address does not say it.
func newPorched(t *testing.T, d *Door, width int, patience time.Duration, address string) *porched {
	t.Helper()
	ca := newAuthority(t, "test CA")
	cert := ca.server("server", "localhost")
	excuse := func(head [5]byte) string {
		if string(head[:3]) == "GET" {
			return "HTTP/1.0 400 Bad Request\r\n\r\n"
		}
		return ""
	}
	p := &porched{Porch: NewPorch(width, patience, excuse, slog.New(slog.DiscardHandler)), served: make(chan error, 1),
		client: &tls.Config{RootCAs: ca.pool(), ServerName: "localhost"}}
	p.Behind(d)
	a, err := ParseAddress(address, OverTCP)
	if err != nil {
		t.Fatal(err)
	}
	g := Gate{TLS: newMaterial(t, TLSConfig{Certs: []string{cert.certFile}, Keys: []string{cert.keyFile}}),
		Proxies: ProxyConfig{Networks: []string{"127.0.0.0/8"}}}
	l, err := g.Listen(a, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	p.at = l.Addr().String()
	p.http = http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				p.Leave(c)
			}
		},
	}
	in := p.Listen(l)
	go func() { p.served <- p.http.Serve(in) }()
	t.Cleanup(func() {
		if err := p.http.Shutdown(t.Context()); err != nil {
			_ = p.http.Close()
		}
		<-p.served
		soon(t, "all have left", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.open == 0 && len(d.peers) == 0
		})
	})
	return p
}

// ask is one request on a connection of its own.
func (p *porched) ask(scheme string) (string, error) {
	c := http.Client{Transport: &http.Transport{TLSClientConfig: p.client, DisableKeepAlives: true}, Timeout: time.Minute}
	r, err := c.Get(scheme + "://" + p.at)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// gone waits until the broker has closed c, a reset is as good.
func gone(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("not closed")
	}
}

// A storm of TLS handshakes to HTTP goes through the same places as those of the
// protocols: one at a time here, and all are served. It shows fault 88.
func TestStormOfHandshakesOverHTTP(t *testing.T) {
	d := NewDoor(doorConfig())
	p := newPorched(t, d, 4, time.Minute, "tls:127.0.0.1:0")
	busy := place{of: d.handshakes}
	if err := busy.take(nil); err != nil {
		t.Fatal(err)
	}
	const many = 60
	var wg sync.WaitGroup
	errs := make(chan error, many)
	for range many {
		wg.Go(func() {
			_, err := p.ask("https")
			errs <- err
		})
	}
	soon(t, "all wait", func() bool { return d.Waiting() == many && d.Open() == many })
	busy.give(true)
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if d.handshakes.free != 1 {
		t.Errorf("%d places are free", d.handshakes.free)
	}
}

// Clients that say nothing, or not enough for a handshake, take no room from the
// others, and are ended in time and counted.
func TestSilentClientsOfHTTP(t *testing.T) {
	for scheme, address := range map[string]string{"http": "127.0.0.1:0", "https": "tls:127.0.0.1:0"} {
		t.Run(scheme, func(t *testing.T) {
			p := newPorched(t, NewDoor(doorConfig()), 1, 3*time.Second, address)
			var silent []net.Conn
			for i := range 20 {
				c, err := net.Dial("tcp", p.at)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if scheme == "https" && i%2 == 0 {
					_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1, 0})
				}
				silent = append(silent, c)
			}
			if _, err := p.ask(scheme); err != nil {
				t.Error(err)
			}
			for _, c := range silent {
				gone(t, c)
			}
			soon(t, "counted", func() bool { return p.Unopened()["timeout"] == 20 })
		})
	}
}

// What is not TLS is told so in HTTP's words if it is HTTP, and counted.
func TestPlainBytesOnHTTPS(t *testing.T) {
	p := newPorched(t, NewDoor(doorConfig()), 1, time.Minute, "tls:127.0.0.1:0")
	for i, c := range []struct{ say, want string }{
		{"GET / HTTP/1.1\r\n\r\n", "HTTP/1.0 400 "},
		{"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00", ""},
		{"CONNECT\naccept-version:1.2\n\n\x00", ""},
	} {
		conn, err := net.Dial("tcp", p.at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(c.say)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		answer, _ := io.ReadAll(conn) // a reset may come behind
		if !strings.HasPrefix(string(answer), c.want) {
			t.Errorf("%q is told %q", c.say, answer)
		}
		conn.Close()
		soon(t, "counted", func() bool { return p.Unopened()["no_tls"] == uint64(i+1) })
	}
}

// Connections of HTTP count for their address like all others; among all they
// count only until a request can come, so that the operator gets through.
func TestPorchCounts(t *testing.T) {
	cfg := doorConfig()
	cfg.MaxConnections, cfg.MaxPerAddress = 2, 3
	d := NewDoor(cfg)
	p := newPorched(t, d, 0, time.Minute, "127.0.0.1:0")
	dial := func(say string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", p.at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, say)
		return c
	}
	open := func(n int) func() bool { return func() bool { return d.Open() == n } }
	said := dial("GET")
	soon(t, "one is with HTTP", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.open == 0 && len(d.peers) == 1
	})
	one, _ := dial(""), dial("")
	soon(t, "two say nothing", open(2))
	gone(t, dial("GET"))
	if n := p.Refused(); n["limits.max_connections"] != 1 {
		t.Errorf("refused %v", n)
	}
	one.Close()
	soon(t, "one says nothing", open(1))
	dial("GET")
	soon(t, "it is with HTTP", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, n := range d.peers {
			return d.open == 1 && n == 3
		}
		return false
	})
	gone(t, dial("GET"))
	if n := p.Refused(); n["limits.max_per_address"] != 1 {
		t.Errorf("refused %v", n)
	}
	said.Close()
}

// A proxy's clients count for themselves.
func TestPorchOfAProxy(t *testing.T) {
	cfg := doorConfig()
	cfg.MaxPerAddress = 1
	p := newPorched(t, NewDoor(cfg), 0, time.Minute, "127.0.0.1:0?proxy=1")
	for _, c := range []struct{ client, want string }{
		{"203.0.113.7", "HTTP/1.1 200"}, {"203.0.113.8", "HTTP/1.1 200"}, {"203.0.113.7", ""},
	} {
		conn, err := net.Dial("tcp", p.at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "PROXY TCP4 "+c.client+" 127.0.0.1 4187 80\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		head := make([]byte, len("HTTP/1.1 200"))
		n, _ := io.ReadFull(conn, head)
		if string(head[:n]) != c.want {
			t.Errorf("%s: %q", c.client, head[:n])
		}
	}
	if n := p.Refused(); n["limits.max_per_address"] != 1 {
		t.Errorf("refused %v", n)
	}
}

// The end of the listener is the end of those who are not in yet.
func TestPorchCloses(t *testing.T) {
	p := newPorched(t, NewDoor(doorConfig()), 1, time.Minute, "tls:127.0.0.1:0")
	var waiting []net.Conn
	for range 3 {
		waiting = append(waiting, dialHalf(t, p.at))
	}
	soon(t, "all are there", func() bool { return p.door.Open() == 3 })
	if err := p.http.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, c := range waiting {
		gone(t, c)
	}
	if err := <-p.served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	p.served <- nil // for the end of the test
	if n := p.Unopened(); n["timeout"]+n["gone"]+n["negotiation"] != 0 {
		t.Errorf("counted as the clients' doing: %v", n)
	}
}
