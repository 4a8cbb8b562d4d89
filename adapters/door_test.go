package adapters

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func doorConfig() DoorConfig {
	c := DefaultDoorConfig()
	c.Handshakes, c.LogIns = 1, 1
	return c
}

// Limits hold over servers of several protocols.
func TestDoorCountsOverProtocols(t *testing.T) {
	cfg := doorConfig()
	cfg.MaxConnections, cfg.MaxPerAddress = 3, 2
	d := NewDoor(cfg)
	for _, c := range []struct {
		peer string
		want refusal
	}{
		{"10.0.0.1", notRefused}, {"10.0.0.1", notRefused}, {"10.0.0.1", tooManyOfAddress},
		{"10.0.0.2", notRefused}, {"10.0.0.3", tooManyInAll},
	} {
		if got := d.enter(netip.MustParseAddr(c.peer)); got != c.want {
			t.Errorf("%s: %v, want %v", c.peer, got, c.want)
		}
	}
	d.leave(netip.MustParseAddr("10.0.0.1"))
	if got := d.enter(netip.MustParseAddr("10.0.0.1")); got != notRefused || d.Open() != 3 {
		t.Errorf("%v, %d open", got, d.Open())
	}
}

func TestTwoServersBehindOneDoor(t *testing.T) {
	cfg := doorConfig()
	cfg.MaxConnections = 1
	d := NewDoor(cfg)
	one, two := newFixture(testConfig(), nil), newFixture(testConfig(), nil)
	one.Behind(d)
	two.Behind(d)
	client, server := net.Pipe()
	one.serve(from{server, peer("10.0.0.1")})
	other, server := net.Pipe()
	two.serve(from{server, peer("10.0.0.2")})
	finished(t, other)
	if n := two.Refused()["limits.max_connections"]; n != 1 || turnedAway(one.Server) != 0 {
		t.Errorf("refused %v, %v", one.Refused(), two.Refused())
	}
	_ = client.Close()
	one.end(t)
	two.end(t)
	if d.Open() != 0 {
		t.Errorf("%d open", d.Open())
	}
}

// waiter asks for a place on a goroutine of its own.
func waiter(p *places, peer string, got func(error), hold <-chan struct{}) *place {
	c := &place{of: p, peer: netip.MustParseAddr(peer)}
	go func() {
		err := c.take(func() <-chan struct{} { return nil })
		got(err)
		if err == nil {
			<-hold
			c.give(true)
		}
	}()
	synctest.Wait()
	return c
}

// Addresses take turns: one with many clients waits for itself.
// It shows fault 88.
func TestPlacesGoRoundTheAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1, 100, time.Minute)
		hold := make(chan struct{})
		var order []string
		for _, peer := range []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2"} {
			waiter(p, peer, func(error) { order = append(order, peer[7:]) }, hold)
		}
		for range 7 {
			hold <- struct{}{}
			synctest.Wait()
		}
		if want := []string{"1", "1", "2", "3", "1", "2", "1"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		if p.length() != 0 || p.free != 1 || len(p.lines) != 0 || len(p.turns) != 0 {
			t.Errorf("left: %+v", p)
		}
	})
}

// Who has begun goes before who has not, whatever its address.
func TestPlacesOfThoseWhoHadBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1, 100, time.Minute)
		none := func() <-chan struct{} { return nil }
		begun, holder := &place{of: p}, &place{of: p}
		if begun.take(none) != nil {
			t.Fatal("no place")
		}
		begun.give(false) // it waits for its client
		if holder.take(none) != nil {
			t.Fatal("no place")
		}
		var order []string
		hold := make(chan struct{}, 9)
		waiter(p, "10.0.0.1", func(error) { order = append(order, "new") }, hold)
		go func() {
			_ = begun.take(none)
			order = append(order, "begun")
			begun.give(true)
		}()
		synctest.Wait()
		hold <- struct{}{}
		holder.give(true)
		synctest.Wait()
		if !slices.Equal(order, []string{"begun", "new"}) {
			t.Error(order)
		}
	})
}

// Who would wait too long is refused at once, and those in line are served.
func TestPlacesRefuseTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1, 1000, 10*time.Second)
		served, refused := 0, 0
		hold := make(chan struct{})
		got := func(err error) {
			switch {
			case err == nil:
				served++
			case errors.Is(err, errLineFull):
				refused++
			default:
				t.Error(err)
			}
		}
		for range 2 * surePaces {
			waiter(p, "10.0.0.1", got, hold)
		}
		for range surePaces { // one in 100 ms
			time.Sleep(100 * time.Millisecond)
			hold <- struct{}{}
			synctest.Wait()
		}
		for range 500 {
			waiter(p, "10.0.0.1", got, hold)
		}
		if refused < 400 || refused > 432 {
			t.Errorf("%d refused of 500, when 100 can be served in time and 31 wait", refused)
		}
		for p.length() > 0 {
			time.Sleep(100 * time.Millisecond)
			hold <- struct{}{}
			synctest.Wait()
		}
		hold <- struct{}{}
		if want := 2*surePaces + 500 - refused; served != want {
			t.Errorf("%d served of the %d that were not refused", served, want)
		}
	})
}

func TestPlacesFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1, 2, time.Minute)
		hold := make(chan struct{})
		var mu sync.Mutex
		var errs []error
		for i := range 4 {
			waiter(p, fmt.Sprintf("10.0.0.%d", i), func(err error) {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}, hold)
		}
		if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], errLineFull) {
			t.Errorf("%v", errs)
		}
		// Who waited too long is not served any more.
		time.Sleep(3 * time.Minute)
		hold <- struct{}{}
		synctest.Wait()
		if len(errs) != 4 || !errors.Is(errs[2], errWaitedLong) || !errors.Is(errs[3], errWaitedLong) || p.free != 1 {
			t.Errorf("%v", errs)
		}
	})
}

// A waiter that gives up leaves nothing behind, and those behind it move up.
func TestPlaceGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1, 10, time.Minute)
		hold := make(chan struct{})
		waiter(p, "10.0.0.1", func(error) {}, hold)
		cancel := make(chan struct{})
		var gaveUp error
		go func() {
			gaveUp = (&place{of: p}).take(func() <-chan struct{} { return cancel })
		}()
		synctest.Wait()
		served := false
		waiter(p, "10.0.0.1", func(err error) { served = err == nil }, hold)
		close(cancel)
		synctest.Wait()
		if !errors.Is(gaveUp, ErrKicked) || p.length() != 1 {
			t.Errorf("%v, %d wait", gaveUp, p.length())
		}
		hold <- struct{}{}
		synctest.Wait()
		if hold <- struct{}{}; !served {
			t.Error("the next was not served")
		}
		synctest.Wait()
		if p.free != 1 || p.length() != 0 {
			t.Errorf("left %+v", p)
		}
	})
}

// Log-ins come one after the other, on every carrier; who is in is
// served meanwhile, and the time for a log-in does not run while one waits.
// It shows fault 88.
func TestLogInsWaitForAPlace(t *testing.T) {
	for _, carrier := range carriers {
		t.Run(carrier.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.LoginTimeout = 400 * time.Millisecond
			s := newFixture(cfg, nil)
			s.Behind(NewDoor(doorConfig()))
			in, server := carrier.pair(t)
			s.serve(server)
			send(t, in, "in")
			receive(t, in, "in")

			busy, server := carrier.pair(t)
			held := s.serve(server)
			waits, server := carrier.pair(t)
			s.serve(server)
			send(t, busy, "hold")
			soon(t, "one is at work", func() bool { return len(held.seen()) == 1 })
			send(t, waits, "in")
			soon(t, "one waits", func() bool { return s.door.Waiting() == 1 })
			for range 3 {
				send(t, in, "ask")
				receive(t, in, "told")
			}
			finished(t, timedOut(t, s, carrier.pair)) // the clock of others runs
			close(held.release)
			receive(t, waits, "in")
			for _, c := range []net.Conn{in, busy, waits} {
				_ = c.Close()
			}
			s.end(t)
		})
	}
}

// timedOut is a client that says nothing until its time is over.
func timedOut(t *testing.T, s *fixture, pair func(testing.TB) (client, server net.Conn)) net.Conn {
	client, server := pair(t)
	r := s.serve(server)
	within(t, "end of a silent client", r.ended)
	return client
}

func TestRestGivesThePlaceToOthers(t *testing.T) {
	s := newFixture(testConfig(), nil)
	s.Behind(NewDoor(doorConfig()))
	rests, server := net.Pipe()
	r := s.serve(server)
	rested := make(chan error, 1)
	r.on(func(body string) {
		if body == "rest" {
			rested <- r.conn.Rest(300 * time.Millisecond)
		}
	})
	send(t, rests, "rest")
	other, server := net.Pipe()
	s.serve(server)
	send(t, other, "in")
	receive(t, other, "in")
	if err := <-rested; err != nil {
		t.Error(err)
	}
	send(t, rests, "rest")
	r.conn.Kick(errBad)
	if err := <-rested; err == nil {
		t.Error("a rest went on after the end")
	}
	_, _ = rests.Close(), other.Close()
	s.end(t)
}

func TestDoorConfig(t *testing.T) {
	if err := DefaultDoorConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, set := range []func(*DoorConfig){
		func(c *DoorConfig) { c.MaxConnections = -1 },
		func(c *DoorConfig) { c.MaxPerAddress = -1 },
		func(c *DoorConfig) { c.Handshakes = -1 },
		func(c *DoorConfig) { c.LogIns = 10_001 },
		func(c *DoorConfig) { c.MaxWaiting = 0 },
		func(c *DoorConfig) { c.MaxWait = time.Millisecond },
		func(c *DoorConfig) { c.Chores = -1 },
	} {
		c := DefaultDoorConfig()
		if set(&c); c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// A TLS handshake waits for its place, which no client keeps that
// says nothing more; those that are in are served meanwhile.
// It shows fault 88.
func TestHandshakesWaitForAPlace(t *testing.T) {
	ca := newAuthority(t, "test CA")
	cert := ca.server("server", "localhost")
	f := newFixture(testConfig(), nil)
	f.Behind(NewDoor(doorConfig()))
	s := listening(t, f, TLSConfig{Certs: []string{cert.certFile}, Keys: []string{cert.keyFile}}, "")
	clientTLS := &tls.Config{RootCAs: ca.pool(), ServerName: "localhost"}
	in, err := s.dial(clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	busy := place{of: s.door.handshakes}
	if err := busy.take(nil); err != nil {
		t.Fatal(err)
	}
	halves := dialHalf(t, s.at)
	soon(t, "a handshake waits", func() bool { return s.door.Waiting() == 1 })
	dialled := make(chan error, 1)
	go func() {
		c, err := s.dial(clientTLS)
		if err == nil {
			err = c.Close()
		}
		dialled <- err
	}()
	soon(t, "two handshakes wait", func() bool { return s.door.Waiting() == 2 })
	send(t, in, "ask")
	receive(t, in, "told")
	busy.give(true)
	if err := <-dialled; err != nil {
		t.Errorf("with one handshake that does not go on: %v", err)
	}
	_, _ = in.Close(), halves.Close()
	s.end(t)
	if n := s.door.handshakes.free; n != 1 {
		t.Errorf("%d places are free", n)
	}
}

// dialHalf begins a ClientHello and says no more.
func dialHalf(t *testing.T, at string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte{22, 3, 1, 2, 0, 1, 0}); err != nil {
		t.Fatal(err)
	}
	return c
}
