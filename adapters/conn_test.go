package adapters

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// everyConn runs f with a connection over each carrier, in real time.
func everyConn(t *testing.T, cfg Config, set func(*recorder), f func(t *testing.T, s *fixture, client net.Conn, r *recorder)) {
	t.Helper()
	for _, c := range carriers {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(cfg, set)
			client, server := c.pair(t)
			narrow(server)
			r := s.serve(server)
			f(t, s, client, r)
			_ = client.Close()
			s.end(t)
		})
	}
}

func TestConnFramesAndAnswers(t *testing.T) {
	everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		for i := range 50 {
			send(t, client, fmt.Sprint(i), "ask")
			receive(t, client, "told")
		}
		send(t, client, "done")
		finished(t, client)
		within(t, "Closed", r.ended)
		if r.err != nil {
			t.Errorf("Closed(%v) after a good-bye", r.err)
		}
		if got := len(r.seen()); got != 102 {
			t.Errorf("%d frames, want 102", got)
		}
	})
}

func TestConnEndsOfInput(t *testing.T) {
	for _, c := range []struct {
		name string
		sent []byte // after "in"
		want error
	}{
		{"nothing sent", nil, nil},
		{"between frames", frame("frame"), nil},
		{"in the length", frame("frame")[:1], io.EOF},
		{"in the body", append(frame("frame"), frame("half a frame")[:5]...), io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
				send(t, client, "in")
				receive(t, client, "in")
				if _, err := client.Write(c.sent); err != nil && len(c.sent) > 0 {
					t.Fatal(err)
				}
				_ = client.Close()
				within(t, "Closed", r.ended)
				if !errors.Is(r.err, c.want) || c.want == nil && r.err != nil {
					t.Errorf("Closed(%v), want %v", r.err, c.want)
				}
			})
		})
	}
}

// What a client sent and its end may come as one event; the end must be seen.
func TestConnSeesAnEndRightAfterData(t *testing.T) {
	for _, c := range carriers[1:] {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/reset=%v", c.name, reset), func(t *testing.T) {
				s := newFixture(testConfig(), nil)
				for i := range 300 {
					client, server := c.pair(t)
					// In the first half all is there before the server looks.
					early := i%2 == 0
					var r *recorder
					if !early {
						r = s.serve(server)
					}
					send(t, client, "in", "one", "two")
					if tcp, ok := client.(*net.TCPConn); ok && reset {
						_ = tcp.SetLinger(0)
					}
					_ = client.Close()
					if early {
						r = s.serve(server)
					}
					within(t, "Closed", r.ended)
				}
				s.end(t)
			})
		}
	}
}

// A busy connection does not read until there is nothing; the wheel sees its end.
func TestConnSeesTheEndOfABusyOne(t *testing.T) {
	for _, c := range carriers[1:] {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/reset=%v", c.name, reset), func(t *testing.T) {
				s := newFixture(testConfig(), nil)
				client, server := c.pair(t)
				r := s.serve(server)
				held := make(chan struct{})
				r.on(func(body string) {
					if body == "hold" {
						close(held)
					}
				})
				send(t, client, "in")
				receive(t, client, "in")
				for range 2 * busyWakes {
					send(t, client, "ask")
					receive(t, client, "told")
				}
				send(t, client, "hold")
				within(t, "Feed", held)
				// Both come before the reader waits, as one event.
				send(t, client, "last")
				if tcp, ok := client.(*net.TCPConn); ok && reset {
					_ = tcp.SetLinger(0)
				}
				_ = client.Close()
				close(r.release)
				within(t, "Closed", r.ended)
				if got := r.seen(); !reset && (got[len(got)-1] != "last" || r.err != nil) {
					t.Errorf("ends with %q, Closed(%v)", got[len(got)-1], r.err)
				}
				if reset && c.name == "tcp" && !errors.Is(r.err, syscall.ECONNRESET) {
					t.Errorf("Closed(%v) after a reset", r.err)
				}
				s.end(t)
			})
		}
	}
}

func TestConnReset(t *testing.T) {
	s := newFixture(testConfig(), nil)
	client, server := carriers[1].pair(t)
	r := s.serve(server)
	send(t, client, "in")
	receive(t, client, "in")
	_ = client.(*net.TCPConn).SetLinger(0)
	_ = client.Close()
	within(t, "Closed", r.ended)
	if !errors.Is(r.err, syscall.ECONNRESET) {
		t.Errorf("Closed(%v)", r.err)
	}
	s.end(t)
}

// The client gets what was written before an error, although it still sends.
func TestConnLastWords(t *testing.T) {
	everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = client.Write(append(frame("bad"), make([]byte, 100_000)...))
		})
		receive(t, client, "why")
		within(t, "Closed", r.ended)
		if !errors.Is(r.err, errBad) {
			t.Errorf("Closed(%v)", r.err)
		}
		_ = client.Close()
		wg.Wait()
	})
}

func TestConnFlushesBeforeAnError(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		_, other := net.Pipe()
		o := newOutbox(other, nil, s.bufs, 4096)
		r.on(func(body string) {
			if body == "bad" {
				o.End(&r.batch, append(o.BeginAnswer(), "for another"...))
			}
		})
		send(t, client, "bad")
		receive(t, client, "why")
		within(t, "Closed", r.ended)
		o.mu.Lock()
		if o.dirty {
			t.Error("another client's bytes were left in the batch")
		}
		o.mu.Unlock()
		_ = other.Close()
		synctest.Wait()
	})
}

func TestConnKick(t *testing.T) {
	why, later := errors.New("why"), errors.New("later")
	everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		var wg sync.WaitGroup
		r.conn.Kick(why)
		for range 4 {
			wg.Go(func() { r.conn.Kick(later) })
		}
		finished(t, client)
		within(t, "Closed", r.ended)
		wg.Wait()
		if !errors.Is(r.err, why) {
			t.Errorf("Closed(%v)", r.err)
		}
		r.conn.Kick(later)
	})
}

// Kick does not wait for a Feed that does, and counts when that returns.
func TestConnKickDuringFeed(t *testing.T) {
	everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		feeding := make(chan struct{})
		r.on(func(body string) {
			if body == "hold" {
				close(feeding)
			}
		})
		send(t, client, "in")
		receive(t, client, "in")
		send(t, client, "hold")
		within(t, "Feed", feeding)
		r.conn.Kick(ErrKicked)
		select {
		case <-r.ended:
			t.Error("Closed came while Feed ran")
		default:
		}
		close(r.release)
		finished(t, client)
		within(t, "Closed", r.ended)
	})
}

// A client that asks and never reads is not read from any more; it can be ended
// and costs a bounded amount until then.
// It shows fault 85.
func TestConnClientThatDoesNotRead(t *testing.T) {
	cfg := testConfig()
	cfg.Linger = 50 * time.Millisecond
	everyConn(t, cfg, nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		written := asking(client, "tell")
		o := r.conn.Outbox
		soon(t, "reading stops", func() bool {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.drained != nil
		})
		if n := o.Unsent(); n > cfg.OutboxBytes+maxAnswers+20*readSize {
			t.Errorf("%d bytes wait", n)
		}
		frames := len(r.seen())
		r.conn.Kick(ErrKicked)
		within(t, "Closed", r.ended)
		if n := len(r.seen()); n != frames {
			t.Errorf("%d frames were taken although reading had stopped", n-frames)
		}
		soon(t, "the connection is gone", func() bool { return s.Open() == 0 })
		within(t, "the client's end", written)
	})
}

// asking writes bodies until the connection ends.
func asking(client net.Conn, body string) <-chan struct{} {
	written := make(chan struct{})
	go func() {
		defer close(written)
		many := bytes.Repeat(frame(body), 100)
		for {
			if _, err := client.Write(many); err != nil {
				return
			}
		}
	}()
	return written
}

// One whose requests are worth too many answers at once is ended.
// It shows fault 85.
func TestConnTooManyAnswers(t *testing.T) {
	everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = client.Write(bytes.Repeat(frame("flood"), 100))
		}()
		within(t, "Closed", r.ended)
		if !errors.Is(r.err, ErrNotReading) {
			t.Errorf("Closed(%v)", r.err)
		}
		soon(t, "the connection is gone", func() bool { return s.Open() == 0 })
		within(t, "the client's end", written)
	})
}

// A client that did not read goes on when it does.
func TestConnGoesOnAfterReading(t *testing.T) {
	everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		const n = 50_000
		send(t, client, "in")
		receive(t, client, "in")
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := client.Write(bytes.Repeat(frame("tell"), n)); err != nil {
				t.Error(err)
			}
		})
		soon(t, "many answers wait", func() bool { return r.conn.Outbox.Unsent() > 1<<20 })
		if _, err := io.CopyN(io.Discard, client, n*62); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

func TestConnWriteFails(t *testing.T) {
	everyConn(t, testConfig(), nil, func(t *testing.T, s *fixture, client net.Conn, r *recorder) {
		send(t, client, "in")
		receive(t, client, "in")
		feeding := make(chan struct{})
		r.on(func(string) { close(feeding) })
		send(t, client, "hold")
		within(t, "Feed", feeding)
		_ = client.Close()
		o := r.conn.Outbox
		soon(t, "the write fails", func() bool {
			o.End(nil, append(o.BeginAnswer(), make([]byte, 5000)...))
			return r.conn.kicked.Load() != nil
		})
		close(r.release)
		within(t, "Closed", r.ended)
		if r.err == nil {
			t.Error("Closed(nil)")
		}
	})
}

// A connection that wakes often works on its own stack, one that does not on
// one on loan.
func TestConnPace(t *testing.T) {
	s := newFixture(testConfig(), nil)
	c := &Conn{server: s.Server}
	at := func(tick int64, wakes int, busy bool) {
		t.Helper()
		s.wheel.now.Store(tick)
		for range wakes {
			c.pace()
		}
		if c.busy != busy {
			t.Errorf("busy = %v in tick %d after %d wakes", c.busy, tick, wakes)
		}
	}
	at(1, busyWakes-1, false)
	at(2, busyWakes, true)
	at(3, 1, true) // the tick before was busy
	at(3, 1, true)
	at(4, 1, false)
	at(5, busyWakes, true)
	at(7, 1, false) // a tick without any between
}
