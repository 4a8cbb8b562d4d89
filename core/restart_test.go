package core_test

import (
	"maps"
	"testing"
	"time"

	"entrepot/core"
)

// A session with its queue, bindings, messages and notes is there again, with
// the same number; what it was sent and did not settle comes again.
func TestSessionAfterRestart(t *testing.T) {
	eachEnd(t, func(c *bunker, end func(time.Duration)) {
		s := c.fresh("a", expiry(time.Hour))
		id := s.ID()
		c.lasting(s, "a", "plant/+/temp")
		c.must(c.apply(s, noteOp("in 7", "x"), noteOp("in 8", "y")))
		c.must(c.apply(s, noteOp("in 8", "")))
		c.tell(c.fresh("p", plain), "plant/1/temp", "21", durable)
		c.tell(c.fresh("p", plain), "plant/2/temp", "22", durable)
		held := c.holding()
		c.consume(s, "a", held)
		held.want("21", "22")
		end(time.Minute)

		again := c.again("a", expiry(time.Hour))
		if again.ID() != id {
			t.Errorf("session %d, was %d", again.ID(), id)
		}
		c.wantNotes(again, "in 7=x")
		box := c.inbox()
		c.consume(again, "a", box)
		box.want("21", "22")
		c.tell(c.fresh("p", plain), "plant/3/temp", "23", durable)
		box.want("23")
	})
}

// A session's expiry and its will's delay run on while the broker is down.
func TestTimePassesWhileDown(t *testing.T) {
	for _, x := range []struct {
		title         string
		expiry, delay time.Duration
		lost          bool          // before the broker's end; else at the end
		down          time.Duration // how long it is
		will          time.Duration // when it is sent, after the start
		lives         bool          // the session can be resumed after the start
	}{
		{"nothing is due yet", time.Hour, 10 * time.Minute, true, time.Minute, 9 * time.Minute, true},
		{"the will became due", time.Hour, 10 * time.Minute, true, 11 * time.Minute, 0, true},
		{"the session ended [MQTT-3.1.3-9]", 10 * time.Minute, time.Hour, true, 11 * time.Minute, 0, false},
		{"the session for ever", core.Forever, time.Minute, true, 1000 * time.Hour, 0, true},
		{"connected at the end: the time begins with the start", 10 * time.Minute, 5 * time.Minute, false, time.Hour, 5 * time.Minute, true},
		{"the session ends before the will's delay is over", 10 * time.Minute, time.Hour, true, 6 * time.Minute, 4 * time.Minute, false},
	} {
		t.Run(x.title, func(t *testing.T) {
			eachEnd(t, func(c *bunker, end func(time.Duration)) {
				// Somebody's durable queue gets the will, whenever that is sent.
				l := c.fresh("listener", expiry(core.Forever))
				c.lasting(l, "listener", "gone/a")
				s := c.fresh("a", expiry(x.expiry), will(&c.house, "gone/a", "will", x.delay, durable, ttl(time.Hour)))
				if x.lost {
					s.Close(core.CloseLost)
					c.must(c.store.Sync())
				}
				end(x.down)
				box := c.inbox()
				c.consume(c.again("listener", expiry(core.Forever)), "listener", box)
				if x.will > 0 {
					pass(x.will - time.Second)
					box.want()
					pass(time.Second)
				}
				d := box.want("will")[0]
				if d.Origin == nil || d.Origin.ClientID != "a" {
					t.Errorf("origin %+v", d.Origin)
				}
				if left, ok := d.Remaining(time.Now()); !ok || left < time.Hour-time.Second {
					t.Errorf("%v left of the will's hour", left)
				}
				if _, resumed := c.connect("a", expiry(x.expiry)); resumed != x.lives {
					t.Errorf("resumed: %v", resumed)
				}
				box.want()
			})
		})
	}
}

// A will is sent once over any number of restarts, and after a good-bye never.
// It shows fault 89.
func TestWillOnceOverRestarts(t *testing.T) {
	inBunker(t, func(c *bunker) {
		l := c.fresh("listener", expiry(core.Forever))
		c.lasting(l, "listener", "gone/+")
		c.fresh("lost", expiry(core.Forever), will(&c.house, "gone/lost", "1", time.Minute, durable)).Close(core.CloseLost)
		c.fresh("left", expiry(core.Forever), will(&c.house, "gone/left", "2", time.Minute, durable)).Close(core.CloseNormal)
		c.restart(time.Second)
		c.restart(time.Hour)
		c.restart(time.Hour)
		box := c.inbox()
		c.consume(c.again("listener", expiry(core.Forever)), "listener", box)
		box.want("1")
		pass(time.Hour)
		box.want()
	})
}

// A session that ended is gone for good, with its queue and notes; one that
// does not outlive its connection does not outlive the broker either.
func TestEndedSessionsStayGone(t *testing.T) {
	for _, x := range []struct {
		title string
		end   func(*bunker, *core.Session)
	}{
		{"expired", func(_ *bunker, s *core.Session) {
			s.Close(core.CloseLost)
			pass(time.Hour)
		}},
		{"begun anew [MQTT-3.1.2-4]", func(c *bunker, s *core.Session) { c.fresh("a", clean, expiry(0)).Close(core.CloseNormal) }},
		{"ended by its client", func(_ *bunker, s *core.Session) {
			s.SetExpiry(0)
			s.Close(core.CloseNormal)
		}},
	} {
		t.Run(x.title, func(t *testing.T) {
			eachEnd(t, func(c *bunker, end func(time.Duration)) {
				s := c.fresh("a", expiry(time.Minute))
				id := s.ID()
				c.lasting(s, "a", "t")
				c.must(c.apply(s, noteOp("k", "v")))
				x.end(c, s)
				c.must(c.store.Sync())
				end(0)
				if n := c.broker.Stats(); n.Sessions != 0 || n.Engine.Queues != 0 || n.Engine.Bindings != 0 {
					t.Errorf("left behind: %+v", n)
				}
				s = c.fresh("a", expiry(time.Minute))
				c.wantNotes(s)
				if s.ID() < id {
					t.Errorf("number %d is older than %d", s.ID(), id)
				}
			})
		})
	}
}

// Notes of a session that was never on disk are not a later one's, which may
// have its number.
func TestOrphanedNotes(t *testing.T) {
	inBunker(t, func(c *bunker) {
		s := c.fresh("short", expiry(0))
		c.must(c.apply(s, noteOp("k", "stale")))
		c.crash(0, 0)
		again := c.fresh("other", expiry(time.Hour))
		if again.ID() != s.ID() {
			t.Fatalf("number %d, want that of the one before, %d", again.ID(), s.ID())
		}
		c.wantNotes(again)
	})
}

// The last value of each topic is there again: not what was cleared, nor what
// expired, also while the broker was down.
// It shows fault 91.
func TestRetainedAfterRestart(t *testing.T) {
	eachEnd(t, func(c *bunker, end func(time.Duration)) {
		p := c.fresh("p", plain)
		for _, m := range []struct {
			topic, payload string
			edits          []func(*core.Message)
		}{
			{"a/1", "old", nil}, {"a/1", "new", nil},
			{"a/2", "cleared", nil}, {"a/2", "", nil},
			{"a/3", "again", nil}, {"a/3", "", nil}, {"a/3", "back", nil},
			{"a/4", "short", []func(*core.Message){ttl(time.Second)}},
			{"a/5", "expires while down", []func(*core.Message){ttl(time.Minute)}},
			{"a/6", "long", []func(*core.Message){ttl(time.Hour)}},
			{"b", "other", nil},
		} {
			c.tell(p, m.topic, m.payload, append(m.edits, retain, durable)...)
		}
		pass(2 * time.Second)
		end(10 * time.Minute)

		box := c.inbox()
		c.subscribe(c.fresh("late", plain), "late", "a/+", box, func(b *core.BindSpec) { b.Replay = core.ReplayAlways })
		got := map[string]string{}
		for _, d := range box.take() {
			if !d.Replayed {
				t.Errorf("%s is not marked as replayed", d.Topic)
			}
			got[d.Topic.String()] = string(d.Payload)
			if left, dated := d.Remaining(time.Now()); dated && left > 50*time.Minute {
				t.Errorf("%s: %v left of an hour, ten minutes later", d.Topic, left)
			}
		}
		if want := map[string]string{"a/1": "new", "a/3": "back", "a/6": "long"}; !maps.Equal(got, want) {
			t.Errorf("replayed %v, want %v", got, want)
		}
		q := c.fresh("q", plain)
		if v := c.retainedAt(q, "b"); v != "other" {
			t.Errorf("b is %q", v)
		}
		pass(time.Hour)
		if v := c.retainedAt(q, "a/6"); v != "" {
			t.Errorf("a/6 is still %q", v)
		}
		end(0)
		if n := c.broker.Stats().Retained; n != 3 {
			t.Errorf("%d retained, want 3", n)
		}
	})
}

// The broker's own figures are nobody's to keep.
func TestOwnFiguresAreNotKept(t *testing.T) {
	inBunker(t, func(c *bunker) {
		c.broker.PublishOwn(c.note("$SYS/broker/uptime", "1 second", retain))
		if n := c.broker.Stats().Retained; n != 1 {
			t.Fatalf("%d retained", n)
		}
		c.restart(0)
		if n := c.broker.Stats().Retained; n != 0 {
			t.Errorf("%d retained after the restart", n)
		}
	})
}

// A shared subscription's queue lives as long as one of the sessions that hold
// it, over restarts.
func TestGroupAfterRestart(t *testing.T) {
	eachEnd(t, func(c *bunker, end func(time.Duration)) {
		k := core.Key(core.GroupQueue, "g", "t")
		for _, id := range []string{"a", "b"} {
			s := c.fresh(id, expiry(time.Hour))
			_, err := s.DeclareQueue(c.ctx, core.QueueSpec{Key: k, Durable: true})
			c.must(err)
			c.must(s.Bind(c.ctx, core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: c.filter("t")}))
		}
		c.tell(c.fresh("p", plain), "t", "1", durable)
		end(time.Minute)
		_, err := c.again("a", expiry(time.Hour)).DeleteQueue(c.ctx, k, core.DeleteOptions{})
		c.must(err)
		end(time.Minute)
		box := c.inbox()
		b := c.again("b", expiry(time.Hour))
		_, err = b.Consume(c.ctx, k, core.ConsumeOptions{}, box)
		c.must(err)
		box.want("1")
		_, err = b.DeleteQueue(c.ctx, k, core.DeleteOptions{})
		c.must(err)
		end(time.Minute)
		if n := c.broker.Stats().Engine.Queues; n != 0 {
			t.Errorf("%d queues", n)
		}
	})
}

// A durable subscription of STOMP is a session of its own with a queue that
// goes on gathering while its client is away and while the broker is down.
func TestDurableSubscriptionAfterRestart(t *testing.T) {
	eachEnd(t, func(c *bunker, end func(time.Duration)) {
		sub := func(h *core.Hello) { h.Protocol, h.Expiry = "stomp", core.Forever }
		k := core.Key(core.TopicQueue, "client", "prices")
		s := c.fresh("client/prices", sub)
		_, err := s.DeclareQueue(c.ctx, core.QueueSpec{Key: k, Exclusive: true, Durable: true})
		c.must(err)
		c.must(s.Bind(c.ctx, core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: c.filter("price/#")}))
		c.must(c.apply(s, noteOp("durable", "price/#")))
		s.Close(core.CloseNormal)
		c.tell(c.fresh("p", plain), "price/gold", "1", durable)
		end(time.Hour)
		c.tell(c.fresh("p", plain), "price/salt", "2", durable)
		c.tell(c.fresh("p", plain), "price/salt", "3") // in memory: not after the next
		end(time.Hour)
		s = c.again("client/prices", sub)
		c.wantNotes(s, "durable=price/#")
		box := c.inbox()
		_, err = s.Consume(c.ctx, k, core.ConsumeOptions{}, box)
		c.must(err)
		box.want("1", "2")
	})
}
