package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"entrepot/adapters"
	"entrepot/core"
)

// countingEngine is an engine that keeps nothing and shows fixed sums.
type countingEngine struct {
	core.Engine
	stats core.EngineStats
}

func (e *countingEngine) Stats() core.EngineStats { return e.stats }

func (e *countingEngine) Publish(_ *core.Batch, _ *core.Message, done core.Done) {
	if done != nil {
		done(true, nil)
	}
}

func newRealms(names ...string) *core.Realms {
	var all []*core.Broker
	for _, name := range names {
		e := &countingEngine{stats: core.EngineStats{
			Exchanges: 7, Queues: 3, Bindings: 5, Consumers: 2, Ready: 11, Unsettled: 4, Bytes: 900, Unroutable: 6,
		}}
		all = append(all, core.NewBroker(core.DefaultConfig(), name, e, nil, slog.New(slog.DiscardHandler)))
	}
	return core.NewRealms(all[0], all[1:]...)
}

// start serves on a free port and stops at the end of the test.
func start(t *testing.T, cfg Config, ready func() bool) (*Server, string) {
	t.Helper()
	s := New(cfg, newRealms("/"), ready, func() map[string]map[string]uint64 { return nil }, slog.New(slog.DiscardHandler))
	return s, serve(t, s)
}

func serve(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func always() bool { return true }

func TestRequests(t *testing.T) {
	_, addr := start(t, DefaultConfig(), always)
	_, port, _ := net.SplitHostPort(addr)
	for _, c := range []struct {
		name, method, path, host string
		body                     string
		status                   int
		want                     string
	}{
		{name: "index", path: "/", status: 200, want: "/metrics"},
		{name: "health", path: "/healthz", status: 200, want: "ok\n"},
		{name: "ready", path: "/readyz", status: 200, want: "ready\n"},
		{name: "metrics", path: "/metrics", status: 200, want: "entrepot_build_info{"},
		{name: "metrics of the process", path: "/metrics", status: 200, want: "go_goroutines"},
		{name: "head", method: "HEAD", path: "/healthz", status: 200, want: ""},
		{name: "unknown path", path: "/nothing", status: 404, want: "not found"},
		{name: "post", method: "POST", path: "/healthz", status: 405, want: "GET and HEAD only"},
		{name: "options are not answered for other origins", method: "OPTIONS", path: "/metrics", status: 405},
		{name: "large body", path: "/healthz", body: strings.Repeat("x", maxBody+1), status: 413},
		{name: "small body", path: "/healthz", body: "x", status: 200},
		{name: "localhost", path: "/healthz", host: "localhost:" + port, status: 200},
		{name: "LOCALHOST without port", path: "/healthz", host: "LOCALHOST", status: 200},
		{name: "IPv6", path: "/healthz", host: "[::1]:" + port, status: 200},
		{name: "IPv6 without port", path: "/healthz", host: "[::1]", status: 200},
		{name: "another loopback address", path: "/healthz", host: "127.8.8.8", status: 200},
		{name: "rebinding", path: "/metrics", host: "evil.example:" + port, status: 421, want: "another machine"},
		{name: "name that starts like ours", path: "/metrics", host: "localhost.evil.example", status: 421},
		{name: "address of another machine", path: "/metrics", host: "192.0.2.1", status: 421},
		{name: "any address", path: "/metrics", host: "0.0.0.0", status: 421},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			r.Header.Set("Origin", "http://evil.example")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("status %d, body %q; want %d, %q", resp.StatusCode, body, c.status, c.want)
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

func TestReadyFollowsTheListeners(t *testing.T) {
	var ready atomic.Bool
	_, addr := start(t, DefaultConfig(), ready.Load)
	for _, want := range []int{503, 200, 503} {
		ready.Store(want == 200)
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
	}
}

func TestHTTP10WithoutHost(t *testing.T) {
	_, addr := start(t, DefaultConfig(), always)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /healthz HTTP/1.0\r\n\r\n")
	all, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(all), "HTTP/1.0 200") {
		t.Errorf("answer %q", all)
	}
}

// TestSlowHeadIsCutOff shows faults 1 and 66.
func TestSlowHeadIsCutOff(t *testing.T) {
	cfg := DefaultConfig()
	cfg.HeaderTimeout = 200 * time.Millisecond
	_, addr := start(t, cfg, always)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("not closed: %v", err)
	}
}

// TestLargeHeadIsRefused shows fault 66.
func TestLargeHeadIsRefused(t *testing.T) {
	_, addr := start(t, DefaultConfig(), always)
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/healthz", nil)
	r.Header.Set("X-Large", strings.Repeat("x", 4*maxHeader))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Beyond the limit connections wait for their turn, and those for which the line
// is too long are closed at once. It shows fault 66.
func TestConnectionsOverTheLimitWait(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxConnections = 2
	limits := adapters.DefaultDoorConfig()
	limits.MaxWaiting = 1
	s := New(cfg, newRealms("/"), always, func() map[string]map[string]uint64 { return nil }, slog.New(slog.DiscardHandler))
	s.Behind(adapters.NewDoor(limits))
	addr := serve(t, s)
	asked := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return c
	}
	answered := func(c net.Conn) {
		t.Helper()
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
	}
	kept := []net.Conn{asked(), asked()}
	for _, c := range kept {
		answered(c)
	}
	waits := asked()
	for deadline := time.Now().Add(20 * time.Second); s.porch.Waiting() == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
	if n, err := asked().Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("read %d, %v; want it closed", n, err)
	}
	if n := s.Refused()["limits.max_wait"]; n != 1 {
		t.Errorf("refused %v", s.Refused())
	}
	kept[0].Close()
	answered(waits)
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}

// WebSockets do not use up the connections that requests may have.
func TestConnectionsTakenOverDoNotCount(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxConnections = 1
	cfg.WriteTimeout = 100 * time.Millisecond
	s := New(cfg, newRealms("/"), always, func() map[string]map[string]uint64 { return nil }, slog.New(slog.DiscardHandler))
	taken := make(chan net.Conn, 3)
	s.Handle("/take", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(c, "yours\n")
		taken <- c
	}))
	addr := serve(t, s)
	for range cap(taken) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /take HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "yours\n" {
			t.Fatalf("answer %q, %v", line, err)
		}
		mine := <-taken
		defer mine.Close()
	}
	for limit, n := range s.Refused() {
		if n != 0 {
			t.Errorf("%s refused %d", limit, n)
		}
	}
}

func TestServeAfterShutdown(t *testing.T) {
	s, _ := start(t, DefaultConfig(), always)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := s.Serve(l); err == nil {
		t.Error("no error")
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for key, spoil := range map[string]func(*Config){
		"max_connections": func(c *Config) { c.MaxConnections = -1 },
		"header_timeout":  func(c *Config) { c.HeaderTimeout = 0 },
		"write_timeout":   func(c *Config) { c.WriteTimeout = time.Millisecond },
		"idle_timeout":    func(c *Config) { c.IdleTimeout = -1 },
	} {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
}

func TestCountsOfFrontEnds(t *testing.T) {
	want := map[string]uint64{"0x87": 2, "0x97": 1}
	r := prometheus.NewRegistry()
	r.MustRegister(Counts{Name: "mqtt_told_total", Help: "Told.", Label: "code",
		Read: func() map[string]uint64 { return want }})
	families, err := r.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "entrepot_mqtt_told_total" {
		t.Fatalf("%v, %v", families, err)
	}
	if n := len(families[0].Metric); n != len(want) {
		t.Errorf("%d figures, want %d", n, len(want))
	}
	for _, m := range families[0].Metric {
		if code := m.Label[0]; code.GetName() != "code" || uint64(m.Counter.GetValue()) != want[code.GetValue()] {
			t.Errorf("%v", m)
		}
	}
}
