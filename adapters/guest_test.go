package adapters

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// inn is a server of guests behind a door with one place for handshakes.
func inn(t *testing.T, cfg Config, of DoorConfig) *Server {
	t.Helper()
	s := NewServer(cfg, "test", slog.New(slog.DiscardHandler), nil)
	s.Behind(NewDoor(of))
	return s
}

func noRoom(bool) bool { return false }

// guest is one of an address, which begins at once; err has what Begin says.
func guest(t *testing.T, s *Server, peer string) (*Guest, chan error) {
	t.Helper()
	g, err := s.Admit(netip.MustParseAddr(peer), noRoom)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	g.Begin(func(err error) { got <- err })
	synctest.Wait()
	return g, got
}

func (s *Server) closeInn(t *testing.T) {
	t.Helper()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if s.Open() != 0 || s.door.Open() != 0 || s.door.Waiting() != 0 || s.door.handshakes.free != 1 {
		t.Errorf("left behind: %d, %d, %d, %d", s.Open(), s.door.Open(), s.door.Waiting(), s.door.handshakes.free)
	}
}

// Guests wait for a place without a goroutine, give it up while their clients are
// to speak, get it back before those who have not begun, and leave at any time.
func TestGuestsWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inn(t, DefaultConfig(), doorConfig())
		a, gotA := guest(t, s, "10.0.0.1")
		b, gotB := guest(t, s, "10.0.0.2")
		c, gotC := guest(t, s, "10.0.0.3")
		d, gotD := guest(t, s, "10.0.0.4")
		if len(gotA) != 1 || len(gotB)+len(gotC)+len(gotD) != 0 || s.door.Waiting() != 3 {
			t.Fatalf("%d, %d, %d, %d", len(gotA), len(gotB), len(gotC), len(gotD))
		}
		a.Rest()
		synctest.Wait()
		if err := <-gotB; err != nil {
			t.Fatal(err)
		}
		worked, paused := make(chan error, 1), false
		go func() { worked <- a.Work(nil, func() { paused = true }) }()
		synctest.Wait()
		c.Leave()
		if err := <-gotC; !errors.Is(err, ErrKicked) {
			t.Errorf("who left was told %v", err)
		}
		b.LoggedIn()
		b.Rest() // of what it has not
		synctest.Wait()
		if err := <-worked; err != nil || !paused || len(gotD) != 0 {
			t.Errorf("%v, %v, %d", err, paused, len(gotD))
		}
		a.Leave()
		a.Leave()
		if err := a.Work(nil, nil); err != nil {
			t.Error(err)
		}
		if err := <-gotD; err != nil {
			t.Error(err)
		}
		if err := b.Work(nil, nil); err != nil { // it is in
			t.Error(err)
		}
		b.Leave()
		d.Leave()
		s.closeInn(t)
		if _, err := s.Admit(netip.Addr{}, noRoom); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// Who waits for more work is let go when it is to end.
func TestGuestWorkIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inn(t, DefaultConfig(), doorConfig())
		a, _ := guest(t, s, "10.0.0.1")
		a.Rest()
		b, gotB := guest(t, s, "10.0.0.2")
		if err := <-gotB; err != nil {
			t.Fatal(err)
		}
		cancel, worked := make(chan struct{}), make(chan error, 1)
		go func() { worked <- a.Work(cancel, func() {}) }()
		synctest.Wait()
		close(cancel)
		if err := <-worked; !errors.Is(err, ErrKicked) {
			t.Error(err)
		}
		b.Leave()
		a.Leave()
		c, gotC := guest(t, s, "10.0.0.3") // the place is free
		if err := <-gotC; err != nil {
			t.Error(err)
		}
		c.Leave()
		c.Begin(func(err error) { gotC <- err })
		if err := <-gotC; !errors.Is(err, ErrKicked) {
			t.Error(err)
		}
		s.closeInn(t)
	})
}

// What waits is bounded, and who waited for too long is told.
func TestGuestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := doorConfig()
		door.MaxWaiting, door.MaxWait = 1, time.Second
		s := inn(t, DefaultConfig(), door)
		a, _ := guest(t, s, "10.0.0.1")
		b, gotB := guest(t, s, "10.0.0.2")
		c, gotC := guest(t, s, "10.0.0.3")
		if err := <-gotC; !errors.Is(err, errLineFull) {
			t.Errorf("beyond max_waiting: %v", err)
		}
		time.Sleep(10 * time.Second)
		a.Leave()
		if err := <-gotB; !errors.Is(err, errWaitedLong) {
			t.Errorf("after 10 s: %v", err)
		}
		b.Leave()
		c.Leave()
		if n := s.Refused()["limits.max_wait"]; n != 2 {
			t.Errorf("%d counted", n)
		}
		s.closeInn(t)
	})
}

// The limits of connections count guests, of IPv6 those of a /64 together, and each
// limit asks for room where it is.
func TestGuestsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			change func(*Config, *DoorConfig)
			want   error
			own    bool
			label  string
		}{
			"max_connections":     {func(c *Config, _ *DoorConfig) { c.MaxConnections = 2 }, ErrTooMany, false, "max_connections"},
			"max_per_peer":        {func(c *Config, _ *DoorConfig) { c.MaxPerPeer = 2 }, ErrTooManyOfPeer, true, "max_per_peer"},
			"all protocols":       {func(_ *Config, d *DoorConfig) { d.MaxConnections = 2 }, ErrTooMany, false, "limits.max_connections"},
			"one of all":          {func(_ *Config, d *DoorConfig) { d.MaxPerAddress = 2 }, ErrTooManyOfPeer, true, "limits.max_per_address"},
			"those in handshakes": {func(c *Config, _ *DoorConfig) { c.MaxPending = 2 }, errOverLimit, false, "max_pending"},
		} {
			cfg, door := DefaultConfig(), doorConfig()
			c.change(&cfg, &door)
			s := inn(t, cfg, door)
			a, _ := guest(t, s, "2001:db8::1")
			b, _ := guest(t, s, "2001:db8::2")
			asked := 0
			room := func(own bool) bool {
				asked++
				if own != c.own {
					t.Errorf("%s: own is %v", name, own)
				}
				if asked == 2 {
					b.Leave()
				}
				return asked == 2
			}
			at := netip.MustParseAddr("2001:db8::3")
			if _, err := s.Admit(at, room); !errors.Is(err, c.want) || s.Refused()[c.label] != 1 {
				t.Errorf("%s: %v, %v", name, err, s.Refused())
			}
			if c.want == errOverLimit {
				a.LoggedIn()
			}
			g, err := s.Admit(at, room)
			if err != nil || s.Refused()[c.label] != 1 || g.Peer() != Peer(at) {
				t.Fatalf("%s, with room: %v, %v", name, err, s.Refused())
			}
			a.Leave()
			b.Leave()
			g.Leave()
			synctest.Wait()
			s.closeInn(t)
		}
	})
}
