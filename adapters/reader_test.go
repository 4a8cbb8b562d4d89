package adapters

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs f with a server and one connection to it over net.Pipe, in time
// that costs nothing.
func bubble(t *testing.T, set func(*Config, *recorder), f func(t *testing.T, s *fixture, client net.Conn, r *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		if set != nil {
			set(&cfg, &recorder{})
		}
		s := newFixture(cfg, func(r *recorder) {
			if set != nil {
				set(&cfg, r)
			}
		})
		client, server := net.Pipe()
		r := s.serve(server)
		f(t, s, client, r)
		_ = client.Close()
		s.end(t)
	})
}

// TestConnLoginTime shows fault 1.
func TestConnLoginTime(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 99 * time.Second} {
		bubble(t, func(c *Config, _ *recorder) { c.LoginTimeout = 5 * time.Second }, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
			start := time.Now()
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() { // never a whole frame, but never quiet
				for _, b := range append([]byte{9, 9}, make([]byte, 1000)...) {
					if _, err := client.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(pause)
				}
			})
			<-r.ended
			between(t, "the end", time.Since(start), 5*time.Second, 5*time.Second+2*tick)
			if !errors.Is(r.err, ErrTimeout) {
				t.Errorf("Closed(%v)", r.err)
			}
		})
	}
}

func TestConnQuiet(t *testing.T) {
	set := func(c *Config, r *recorder) { c.LoginTimeout, r.quiet = time.Second, 3*time.Second }
	bubble(t, set, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		for range 20 {
			time.Sleep(2900 * time.Millisecond)
			send(t, client, "still there")
		}
		start := time.Now()
		<-r.ended
		between(t, "the end", time.Since(start), 3*time.Second-tick, 3*time.Second+2*tick)
		if !errors.Is(r.err, ErrTimeout) {
			t.Errorf("Closed(%v)", r.err)
		}
	})
}

func TestConnWithoutKeepAliveMayBeQuiet(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		time.Sleep(1000 * time.Hour)
		send(t, client, "ask")
		receive(t, client, "told")
	})
}

// TestConnLoginBytes shows faults 2 and 13.
func TestConnLoginBytes(t *testing.T) {
	cfg := testConfig()
	cfg.LoginBytes = 1024
	for _, c := range []struct {
		name   string
		before string // a frame sent before
		size   int    // of the frame that is too large, or just not
		part   int    // what is sent of it, 0 for all
		ok     bool
	}{
		{"just fits before log-in", "", 1021, 0, true},
		{"too large before log-in", "", 1024, 0, false},
		{"huge before log-in", "", 65_000, 0, false},
		{"after a small frame", "small", 1024, 0, false},
		{"as large as allowed after log-in", "in", 5998, 0, true},
		{"too large after log-in", "in", 65_000, 6001, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyConn(t, cfg, func(r *recorder) { r.maxFrame = 6000 }, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
				if c.before != "" {
					send(t, client, c.before)
				}
				if c.before == "in" {
					receive(t, client, "in")
				}
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					b := append(frame(string(make([]byte, c.size))), frame("done")...)
					if c.part > 0 {
						b = b[:c.part]
					}
					_, _ = client.Write(b)
				}()
				within(t, "Closed", r.ended)
				if c.ok != (r.err == nil) || !c.ok && !errors.Is(r.err, ErrFrameTooLarge) {
					t.Errorf("Closed(%v)", r.err)
				}
				for _, f := range r.seen() {
					if !c.ok && len(f) > 1000 {
						t.Errorf("a frame of %d bytes was fed", len(f))
					}
				}
				_ = client.Close()
				<-sent
			})
		})
	}
}

// A frame's beginning is kept in about the memory that it needs, and nothing
// when there is none.
// It shows faults 1 and 2.
func TestConnKeepsOnlyWhatItNeeds(t *testing.T) {
	everyConn(t, testConfig(), func(r *recorder) { r.maxFrame = 66_000 }, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		large := frame(string(make([]byte, 65_000)))
		for _, have := range []int{1, 3, 600, 5_000, 20_000, 63_000} {
			seen := len(r.seen())
			// The part comes behind a whole frame, and in two pieces.
			for _, b := range [][]byte{append(frame("before"), large[:have/3]...), large[have/3 : have]} {
				if _, err := client.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			soon(t, "the frame before", func() bool { return len(r.seen()) > seen && s.bufs.lent.Load() == 0 })
			if _, err := client.Write(large[have:]); err != nil {
				t.Fatal(err)
			}
			send(t, client, "ask")
			receive(t, client, "told")
		}
		if got := r.seen(); len(got) != 1+3*6 {
			t.Errorf("%d frames", len(got))
		}
		soon(t, "no buffer is held", func() bool { return s.bufs.lent.Load() == 0 })
	})
}

func TestPackKeepsLittle(t *testing.T) {
	c := &Conn{}
	c.loggedIn = true
	lent := make([]byte, readSize)
	for _, n := range []int{0, 1, 100, ownFrame - 1, ownFrame, 30_000, readSize} {
		c.pack(lent, n, lent)
		if cap(c.rest) > 4*n+ownFrame || len(c.rest) != n || n == 0 && c.rest != nil {
			t.Errorf("%d bytes keep %d", n, cap(c.rest))
		}
		if buf, have := c.unpack(lent); have != n || c.window(buf) <= have {
			t.Errorf("no room after %d bytes", n)
		}
	}
	c.pack(make([]byte, 1<<20), 5000, lent)
	if cap(c.rest) > 4*5000 {
		t.Errorf("5000 bytes keep %d", cap(c.rest))
	}
}

func TestConnLargeFrames(t *testing.T) {
	bubble(t, func(_ *Config, r *recorder) { r.maxFrame = 66_000 }, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		want := []string{"in"}
		for _, n := range []int{0, 1, 509, 510, 511, 4095, 4096, 30_000, 65_533, 65_534, 65_535} {
			body := string(bytes.Repeat([]byte{byte(n)}, n))
			send(t, client, body, "ask")
			receive(t, client, "told")
			want = append(want, body, "ask")
		}
		if !slices.Equal(r.seen(), want) {
			t.Error("not the frames that were sent")
		}
	})
}
