package core_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
	"entrepot/routing"
)

// limitedHouse is a house whose clients have limits.
func limitedHouse(t *testing.T, set func(*core.ClientConfig), f func(*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := core.DefaultConfig()
		set(&cfg.Clients)
		f(houseOn(t, local.New(quiet()), cfg, nil))
	})
}

func (h *house) limited(l core.Limit) uint64 { return h.broker.Limited()[l.String()] }

func of(user string, own auth.Limits) func(*core.Hello) {
	return func(c *core.Hello) { c.Principal = auth.Principal{User: user, Limits: own} }
}

func TestConnectionsOfAUser(t *testing.T) {
	set := func(c *core.ClientConfig) { c.UserConnections = 2 }
	limitedHouse(t, set, func(h *house) {
		ann, none := of("ann", auth.Limits{}), auth.Limits{}
		connect := func(id string, edits ...func(*core.Hello)) (*core.Session, error) {
			s, _, err := h.broker.Connect(h.ctx, hello(id, edits...))
			return s, err
		}
		_, err := connect("1", ann)
		h.must(err)
		_, err = connect("2", ann)
		h.must(err)
		_, err = connect("3", ann)
		h.wantError(err, core.ErrLimit)
		h.wantError(err, core.ErrFull)
		// Another user's, an anonymous one's, and those of a user with more.
		for i, edit := range []func(*core.Hello){of("bob", none), of("", none), of("", none), of("", none),
			of("cy", auth.Limits{Connections: 3}), of("cy", auth.Limits{Connections: 3}), of("cy", auth.Limits{Connections: 3})} {
			_, err = connect(fmt.Sprint("x", i), edit)
			h.must(err)
		}
		// Who takes over its own takes its place.
		one, err := connect("1", ann)
		h.must(err)
		_, err = connect("3", ann)
		h.wantError(err, core.ErrLimit)
		one.Close(core.CloseNormal)
		_, err = connect("3", ann)
		h.must(err)
		if n := h.limited(core.LimitUserConnections); n != 2 {
			t.Errorf("counted %d", n)
		}
	})
}

// spend publishes n messages of some bytes and returns what Pace says.
func (h *house) spend(s *core.Session, n, bytes int) (time.Duration, bool) {
	for range n {
		s.Publish(nil, h.note("t", string(make([]byte, bytes))), nil)
	}
	return s.Pace(nil)
}

// TestMessagesAndBytesASecond shows fault 85.
func TestMessagesAndBytesASecond(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages int
		bytes    int
		publish  int
		size     int
		want     time.Duration
		limit    core.Limit
	}{
		{"under both", 10, 1000, 20, 10, 0, 0},
		{"messages", 10, 0, 30, 1, time.Second, core.LimitMessages},
		{"bytes", 0, 1000, 2, 2000, 2 * time.Second, core.LimitBytes},
		{"the longer of both", 10, 1000, 30, 100, time.Second, core.LimitMessages},
		{"bytes the longer", 10, 1000, 30, 200, 4 * time.Second, core.LimitBytes},
		{"neither", 0, 0, 1000, 1000, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := func(l *core.ClientConfig) { l.Messages, l.Bytes = c.messages, c.bytes }
			limitedHouse(t, set, func(h *house) {
				s, _ := h.connect("a")
				wait, slow := h.spend(s, c.publish, c.size)
				if wait.Round(time.Millisecond) != c.want || slow != (c.messages+c.bytes > 0) {
					t.Errorf("wait %v, %v", wait, slow)
				}
				if c.want > 0 && h.limited(c.limit) != 1 {
					t.Errorf("counted %v", h.broker.Limited())
				}
				time.Sleep(wait)
				if wait, _ := s.Pace(nil); wait != 0 {
					t.Errorf("after that, %v", wait)
				}
			})
		})
	}
}

// What is kept and is no message counts as those that Spend says.
func TestSpendIsMetered(t *testing.T) {
	set := func(l *core.ClientConfig) { l.Messages = 10 }
	limitedHouse(t, set, func(h *house) {
		s, _ := h.connect("a")
		s.Spend(30, 1)
		if wait, _ := h.spend(s, 10, 1); wait.Round(time.Millisecond) != 2*time.Second {
			t.Errorf("wait %v", wait)
		}
	})
}

// In the long run nobody publishes more than the limit, and nearly that much.
func TestRateOverTime(t *testing.T) {
	set := func(l *core.ClientConfig) { l.Messages = 100 }
	limitedHouse(t, set, func(h *house) {
		s, _ := h.connect("a")
		began, n := time.Now(), 0
		for time.Since(began) < 100*time.Second {
			wait, _ := h.spend(s, 7, 1)
			n += 7
			time.Sleep(wait)
		}
		if n < 10_100 || n > 10_300 { // two seconds' worth came at once
			t.Errorf("%d in 100 s, the limit is 100 a second", n)
		}
	})
}

// A user's limit is one for all of its connections.
func TestRateOfAUser(t *testing.T) {
	bubble(t, func(h *house) {
		own := auth.Limits{Messages: 10}
		one, _ := h.connect("1", of("ann", own))
		two, _ := h.connect("2", of("ann", own))
		bob, _ := h.connect("3", of("bob", auth.Limits{}))
		if wait, _ := h.spend(one, 15, 1); wait != 0 {
			t.Error(wait)
		}
		if wait, _ := h.spend(two, 15, 1); wait.Round(time.Millisecond) != time.Second {
			t.Error(wait)
		}
		if wait, slow := h.spend(bob, 1000, 1); wait != 0 || slow {
			t.Error(wait, slow)
		}
	})
}

// Who subscribes to all retained messages over and over is slowed down.
// It shows fault 34.
func TestRetainedSubscribeLoop(t *testing.T) {
	set := func(l *core.ClientConfig) { l.Replayed = 100 }
	limitedHouse(t, set, func(h *house) {
		p, _ := h.connect("p")
		for i := range 500 {
			h.tell(p, fmt.Sprintf("t/%d", i), "x", retain)
		}
		s, _ := h.connect("a")
		h.queue(s, "a")
		var waits []time.Duration
		for range 4 {
			h.bind(s, "a", "#", replay(core.ReplayAlways))
			wait, _ := s.Pace(nil)
			waits = append(waits, wait.Round(time.Second))
			h.must(s.Unbind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: h.filter("#")}))
		}
		if want := []time.Duration{0, 0, 5 * time.Second, 10 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("waits %v, want %v", waits, want)
		}
		if h.limited(core.LimitReplayed) != 2 {
			t.Errorf("%v", h.broker.Limited())
		}
	})
}

// TestQueuesAndBindingsOfAConnection shows fault 26.
func TestQueuesAndBindingsOfAConnection(t *testing.T) {
	set := func(l *core.ClientConfig) { l.Queues, l.Bindings = 3, 2 }
	limitedHouse(t, set, func(h *house) {
		s, _ := h.connect("a")
		declare := func(name string) error {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(name)})
			return err
		}
		for _, name := range []string{"a", "b", "c", "a"} {
			h.must(declare(name))
		}
		h.wantError(declare("d"), core.ErrLimit)
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("a"), Passive: true})
		h.must(err)
		_, err = s.DeleteQueue(h.ctx, core.Named("b"), core.DeleteOptions{})
		h.must(err)
		h.must(declare("d"))
		h.wantError(declare("e"), core.ErrLimit)
		// One that another deleted does not count.
		other, _ := h.connect("b")
		_, err = other.DeleteQueue(h.ctx, core.Named("c"), core.DeleteOptions{})
		h.must(err)
		h.must(declare("e"))

		bind := func(text string) core.BindSpec {
			return core.BindSpec{Source: core.TopicExchange, Queue: core.Named("a"), Filter: h.filter(text)}
		}
		h.must(s.Bind(h.ctx, bind("1")))
		h.must(s.Bind(h.ctx, bind("2")))
		h.wantError(s.Bind(h.ctx, bind("3")), core.ErrLimit)
		h.must(s.Unbind(h.ctx, bind("1")))
		h.must(s.Bind(h.ctx, bind("3")))
		if h.limited(core.LimitQueues) != 2 || h.limited(core.LimitBindings) != 1 {
			t.Errorf("%v", h.broker.Limited())
		}
	})
}

// Two clients with one id that take the session over from each other wait, longer
// each time; one that comes back now and then does not.
// It shows fault 72.
func TestTakeOversInTurns(t *testing.T) {
	set := func(l *core.ClientConfig) { l.TakeOvers = 3 }
	limitedHouse(t, set, func(h *house) {
		var waits []time.Duration
		for range 14 {
			wait := h.broker.Damp(hello("twin"))
			waits = append(waits, wait)
			h.connect("twin")
		}
		ms := time.Millisecond
		want := []time.Duration{0, 0, 0, 0, 250 * ms, 500 * ms, time.Second, 2 * time.Second, 4 * time.Second,
			8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second}
		if !slices.Equal(waits, want) {
			t.Errorf("waits %v", waits)
		}
		if n := h.limited(core.LimitTakeOvers); n != 10 {
			t.Errorf("counted %d", n)
		}
		time.Sleep(time.Minute)
		for range 20 { // another user, who is refused, does not count
			other := hello("twin")
			other.Principal.User = "other"
			if wait := h.broker.Damp(other); wait != 0 {
				t.Errorf("another user waits %v", wait)
			}
		}
		if wait := h.broker.Damp(hello("twin")); wait != 0 {
			t.Errorf("a minute later %v", wait)
		}
		for range 20 { // a device that loses its network
			if wait := h.broker.Damp(hello("far")); wait != 0 {
				t.Errorf("waits %v", wait)
			}
			h.connect("far")
			time.Sleep(4 * time.Second)
		}
		for i := range 20_000 { // names are bounded
			id := fmt.Sprint(i)
			h.connect(id, expiry(time.Second))
			h.broker.Damp(hello(id))
		}
		if n := core.Damped(h.broker); n > 10_000 {
			t.Errorf("%d names are remembered", n)
		}
	})
}

func TestClientConfig(t *testing.T) {
	if err := core.DefaultConfig().Clients.Validate(); err != nil {
		t.Error(err)
	}
	for _, set := range []func(*core.ClientConfig){
		func(c *core.ClientConfig) { c.UserConnections = -1 },
		func(c *core.ClientConfig) { c.Messages = -1 },
		func(c *core.ClientConfig) { c.Bytes = -1 },
		func(c *core.ClientConfig) { c.Replayed = -1 },
		func(c *core.ClientConfig) { c.Queues = -1 },
		func(c *core.ClientConfig) { c.Bindings = -1 },
		func(c *core.ClientConfig) { c.TakeOvers = -1 },
		func(c *core.ClientConfig) { c.Burst = 0 },
	} {
		c := core.DefaultConfig()
		if set(&c.Clients); !errors.Is(c.Validate(), core.ErrInvalid) {
			t.Errorf("%+v is taken", c.Clients)
		}
	}
}

// TestAdmit: adapters whose clients can be told to come again. It shows fault 85.
func TestAdmit(t *testing.T) {
	type step struct {
		after    time.Duration
		messages int
		bytes    int
		want     time.Duration
	}
	for _, c := range []struct {
		name     string
		messages int
		bytes    int
		steps    []step
		limit    core.Limit
		limited  uint64
	}{
		{"no limits", 0, 0, []step{{0, 1000, 1 << 20, 0}, {0, 1000, 1 << 20, 0}}, 0, 0},
		{"messages", 10, 0, []step{{0, 20, 1 << 20, 0}, {0, 1, 0, 100 * time.Millisecond}, {100 * time.Millisecond, 1, 0, 0}}, core.LimitMessages, 1},
		{"bytes", 0, 100, []step{{0, 1, 150, 0}, {0, 1, 50, 0}, {0, 1, 50, 500 * time.Millisecond}, {time.Second, 1, 100, 0}}, core.LimitBytes, 1},
		{"refused ones cost nothing", 1, 0, []step{{0, 2, 0, 0}, {0, 1, 0, time.Second}, {0, 1, 0, time.Second}, {time.Second, 1, 0, 0}}, core.LimitMessages, 2},
		{"more than there ever is is owed", 0, 100, []step{{0, 1, 1200, 0}, {time.Second, 1, 100, 10 * time.Second}, {10 * time.Second, 1, 100, 0}}, core.LimitBytes, 1},
		{"the longer wait of both", 1, 100, []step{{0, 2, 100, 0}, {0, 1, 200, time.Second}, {0, 2, 300, 2 * time.Second}}, core.LimitMessages, 2},
		{"bytes of a body, its message counted before", 1, 0, []step{{0, 2, 10, 0}, {0, 0, 10, 0}}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := func(l *core.ClientConfig) { l.Messages, l.Bytes = c.messages, c.bytes }
			for _, way := range []string{"session", "meter"} {
				limitedHouse(t, set, func(h *house) {
					s, _ := h.connect("a")
					admit := s.Admit
					if way == "meter" {
						if admit, _ = h.broker.Meter(); admit == nil {
							return
						}
					}
					for i, step := range c.steps {
						time.Sleep(step.after)
						if wait := admit(step.messages, step.bytes).Round(time.Millisecond); wait != step.want {
							t.Errorf("%s, step %d: wait %v", way, i, wait)
						}
					}
					if n := h.limited(c.limit); n != c.limited {
						t.Errorf("%s: counted %v", way, h.broker.Limited())
					}
				})
			}
		})
	}
}

// A user's own limits hold for all of its connections together.
func TestAdmitOfAUser(t *testing.T) {
	limitedHouse(t, func(*core.ClientConfig) {}, func(h *house) {
		ann := of("ann", auth.Limits{Messages: 1})
		a, _ := h.connect("a", ann)
		b, _ := h.connect("b", ann)
		for i, s := range []*core.Session{a, b, a} {
			if wait := s.Admit(1, 1); (wait == 0) != (i < 2) {
				t.Errorf("%d: wait %v", i, wait)
			}
		}
		if admit, idle := h.broker.Meter(); admit != nil || idle != nil {
			t.Error("clients have a meter without a limit")
		}
	})
}

// A meter is idle when it is as new.
func TestIdleMeter(t *testing.T) {
	limitedHouse(t, func(l *core.ClientConfig) { l.Messages, l.Bytes = 10, 100 }, func(h *house) {
		admit, idle := h.broker.Meter()
		for _, c := range []struct {
			messages, bytes int
			full            time.Duration
		}{{0, 0, 0}, {1, 0, 100 * time.Millisecond}, {0, 50, 500 * time.Millisecond}, {20, 200, 2 * time.Second}} {
			admit(c.messages, c.bytes)
			if c.full > 0 {
				time.Sleep(c.full - 10*time.Millisecond)
				if idle() {
					t.Errorf("%+v: idle too early", c)
				}
				time.Sleep(20 * time.Millisecond)
			}
			if !idle() {
				t.Errorf("%+v: not idle", c)
			}
		}
	})
}

// Queues of the realm and of a user are counted until they go, however they do:
// deleted, by their consumer's or session's end, by expiry. It shows fault 26.
func TestQueuesInAllAndOfAUser(t *testing.T) {
	set := func(c *core.ClientConfig) { c.QueuesInAll, c.UserQueues = 4, 2 }
	limitedHouse(t, set, func(h *house) {
		ann, _ := h.connect("ann", of("ann", auth.Limits{}))
		bob, _ := h.connect("bob", of("bob", auth.Limits{}))
		none, _ := h.connect("none")
		declare := func(s *core.Session, name string, edit func(*core.QueueSpec)) error {
			q := core.QueueSpec{Key: core.Named(name)}
			if edit != nil {
				edit(&q)
			}
			_, err := s.DeclareQueue(h.ctx, q)
			return err
		}
		h.must(declare(ann, "a1", nil))
		h.must(declare(ann, "a2", func(q *core.QueueSpec) { q.Args.Expires = time.Second }))
		h.must(declare(ann, "a1", nil))
		h.wantError(declare(ann, "a3", nil), core.ErrLimit)
		other, _ := h.connect("ann2", of("ann", auth.Limits{}))
		h.wantError(declare(other, "a3", nil), core.ErrLimit)
		h.must(declare(other, "a1", nil)) // it is there
		h.must(declare(bob, "b1", func(q *core.QueueSpec) { q.AutoDelete = true }))
		h.must(declare(none, "n1", func(q *core.QueueSpec) { q.Exclusive = true }))
		h.wantError(declare(none, "n2", nil), core.ErrLimit)
		h.queue(none, "none") // no named one
		time.Sleep(3 * time.Second)
		h.must(declare(ann, "a3", nil)) // one of hers expired
		h.wantError(declare(none, "n2", nil), core.ErrLimit)
		c, err := bob.Consume(h.ctx, core.Named("b1"), core.ConsumeOptions{}, receiver(func(core.Delivery) core.Verdict { return core.Settled }))
		h.must(err)
		c.Cancel(core.Requeue)
		h.must(declare(bob, "b2", nil))
		none.SetExpiry(0)
		none.Close(core.CloseNormal)
		h.must(declare(bob, "b3", nil))
		_, err = bob.DeleteQueue(h.ctx, core.Named("a1"), core.DeleteOptions{})
		h.must(err)
		h.must(declare(ann, "a4", nil))
		if u, all := h.limited(core.LimitUserQueues), h.limited(core.LimitQueuesInAll); u != 2 || all != 2 {
			t.Errorf("counted %d of users, %d in all", u, all)
		}
	})
}

// Exchanges are counted beside those that every realm has.
func TestExchangesInAll(t *testing.T) {
	limitedHouse(t, func(c *core.ClientConfig) { c.ExchangesInAll = 1 }, func(h *house) {
		s, _ := h.connect("a")
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.Direct}))
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.Direct}))
		h.wantError(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "y", Kind: routing.Direct}), core.ErrLimit)
		h.must(s.DeleteExchange(h.ctx, "x", false))
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "y", Kind: routing.Direct}))
		if n := h.limited(core.LimitExchangesInAll); n != 1 {
			t.Errorf("counted %d", n)
		}
	})
}
