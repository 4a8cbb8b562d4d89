package adapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
)

// from is a connection that says it comes from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

func turnedAway(s *Server) (n int) {
	for _, of := range s.Refused() {
		n += int(of)
	}
	return n
}

func peer(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 7} }

// TestServerLimits shows fault 1.
func TestServerLimits(t *testing.T) {
	unix := &net.UnixAddr{Net: "unix"}
	for _, c := range []struct {
		name  string
		set   func(*Config)
		login bool // each logs in before the next comes
		peers []net.Addr
		want  string // which are let in
	}{
		{"none", func(*Config) {}, false, []net.Addr{peer("10.0.0.1"), peer("10.0.0.1"), peer("10.0.0.1")}, "yyy"},
		{"in all", func(c *Config) { c.MaxConnections = 2 }, true, []net.Addr{peer("10.0.0.1"), peer("10.0.0.2"), peer("10.0.0.3"), unix}, "yynn"},
		{"a peer", func(c *Config) { c.MaxPerPeer = 2 }, true, []net.Addr{peer("10.0.0.1"), peer("10.0.0.1"), peer("10.0.0.1"), peer("10.0.0.2"), peer("::ffff:10.0.0.1")}, "yynyn"},
		{"a peer's without log-in", func(c *Config) { c.MaxPending = 2 }, false, []net.Addr{peer("10.0.0.1"), peer("10.0.0.1"), peer("10.0.0.1"), peer("10.0.0.2")}, "yyny"},
		{"a peer's with log-in", func(c *Config) { c.MaxPending = 1 }, true, []net.Addr{peer("10.0.0.1"), peer("10.0.0.1"), peer("10.0.0.1")}, "yyy"},
		{"a /64 of IPv6 is one peer", func(c *Config) { c.MaxPerPeer = 2 }, true, []net.Addr{peer("2001:db8::1"), peer("2001:db8::ff:2"), peer("2001:db8:0:0:9::"), peer("2001:db8:0:1::1")}, "yyny"},
		{"unix sockets have no peer", func(c *Config) { c.MaxPerPeer, c.MaxPending = 1, 1 }, false, []net.Addr{unix, unix, unix}, "yyy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.MaxConnections = 0
			c.set(&cfg)
			s := newFixture(cfg, nil)
			got, clients := "", []net.Conn{}
			for _, a := range c.peers {
				client, server := net.Pipe()
				clients = append(clients, client)
				before := s.Open()
				s.serve(from{server, a})
				if s.Open() == before {
					got += "n"
					finished(t, client)
					continue
				}
				got += "y"
				if c.login {
					send(t, client, "in")
					receive(t, client, "in")
				}
			}
			if got != c.want || turnedAway(s.Server) != strings.Count(c.want, "n") {
				t.Errorf("let in %s, want %s; refused %d", got, c.want, turnedAway(s.Server))
			}
			for _, c := range clients {
				_ = c.Close()
			}
			// A place is free again when a connection has ended.
			soon(t, "all have left", func() bool { return s.Open() == 0 })
			client, server := net.Pipe()
			s.serve(from{server, c.peers[0]})
			if s.Open() != 1 {
				t.Error("not let in although all have left")
			}
			_ = client.Close()
			s.end(t)
		})
	}
}

// shortage is a listener whose Accept fails so many times before it works.
type shortage struct {
	err    error
	fails  int
	tries  int
	conns  chan net.Conn
	closed chan struct{}
}

func (l *shortage) Accept() (net.Conn, error) {
	l.tries++
	if l.tries <= l.fails {
		return nil, l.err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *shortage) Close() error   { close(l.closed); return nil }
func (l *shortage) Addr() net.Addr { return peer("10.0.0.1") }

func TestServerWaitsOutAShortage(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, errors.New("unknown")} {
		synctest.Test(t, func(t *testing.T) {
			s := newFixture(testConfig(), nil)
			l := &shortage{err: err, fails: 9, conns: make(chan net.Conn, 1), closed: make(chan struct{})}
			client, server := net.Pipe()
			l.conns <- server
			if err := s.Serve(l); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			send(t, client, "in")
			receive(t, client, "in")
			if d := time.Since(start); d < time.Second || d > 5*time.Second {
				t.Errorf("served after %v", d)
			}
			s.end(t)
			_ = client.Close()
		})
	}
}

func TestServerShutdownDoesNotWaitForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(testConfig(), nil)
		l := &shortage{err: syscall.EMFILE, fails: 1 << 30, closed: make(chan struct{})}
		if err := s.Serve(l); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		start := time.Now()
		s.end(t)
		if d := time.Since(start); d > 0 {
			t.Errorf("Shutdown took %v", d)
		}
		if l.tries > 70 {
			t.Errorf("%d tries in a minute", l.tries)
		}
	})
}

func TestServerShutdown(t *testing.T) {
	for _, kind := range []string{"tcp", "unix"} {
		t.Run(kind, func(t *testing.T) {
			addr := "127.0.0.1:0"
			if kind == "unix" {
				addr = "unix:" + t.TempDir() + "/s"
			}
			s := newFixture(testConfig(), nil)
			l, err := listenAt(addr)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Serve(l); err != nil {
				t.Fatal(err)
			}
			clients := make([]net.Conn, 10)
			for i := range clients {
				if clients[i], err = net.Dial(kind, l.Addr().String()); err != nil {
					t.Fatal(err)
				}
				send(t, clients[i], "in")
				receive(t, clients[i], "in")
			}
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					receive(t, c, "stops")
					finished(t, c)
					_ = c.Close()
				})
			}
			s.end(t)
			wg.Wait()
			for _, r := range s.recs {
				if !r.shutdown || !errors.Is(r.err, ErrKicked) {
					t.Errorf("told %v, Closed(%v)", r.shutdown, r.err)
				}
			}
			if c, err := net.Dial(kind, l.Addr().String()); err == nil {
				_ = c.Close()
				t.Error("still listens")
			}
			if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Serve after Shutdown: %v", err)
			}
			client, server := net.Pipe()
			s.ServeConn(server)
			finished(t, client)
		})
	}
}

// Connections that come in while the server stops are ended too.
// It shows fault 105.
func TestServerShutdownMeetsNewConnections(t *testing.T) {
	for range 50 {
		s := newFixture(testConfig(), nil)
		var clients sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			client, server := net.Pipe()
			clients.Go(func() { _, _ = io.Copy(io.Discard, client) })
			clients.Go(func() {
				<-start
				s.ServeConn(server)
			})
		}
		close(start)
		runtime.Gosched()
		s.end(t)
		clients.Wait()
	}
}

// One that comes between Shutdown's look at the connections and its own entry
// does not stay until its log-in time is over.
func TestServerShutdownWhileOneIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *fixture
		over := make(chan struct{})
		s = newFixture(testConfig(), func(*recorder) {
			go func() {
				defer close(over)
				s.end(t)
			}()
			<-s.stopping
		})
		client, server := net.Pipe()
		start := time.Now()
		r := s.serve(server)
		<-over
		if time.Since(start) > 0 || !errors.Is(r.err, ErrKicked) {
			t.Errorf("Closed(%v) after %v", r.err, time.Since(start))
		}
		_ = client.Close()
	})
}

// A client that does not read holds Shutdown up for no longer than Linger.
// It shows fault 105.
func TestServerShutdownLingers(t *testing.T) {
	set := func(c *Config, _ *recorder) { c.Linger = 3 * time.Second }
	bubble(t, set, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		start := time.Now()
		s.end(t)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("Shutdown took %v", d)
		}
	})
}

func TestServerShutdownGivesUp(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "hold")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := s.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if !strings.Contains(err.Error(), "1 connections left") {
			t.Error(err)
		}
		close(r.release)
	})
}

// Clients that come, send half a frame and vanish leave nothing.
// It shows faults 1 and 23.
func TestServerClientsThatVanish(t *testing.T) {
	const clients = 1000
	l, err := listenAt("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	before := runtime.NumGoroutine()
	cfg := testConfig()
	cfg.MaxPending = clients
	s := newFixture(cfg, func(r *recorder) { r.quiet = time.Hour })
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < clients; i += 8 {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				vanish(t, c, i)
			}
		})
	}
	wg.Wait()
	soon(t, "all were seen", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.recs) == clients
	})
	soon(t, "all are gone", func() bool { return s.Open() == 0 })
	s.bare(t)
	s.end(t)
	soon(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// vanish does what the i-th client does before it is gone.
func vanish(t *testing.T, c net.Conn, i int) {
	defer c.Close()
	if i%2 == 0 {
		send(t, c, "in")
		receive(t, c, "in")
	}
	part := frame(string(make([]byte, 60_000)))[:1+i*59]
	if _, err := c.Write(part); err != nil {
		t.Error(err)
	}
	if i%3 == 0 {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// waitingRoom is what a queue does for one receiver: it delivers until that
// refuses, and goes on when there is room.
type waitingRoom struct {
	mu      sync.Mutex
	waiting int
	out     *Outbox
	body    []byte
}

func (w *waitingRoom) add(b *core.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	w.hand(b)
}

func (w *waitingRoom) resume(b *core.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hand(b)
}

func (w *waitingRoom) hand(b *core.Batch) {
	for w.waiting > 0 {
		buf, ok := w.out.BeginDelivery()
		if !ok {
			return
		}
		w.out.End(b, append(buf, w.body...))
		w.waiting--
	}
}

// A receiver that does not read has no part in what its neighbour gets, and
// costs no more than its outbox.
// It shows fault 85.
func TestServerSlowReaderBesideAFastOne(t *testing.T) {
	const messages = 200_000
	cfg := testConfig()
	s := newFixture(cfg, nil)
	body := make([]byte, 64)
	var rooms []*waitingRoom
	var clients []net.Conn
	for range 2 {
		client, server := carriers[1].pair(t)
		r := s.serve(server)
		w := &waitingRoom{out: r.conn.Outbox, body: body}
		r.conn.OnRoom(w.resume)
		send(t, client, "in")
		receive(t, client, "in")
		rooms, clients = append(rooms, w), append(clients, client)
	}
	slow, fast := rooms[0], rooms[1]
	var wg sync.WaitGroup
	wg.Go(func() {
		var b core.Batch
		for i := range messages {
			slow.add(&b)
			fast.add(&b)
			if i%100 == 0 {
				b.Flush()
				if n := slow.out.Unsent(); n > cfg.OutboxBytes+len(body) {
					t.Errorf("%d bytes wait for the slow one", n)
					return
				}
			}
		}
		b.Flush()
	})
	if n, err := io.CopyN(io.Discard, clients[1], messages*int64(len(body))); err != nil {
		t.Errorf("the fast one got %d bytes: %v", n, err)
	}
	wg.Wait()
	slow.mu.Lock()
	left := slow.waiting
	slow.mu.Unlock()
	if left == 0 {
		t.Error("the slow one's messages did not wait")
	}
	if n, err := io.CopyN(io.Discard, clients[0], messages*int64(len(body))); err != nil {
		t.Errorf("the slow one got %d bytes: %v", n, err)
	}
	for _, c := range clients {
		_ = c.Close()
	}
	s.end(t)
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, set := range map[string]func(*Config){
		"max_connections": func(c *Config) { c.MaxConnections = -1 },
		"max_per_peer":    func(c *Config) { c.MaxPerPeer = -1 },
		"max_pending":     func(c *Config) { c.MaxPending = 0 },
		"login_timeout":   func(c *Config) { c.LoginTimeout = 0 },
		"login_bytes":     func(c *Config) { c.LoginBytes = 10 },
		"outbox_bytes":    func(c *Config) { c.OutboxBytes = 10 },
		"linger":          func(c *Config) { c.Linger = -1 },
	} {
		c := DefaultConfig()
		set(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A panic in a frame's handling shows where it happened, although that was on
// another stack.
func TestStacksPanic(t *testing.T) {
	var s stacks
	k := s.get()
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "readReady") {
			t.Errorf("panic says %.300s", p)
		}
	}()
	k.conn = nil
	k.next()
}

func TestStacksAreKeptAndEnded(t *testing.T) {
	before := runtime.NumGoroutine()
	s := NewServer(testConfig(), "test", slog.New(slog.DiscardHandler), nil)
	var lent []*stack
	for range 3 * idleStacks {
		k := s.stacks.get()
		lent = append(lent, k)
	}
	for _, k := range lent {
		s.stacks.put(k)
	}
	if n := len(s.stacks.idle); n != idleStacks {
		t.Errorf("%d are kept", n)
	}
	last := s.stacks.get()
	s.stacks.close()
	s.stacks.put(last)
	soon(t, "none is left", func() bool { return runtime.NumGoroutine() <= before })
}
