package core_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
)

// Metrics have one name for each limit, whoever came to it.
func TestLimitNames(t *testing.T) {
	bubble(t, func(h *house) {
		counts := h.broker.Limited()
		for _, name := range []string{
			"user_connections", "messages", "bytes", "replayed", "queues", "bindings", "take_overs", "unacked_bytes",
			"queues_in_all", "exchanges_in_all", "user_queues",
		} {
			if n, ok := counts[name]; !ok || n != 0 {
				t.Errorf("%s: %d, %v", name, n, ok)
			}
			delete(counts, name)
		}
		if len(counts) > 0 {
			t.Errorf("more: %v", counts)
		}
		if h.broker.Stats().Limited["queues"] != 0 {
			t.Error("not in the stats")
		}
	})
}

// A user's places come back, however a connection ended or did not begin.
func TestConnectionsOfAUserComeBack(t *testing.T) {
	ann := of("ann", auth.Limits{Connections: 2})
	for _, c := range []struct {
		name string
		end  func(*house, *core.Session)
	}{
		{"good-bye", func(_ *house, s *core.Session) { s.Close(core.CloseNormal) }},
		{"lost", func(_ *house, s *core.Session) { s.Close(core.CloseLost) }},
		{"closed twice", func(_ *house, s *core.Session) {
			s.Close(core.CloseLost)
			s.Close(core.CloseLost)
		}},
		{"taken over, and closed late", func(h *house, s *core.Session) {
			again, _ := h.connect("a", ann)
			s.Close(core.CloseLost)
			again.Close(core.CloseNormal)
		}},
		{"shut down", func(_ *house, s *core.Session) { s.Close(core.CloseShutdown) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(h *house) {
				for range 5 {
					s, _ := h.connect("a", ann)
					c.end(h, s)
				}
				one, _ := h.connect("1", ann)
				two, _ := h.connect("2", ann)
				_, _, err := h.broker.Connect(h.ctx, hello("3", ann))
				h.wantError(err, core.ErrLimit)
				one.Close(core.CloseNormal)
				two.Close(core.CloseNormal)
				one, _ = h.connect("1", ann)
				two, _ = h.connect("2", ann)
				one.Close(core.CloseNormal)
				two.Close(core.CloseNormal)
			})
		})
	}
}

// Only who would take a session over from somebody waits.
func TestNotDamped(t *testing.T) {
	for _, c := range []struct {
		name string
		most int
		h    core.Hello
		here bool
	}{
		{"nobody has it", 1, hello("a"), false},
		{"no limit", 0, hello("a"), true},
		{"it cannot be resumed", 1, core.Hello{Protocol: "mqtt", ClientID: "a"}, true},
		{"another protocol's", 1, core.Hello{Protocol: "stomp", ClientID: "a", Resumable: true}, true},
		{"another's", 1, hello("b"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := func(l *core.ClientConfig) { l.TakeOvers = c.most }
			limitedHouse(t, set, func(h *house) {
				s, _ := h.connect("a")
				if !c.here {
					s.Close(core.CloseLost)
				}
				for range 10 {
					if wait := h.broker.Damp(c.h); wait != 0 {
						t.Fatalf("waits %v", wait)
					}
				}
				if n := h.limited(core.LimitTakeOvers); n != 0 {
					t.Errorf("counted %d", n)
				}
			})
		})
	}
}

// With all limits off nothing is counted, and nobody waits.
func TestNoLimits(t *testing.T) {
	set := func(l *core.ClientConfig) { *l = core.ClientConfig{Burst: time.Second} }
	limitedHouse(t, set, func(h *house) {
		s, _ := h.connect("a")
		h.queue(s, "a")
		for i := range 300 {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q" + strconv.Itoa(i))})
			h.must(err)
			h.bind(s, "a", "t/"+strconv.Itoa(i))
			h.tell(s, "r/"+strconv.Itoa(i), "x", retain)
		}
		for range 50 {
			h.bind(s, "a", "#", replay(core.ReplayAlways))
			h.connect("twin")
			if wait := h.broker.Damp(hello("twin")); wait != 0 {
				t.Errorf("waits %v", wait)
			}
		}
		if wait, slow := h.spend(s, 1000, 1000); wait != 0 || slow {
			t.Errorf("waits %v, %v", wait, slow)
		}
		for name, n := range h.broker.Limited() {
			if n != 0 {
				t.Errorf("%s: %d", name, n)
			}
		}
	})
}

// A user's connections that publish at the same time spend from one meter, and
// nothing of it is lost.
func TestRateOfAUserAtOnce(t *testing.T) {
	bubble(t, func(h *house) {
		own := auth.Limits{Messages: 100}
		var mu sync.Mutex
		var longest time.Duration
		var wg sync.WaitGroup
		for i := range 10 {
			s, _ := h.connect(fmt.Sprint(i), of("ann", own))
			wg.Go(func() {
				for range 10 {
					wait, _ := h.spend(s, 10, 1)
					mu.Lock()
					longest = max(longest, wait)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		// 1000 messages, of which 200 were free.
		if longest.Round(time.Millisecond) != 8*time.Second {
			t.Errorf("the last waits %v", longest)
		}
	})
}
