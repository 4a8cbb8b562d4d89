package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// [MQTT-3.1.4-3] A second connection of the same name takes the session over:
// the older is fenced before Connect returns, and told.
// It shows fault 72.
func TestTakeOver(t *testing.T) {
	bubble(t, func(h *house) {
		kicked := make(chan struct{})
		old := h.fresh("a", func(c *core.Hello) { c.Kick = func(core.EndReason) { close(kicked) } })
		box := h.holding()
		con := h.subscribe(old, "a", "t", box)
		h.tell(old, "t", "1")
		got := box.want("1")
		old.SetState("packet ids")

		s := h.again("a")
		<-kicked
		if s.ID() != old.ID() || s.State() != "packet ids" {
			t.Errorf("id %d, state %v; before %d", s.ID(), s.State(), old.ID())
		}
		h.wantError(con.Settle(nil, core.Ack, got[0].Seq), core.ErrNotFound)
		second := h.holding()
		h.consume(s, "a", second)
		d := second.want("1")[0]
		if d.Seq != got[0].Seq || d.Attempts != 0 {
			t.Errorf("handed over as seq %d with %d attempts, was %d", d.Seq, d.Attempts, got[0].Seq)
		}
		box.want()
	})
}

// The old connection's late clean-up touches nothing of the new one.
// It shows fault 72.
func TestLateCloseOfTheOldConnection(t *testing.T) {
	bubble(t, func(h *house) {
		old := h.fresh("a", expiry(time.Hour))
		h.queue(old, "a")
		s := h.again("a", expiry(time.Hour))
		box := h.inbox()
		h.consume(s, "a", box)
		h.bind(s, "a", "t")
		old.SetState("of the old one")
		old.SetExpiry(0)
		for _, reason := range []core.CloseReason{core.CloseLost, core.CloseNormal, core.CloseWithWill} {
			old.Close(reason)
		}
		if s.State() != nil {
			t.Errorf("state %v", s.State())
		}
		h.tell(s, "t", "1")
		box.want("1")
		s.Close(core.CloseNormal)
		pass(time.Minute)
		h.again("a").Close(core.CloseNormal)
	})
}

// Every verb of a connection that was taken over or closed returns ErrClosed.
func TestVerbsAfterTheEnd(t *testing.T) {
	for _, end := range []string{"taken over", "closed"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, func(h *house) {
				s := h.fresh("a")
				con := h.subscribe(s, "a", "t", h.holding())
				if end == "closed" {
					s.Close(core.CloseNormal)
				} else {
					h.again("a")
				}
				for name, err := range verbs(h, s) {
					t.Log(name)
					h.wantError(err, core.ErrClosed)
				}
				con.Resume(nil)
				con.Cancel(core.Requeue)
				s.Close(core.CloseLost)
			})
		})
	}
}

// verbs calls every verb of a session.
func verbs(h *house, s *core.Session) map[string]error {
	k := core.Named("q")
	bind := core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: h.filter("t")}
	errs := map[string]error{}
	_, errs["declare queue"] = s.DeclareQueue(h.ctx, core.QueueSpec{Key: k})
	_, errs["declare group"] = s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Key(core.GroupQueue, "g", "t")})
	_, errs["delete queue"] = s.DeleteQueue(h.ctx, k, core.DeleteOptions{})
	_, errs["delete group"] = s.DeleteQueue(h.ctx, core.Key(core.GroupQueue, "g", "t"), core.DeleteOptions{})
	_, errs["purge"] = s.PurgeQueue(h.ctx, k)
	errs["declare exchange"] = s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.Fanout})
	errs["declare reserved"] = s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: core.TopicExchange, Passive: true})
	errs["delete exchange"] = s.DeleteExchange(h.ctx, "x", false)
	errs["bind"] = s.Bind(h.ctx, bind)
	bind.Replay = core.ReplayAlways
	errs["bind with replay"] = s.Bind(h.ctx, bind)
	errs["unbind"] = s.Unbind(h.ctx, bind)
	_, errs["consume"] = s.Consume(h.ctx, k, core.ConsumeOptions{}, h.inbox())
	_, errs["retained"] = s.Retained(h.topic("t"))
	_, errs["publish"] = h.say(s, h.note("t", "x"))
	_, errs["publish retained"] = h.say(s, h.note("t", "x", retain))
	s.Apply(nil, []core.Op{{Message: h.note("t", "x")}}, func(_ bool, err error) { errs["apply"] = err })
	s.Apply(nil, nil, func(_ bool, err error) { errs["apply nothing"] = err })
	return errs
}

// Connect does not return while a Deliver of the old connection runs, nor
// while one of its verbs does.
// It shows fault 72.
func TestTakeOverWaits(t *testing.T) {
	bubble(t, func(h *house) {
		old := h.fresh("a")
		inside, leave := make(chan struct{}), make(chan struct{})
		h.subscribe(old, "a", "t", receiver(func(core.Delivery) core.Verdict {
			close(inside)
			<-leave
			return core.Settled
		}))
		go h.fresh("p", plain).Publish(nil, h.note("t", "1"), nil)
		<-inside
		connected := make(chan struct{})
		go func() {
			h.again("a")
			close(connected)
		}()
		synctest.Wait()
		select {
		case <-connected:
			t.Error("connected while the old connection's Deliver runs")
		default:
		}
		close(leave)
		<-connected
	})
}

type receiver func(core.Delivery) core.Verdict

func (f receiver) Deliver(d core.Delivery) core.Verdict { return f(d) }

// heldUp is an engine whose first declare waits.
type heldUp struct {
	core.Engine
	once           sync.Once
	entered, leave chan struct{}
}

func (e *heldUp) DeclareQueue(ctx context.Context, s core.QueueSpec) (core.QueueInfo, error) {
	e.once.Do(func() {
		close(e.entered)
		<-e.leave
	})
	return e.Engine.DeclareQueue(ctx, s)
}

// A declare that the old connection had begun is done before the new session
// begins, so that it is cleaned up with the rest.
func TestCleanStartWaitsForRunningVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newHouse(t)
		e := &heldUp{Engine: inner.engine, entered: make(chan struct{}), leave: make(chan struct{})}
		h := houseOn(t, e, core.DefaultConfig(), nil)
		old := h.fresh("a")
		go func() {
			_, err := old.DeclareQueue(h.ctx, core.QueueSpec{Key: sessionQueue("a"), Exclusive: true})
			h.must(err)
		}()
		<-e.entered
		connected := make(chan struct{})
		go func() {
			s := h.fresh("a", clean)
			h.queue(s, "a") // the old one's would be ErrLocked
			s.Close(core.CloseNormal)
			close(connected)
		}()
		for { // a mutex is no durable wait for synctest
			if _, err := old.PurgeQueue(h.ctx, sessionQueue("a")); errors.Is(err, core.ErrClosed) {
				break
			}
			runtime.Gosched()
		}
		select {
		case <-connected:
			t.Error("connected while a verb of the old connection runs")
		default:
		}
		close(e.leave)
		<-connected
		pass(time.Minute)
		h.wantNothing()
	})
}

// Many newcomers of one name at once: one is left, the others were told.
// It shows fault 72.
func TestManyNewcomers(t *testing.T) {
	bubble(t, func(h *house) {
		const n = 50
		var wg sync.WaitGroup
		var mu sync.Mutex
		kicks, fresh, alive := 0, 0, 0
		var sessions []*core.Session
		for i := range n {
			wg.Go(func() {
				s, resumed := h.connect("a", func(c *core.Hello) {
					c.Clean = i%7 == 0
					c.Kick = func(core.EndReason) {
						mu.Lock()
						defer mu.Unlock()
						kicks++
					}
				})
				_, _ = s.DeclareQueue(h.ctx, core.QueueSpec{Key: sessionQueue("a"), Exclusive: true})
				if i%3 == 0 {
					s.Close(core.CloseLost)
				}
				mu.Lock()
				defer mu.Unlock()
				if !resumed {
					fresh++
				}
				sessions = append(sessions, s)
			})
		}
		wg.Wait()
		synctest.Wait()
		for _, s := range sessions {
			if _, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: sessionQueue("a"), Exclusive: true}); err == nil {
				alive++
			}
		}
		if alive > 1 || fresh == 0 || kicks >= n {
			t.Errorf("%d alive, %d new sessions, %d kicks", alive, fresh, kicks)
		}
		for _, s := range sessions {
			s.Close(core.CloseLost)
		}
		pass(time.Minute)
		h.wantNothing()
	})
}

// What a session is found by, and what becomes of it.
func TestResume(t *testing.T) {
	for _, c := range []struct {
		title      string
		first      func(*core.Hello)
		close      bool // else it is taken over
		wait       time.Duration
		second     func(*core.Hello)
		wantResume bool
	}{
		{"within its expiry", expiry(time.Minute), true, 59 * time.Second, expiry(0), true},
		{"after its expiry", expiry(time.Minute), true, time.Minute, expiry(0), false},
		{"for ever [MQTT-3.1.2-23]", expiry(core.Forever), true, 1000 * time.Hour, expiry(0), true},
		{"expiry 0 ends with the connection", expiry(0), true, 0, expiry(time.Hour), false},
		{"expiry 0 leaves nothing to a take-over [MQTT-3.1.2-6]", expiry(0), false, 0, expiry(time.Hour), false},
		{"taken over", expiry(time.Minute), false, 0, expiry(0), true},
		{"clean start [MQTT-3.1.2-4]", expiry(time.Minute), true, 0, clean, false},
		{"clean start on a take-over", expiry(time.Minute), false, 0, clean, false},
		{"of another protocol", expiry(time.Minute), true, 0, func(c *core.Hello) { c.Protocol = "wamp" }, false},
		{"of another name", expiry(time.Minute), true, 0, func(c *core.Hello) { c.ClientID = "b" }, false},
		{"not resumable", func(c *core.Hello) { c.Resumable = false }, true, 0, expiry(0), false},
	} {
		t.Run(c.title, func(t *testing.T) {
			bubble(t, func(h *house) {
				s := h.fresh("a", c.first)
				h.subscribe(s, "a", "t", h.inbox())
				s.SetState("state")
				if c.close {
					s.Close(core.CloseLost)
				}
				pass(c.wait)
				next, resumed := h.connect("a", c.second)
				if resumed != c.wantResume || (next.State() == "state") != c.wantResume || (next.ID() == s.ID()) != c.wantResume {
					t.Errorf("resumed %v with state %v, id %d after %d; want %v", resumed, next.State(), next.ID(), s.ID(), c.wantResume)
				}
				next.SetExpiry(0)
				next.Close(core.CloseNormal)
				s.Close(core.CloseNormal)
				pass(time.Minute)
			})
		})
	}
}

// A session that ended, one way or the other, leaves nothing.
func TestEndedSessionLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(*house, *core.Session){
		"expiry 0":   func(_ *house, s *core.Session) { s.SetExpiry(0); s.Close(core.CloseLost) },
		"expired":    func(_ *house, s *core.Session) { s.Close(core.CloseLost); pass(time.Minute) },
		"said bye":   func(_ *house, s *core.Session) { s.Close(core.CloseNormal); pass(time.Minute) },
		"clean next": func(h *house, _ *core.Session) { h.fresh("a", clean, expiry(0)).Close(core.CloseNormal) },
		"shutdown":   func(_ *house, s *core.Session) { s.Close(core.CloseShutdown); pass(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *house) {
				s := h.fresh("a")
				h.subscribe(s, "a", "t/#", h.holding())
				h.bind(s, "a", "+/x")
				h.group(s, "g", "t")
				h.tell(s, "t", "1")
				end(h, s)
				h.wantNothing()
			})
		})
	}
}

// While the client is away its queue gathers what is not at most once.
func TestSessionQueueGathers(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		h.subscribe(s, "a", "t", h.inbox())
		s.Close(core.CloseLost)
		p := h.fresh("p", plain)
		h.tell(p, "t", "1")
		h.tell(p, "t", "2", func(m *core.Message) { m.Guarantee = core.AtMostOnce })
		h.tell(p, "t", "3")
		box := h.inbox()
		h.consume(h.again("a"), "a", box)
		box.want("1", "3")
		if n := h.dropped("mqtt", core.DropOffline); n != 1 {
			t.Errorf("%d dropped as offline, want 1", n)
		}
	})
}

// A clean start while the expiry of the old session runs: its timer does
// nothing to the new one.
// It shows fault 72.
func TestOldExpiryDoesNotEndTheNewSession(t *testing.T) {
	bubble(t, func(h *house) {
		h.fresh("a", expiry(time.Minute)).Close(core.CloseLost)
		pass(59 * time.Second)
		s := h.again("a", expiry(time.Minute))
		pass(time.Second)
		s.Close(core.CloseLost)
		pass(59 * time.Second)
		h.again("a")
	})
}

// What a consumer holds when its client is lost: a session's goes back as it
// was, a work queue's has one attempt more; a shutdown is nobody's fault.
func TestLostDeliveries(t *testing.T) {
	for _, c := range []struct {
		key    core.QueueKey
		reason core.CloseReason
		want   uint32
	}{
		{sessionQueue("a"), core.CloseLost, 0},
		{core.Named("work"), core.CloseLost, 1},
		{core.Named("work"), core.CloseNormal, 1},
		{core.Named("work"), core.CloseShutdown, 0},
	} {
		t.Run(fmt.Sprint(c.key, c.reason), func(t *testing.T) {
			bubble(t, func(h *house) {
				s := h.fresh("a")
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: c.key})
				h.must(err)
				h.must(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: c.key, Filter: h.filter("t")}))
				box := h.holding()
				_, err = s.Consume(h.ctx, c.key, core.ConsumeOptions{}, box)
				h.must(err)
				h.tell(s, "t", "1")
				box.want("1")
				s.Close(c.reason)
				next := h.inbox()
				_, err = h.again("a").Consume(h.ctx, c.key, core.ConsumeOptions{}, next)
				h.must(err)
				if d := next.want("1")[0]; d.Attempts != c.want {
					t.Errorf("%d attempts, want %d", d.Attempts, c.want)
				}
			})
		})
	}
}

// Cancel with Keep leaves what is out to the session, which lets go of it when
// it ends.
func TestKeptDeliveriesGoWithTheSession(t *testing.T) {
	bubble(t, func(h *house) {
		owner := h.fresh("owner", plain)
		_, err := owner.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("work")})
		h.must(err)
		s := h.fresh("s", plain)
		box := h.holding()
		c, err := s.Consume(h.ctx, core.Named("work"), core.ConsumeOptions{}, box)
		h.must(err)
		a, err := core.QueueAddress("work")
		h.must(err)
		for _, payload := range []string{"1", "2"} {
			_, err = h.say(owner, h.note("t", payload, func(m *core.Message) { m.Exchange, m.Topic = "", a.Topic }))
			h.must(err)
		}
		got := box.want("1", "2")
		c.Cancel(core.Keep)
		h.must(c.Settle(nil, core.Ack, got[0].Seq))
		s.Close(core.CloseLost)
		next := h.inbox()
		_, err = owner.Consume(h.ctx, core.Named("work"), core.ConsumeOptions{}, next)
		h.must(err)
		if d := next.want("2")[0]; d.Attempts != 1 {
			t.Errorf("%d attempts, want 1", d.Attempts)
		}
	})
}

// An exclusive queue that went by itself and was made anew by another is not
// deleted with its first owner.
func TestOwnedQueueOfAnotherStays(t *testing.T) {
	bubble(t, func(h *house) {
		a, b := h.fresh("a", plain), h.fresh("b", plain)
		k := core.Named("q")
		_, err := a.DeclareQueue(h.ctx, core.QueueSpec{Key: k, Exclusive: true, AutoDelete: true})
		h.must(err)
		c, err := a.Consume(h.ctx, k, core.ConsumeOptions{}, h.inbox())
		h.must(err)
		_, err = b.DeclareQueue(h.ctx, core.QueueSpec{Key: k})
		h.wantError(err, core.ErrLocked)
		c.Cancel(core.Requeue)
		_, err = b.DeclareQueue(h.ctx, core.QueueSpec{Key: k})
		h.must(err)
		a.Close(core.CloseNormal)
		_, err = b.DeclareQueue(h.ctx, core.QueueSpec{Key: k, Passive: true})
		h.must(err)
	})
}

// A client that makes one auto-delete queue after the other does not make its
// session grow.
func TestOwnedQueuesThatWentAreForgotten(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a", plain)
		keep := core.Named("keep")
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: keep, Exclusive: true})
		h.must(err)
		for i := range 2000 {
			k := core.Named(fmt.Sprint("reply", i))
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: k, Exclusive: true, AutoDelete: true})
			h.must(err)
			c, err := s.Consume(h.ctx, k, core.ConsumeOptions{}, h.inbox())
			h.must(err)
			c.Cancel(core.Requeue)
		}
		if n := core.OwnedQueues(s); n > 100 {
			t.Errorf("the session remembers %d queues, one is there", n)
		}
		s.Close(core.CloseNormal)
		h.wantNothing()
	})
}

func TestBrokerCloseRefusesAndStopsClocks(t *testing.T) {
	bubble(t, func(h *house) {
		box := h.listen("will")
		away := h.fresh("away", will(h, "will", "w", time.Second))
		h.queue(away, "away")
		away.Close(core.CloseLost)
		late := h.fresh("late", will(h, "will", "late", time.Second))
		h.tell(late, "kept", "x", retain, ttl(time.Second))
		h.broker.Close()
		late.Close(core.CloseLost)
		_, _, err := h.broker.Connect(h.ctx, hello("b"))
		h.wantError(err, core.ErrClosed)
		pass(time.Hour)
		box.want()
		if n := h.broker.Stats().Sessions; n != 2 {
			t.Errorf("%d sessions, want the two that waited", n)
		}
	})
}

// 200 clients connect, subscribe, publish and vanish; nothing is left.
func TestClientsVanish(t *testing.T) {
	bubble(t, func(h *house) {
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				id := fmt.Sprint("client", i%150)
				s, _ := h.connect(id, expiry(time.Duration(i%3)*time.Minute), will(h, "will/"+id, "gone", 0))
				_, _ = s.DeclareQueue(h.ctx, core.QueueSpec{Key: sessionQueue(id), Exclusive: true})
				_, _ = s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Key(core.GroupQueue, "g", "t/#")})
				for _, f := range []string{"t/+", "will/#"} {
					_ = s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue(id), Filter: h.filter(f), Replay: core.ReplayAlways})
				}
				_, _ = s.Consume(h.ctx, sessionQueue(id), core.ConsumeOptions{}, h.holding())
				s.Publish(nil, h.note("t/1", "x"), nil)
				s.Publish(nil, h.note("t/"+id, "x", func(m *core.Message) { m.Retain = i%10 == 0 }), nil)
				s.Close([]core.CloseReason{core.CloseNormal, core.CloseLost}[i%2])
			})
		}
		wg.Wait()
		pass(3 * time.Minute)
		h.wantNothing()
	})
}

// A newcomer that meets a session in its end gets a new one, and no two
// connections of one name live side by side.
func TestNewcomerMeetsTheEnd(t *testing.T) {
	bubble(t, func(h *house) {
		for range 300 {
			old := h.fresh("a", expiry(0))
			var next *core.Session
			var wg sync.WaitGroup
			wg.Go(func() { old.Close(core.CloseLost) })
			wg.Go(func() { next = h.fresh("a", expiry(0)) })
			wg.Wait()
			last := h.fresh("a", expiry(0))
			if _, err := next.PurgeQueue(h.ctx, sessionQueue("a")); !errors.Is(err, core.ErrClosed) {
				t.Fatalf("the connection before lives on: %v", err)
			}
			last.Close(core.CloseNormal)
		}
		h.wantNothing()
	})
}

// A queue that its client leaves the name of to the broker.
func TestGeneratedNames(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a", plain)
		one, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(""), Exclusive: true})
		h.must(err)
		other, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("")})
		h.must(err)
		if !strings.HasPrefix(one.Key.Name, "amq.gen-") || one.Key == other.Key {
			t.Errorf("named %v and %v", one.Key, other.Key)
		}
		third, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(""), Prefix: "amq.mine."})
		h.must(err)
		if !strings.HasPrefix(third.Key.Name, "amq.mine.") {
			t.Errorf("named %v", third.Key)
		}
		for _, q := range []core.QueueSpec{{Key: one.Key}, {Key: third.Key}, {Key: core.Named(""), Passive: true}} {
			if _, err := s.DeclareQueue(h.ctx, q); err == nil {
				t.Errorf("%v was declared again", q.Key)
			}
		}
		s.Close(core.CloseNormal)
		if _, err := h.fresh("b").DeclareQueue(h.ctx, core.QueueSpec{Key: one.Key, Passive: true}); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("the exclusive one after its session: %v", err)
		}
	})
}
