package adapters

import (
	"bytes"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A frame that comes in tiny pieces for ever is read at the rate that is allowed,
// and a short one in pieces costs nothing.
// It shows fault 67.
func TestTinyPieces(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		go func() { _, _ = client.Read(make([]byte, 100)) }()
		_, _ = client.Write(frame("in"))
		pieces := func(size, frames int) time.Duration {
			start := time.Now()
			for range frames {
				for _, b := range frame(string(make([]byte, size-2))) {
					if _, err := client.Write([]byte{b}); err != nil {
						t.Fatal(err)
					}
				}
			}
			synctest.Wait()
			return time.Since(start)
		}
		if d := pieces(freeCrumbs, 1000); d > 0 {
			t.Errorf("short frames in pieces: %v", d)
		}
		between(t, "a long frame in pieces", pieces(10_000, 1), 8*time.Second, 10*time.Second)
		if s.door.Slowed() == 0 {
			t.Error("not counted")
		}
		time.Sleep(10 * time.Second)
		large := bytes.Repeat(frame(string(make([]byte, 5000))), 100)
		start := time.Now()
		for len(large) > 0 { // in reads of some size
			n := min(crumb+1, len(large))
			_, _ = client.Write(large[:n])
			large = large[n:]
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("pieces that are not tiny: %v", d)
		}
	})
}

// Chores are paid at a rate, a second's worth is free, and no wait is endless.
// It shows fault 67.
func TestChoresArePaid(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var h chores
	pay := func(after time.Duration, n int) time.Duration {
		now = now.Add(after)
		h.done = n
		return h.pay(now, 1000)
	}
	for i, c := range []struct {
		after time.Duration
		done  int
		wait  time.Duration
	}{
		{0, 1000, 0},
		{0, 100, 100 * time.Millisecond},
		{100 * time.Millisecond, 1000, time.Second},
		{2 * time.Second, 1000, 0},
		{time.Hour, 2000, time.Second},
		{time.Hour, 1 << 30, longestChores},
		{longestChores, 1, time.Millisecond},
	} {
		if got := pay(c.after, c.done); got != c.wait {
			t.Errorf("step %d: %v, want %v", i, got, c.wait)
		}
	}
}

// Without the limit nobody waits.
func TestChoresWithoutLimit(t *testing.T) {
	cfg := doorConfig()
	cfg.Chores = 0
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(testConfig(), func(r *recorder) {
			r.onFrame = func(string) {
				for range 1000 {
					r.conn.Chore()
				}
			}
		})
		s.Behind(NewDoor(cfg))
		client, server := net.Pipe()
		s.serve(server)
		start := time.Now()
		for range 100 {
			_, _ = client.Write(frame("ping"))
		}
		if d := time.Since(start); d > 0 || s.door.Slowed() > 0 {
			t.Errorf("%v, slowed %d times", d, s.door.Slowed())
		}
		_ = client.Close()
		s.end(t)
	})
}
