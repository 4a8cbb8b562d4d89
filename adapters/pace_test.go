package adapters

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// paced gives a recorder's connection a pace when it logs in.
func paced(r *recorder, wait time.Duration, after string) {
	slow := false
	r.onFrame = func(body string) {
		switch body {
		case "in":
			r.conn.Pace(func() (time.Duration, bool) {
				if slow {
					return wait, true
				}
				return 0, false
			})
		case after:
			slow = true
		case "fast":
			slow = false
		}
	}
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frames)
}

// A connection that is to wait is read again when the time is over.
func TestConnSlowed(t *testing.T) {
	set := func(_ *Config, r *recorder) { paced(r, time.Second, "slow") }
	bubble(t, set, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		go func() {
			_, _ = client.Write(frame("in"))
			for _, body := range []string{"a", "slow", "b", "c", "fast", "d", "e"} {
				_, _ = client.Write(frame(body))
			}
		}()
		go func() { _, _ = client.Read(make([]byte, 100)) }()
		start := time.Now()
		var at []time.Duration // of each frame
		for len(at) < 8 {
			for n := r.count(); len(at) < n; {
				at = append(at, time.Since(start))
			}
			time.Sleep(100 * time.Millisecond)
		}
		for i, want := range []time.Duration{0, 0, 0, 1, 2, 3, 3, 3} {
			if d := at[i] - want*time.Second; d < 0 || d > 200*time.Millisecond {
				t.Errorf("frame %d after %v, want %d s", i, at[i], want)
			}
		}
	})
}

// Kick ends the waiting, and a client that goes is noticed after it.
func TestConnSlowedEnds(t *testing.T) {
	for _, c := range []struct {
		title string
		end   func(r *recorder, client net.Conn)
		want  time.Duration
	}{
		{"kicked", func(r *recorder, _ net.Conn) { r.conn.Kick(ErrKicked) }, 0},
		{"the client goes", func(_ *recorder, client net.Conn) { _ = client.Close() }, time.Minute},
	} {
		t.Run(c.title, func(t *testing.T) {
			set := func(_ *Config, r *recorder) { paced(r, time.Minute, "slow") }
			bubble(t, set, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
				go func() { _, _ = client.Read(make([]byte, 100)) }()
				_, _ = client.Write(frame("in"))
				_, _ = client.Write(frame("slow"))
				synctest.Wait()
				start := time.Now()
				c.end(r, client)
				<-r.ended
				between(t, "the end", time.Since(start), c.want-time.Second, c.want+time.Second)
			})
		})
	}
}

// While reading is slow, little is read at a time, over every carrier; a frame
// larger than that comes through.
// It shows fault 87.
func TestConnSlowedReadsLittle(t *testing.T) {
	for _, c := range carriers {
		t.Run(c.name, func(t *testing.T) {
			client, server := c.pair(t)
			s := newFixture(testConfig(), func(r *recorder) { paced(r, time.Millisecond, "slow") })
			r := s.serve(server)
			go func() { _, _ = client.Read(make([]byte, 100)) }()
			_, _ = client.Write(frame("in"))
			_, _ = client.Write(frame("slow"))
			soon(t, "slowness", func() bool { return r.count() == 2 })
			before := r.idleCount()
			var all []byte
			for range 1000 {
				all = append(all, frame(string(make([]byte, 62)))...)
			}
			all = append(all, frame(string(make([]byte, 60_000)))...)
			go func() { _, _ = client.Write(all) }()
			soon(t, "all frames", func() bool { return r.count() == 1003 })
			if n := r.idleCount() - before; n < len(all)/(slowRead+quietSize) {
				t.Errorf("%d bytes in %d reads", len(all), n)
			}
			_ = client.Close()
			s.end(t)
		})
	}
}

func (r *recorder) idleCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idles
}
