package core_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
	"entrepot/routing"
)

func headerList(pairs ...string) routing.Headers {
	var hs routing.Headers
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, routing.Header{Name: pairs[i], Value: pairs[i+1]})
	}
	return hs
}

// What the broker writes, clients cannot: such headers are taken off, the
// others stay in their order, repeated ones too.
// It shows fault 100.
func TestBrokerHeadersAreTakenOff(t *testing.T) {
	for _, c := range []struct {
		title    string
		in, want []string
	}{
		{"none", nil, nil},
		{"others stay", []string{"a", "1", "x-note", "2", "a", "3"}, []string{"a", "1", "x-note", "2", "a", "3"}},
		{"all names of the broker", []string{"x-death", "1", "x-origin", "2", "x-user", "3", "x-topic", "4", "x-error", "5",
			"x-first-death-queue", "6", "x-first-death-reason", "7",
			"x-last-death-queue", "8"}, nil},
		{"in any case", []string{"X-Death", "1", "x-USER", "2", "X-First-Death-Exchange", "3"}, nil},
		{"in between", []string{"a", "1", "x-user", "2", "b", "3", "x-death", "4", "c", "5"}, []string{"a", "1", "b", "3", "c", "5"}},
		{"near misses stay", []string{"x-users", "1", "x-deaths", "2", "xx-user", "3", "user", "4", "x-first-death", "5"},
			[]string{"x-users", "1", "x-deaths", "2", "xx-user", "3", "user", "4", "x-first-death", "5"}},
	} {
		t.Run(c.title, func(t *testing.T) {
			bubble(t, func(h *house) {
				box := h.listen("t")
				in := headerList(c.in...)
				before := slices.Clone(in)
				h.tell(h.fresh("a"), "t", "x", func(m *core.Message) { m.Props = &core.Properties{Headers: in} })
				got := box.want("x")[0].Props.Headers
				if !slices.Equal(got, headerList(c.want...)) {
					t.Errorf("headers %v, want %v", got, c.want)
				}
				if !slices.Equal(in, before) {
					t.Error("the publisher's own list was changed")
				}
			})
		})
	}
}

// The origin is stamped, whatever the publisher wrote there.
func TestOriginIsStamped(t *testing.T) {
	bubble(t, func(h *house) {
		box := h.listen("t")
		s := h.fresh("a", func(c *core.Hello) { c.Principal = auth.Principal{User: "hans"} })
		h.tell(s, "t", "x", func(m *core.Message) { m.Origin = &core.Origin{User: "root"} })
		d := box.want("x")[0]
		if want := (core.Origin{Protocol: "mqtt", ClientID: "a", User: "hans", Session: s.ID()}); *d.Origin != want || d.Origin != s.Origin() {
			t.Errorf("origin %+v, want %+v", *d.Origin, want)
		}
	})
}

// What is refused, and under what it counts when nobody asked to be told.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		title  string
		edit   func(*core.Message)
		kind   error
		reason core.DropReason
	}{
		{"too large", func(m *core.Message) { m.Payload = make([]byte, 101) }, core.ErrTooLarge, core.DropTooLarge},
		{"no topic", func(m *core.Message) { m.Topic = routing.Topic{} }, core.ErrInvalid, core.DropNotAllowed},
		{"no such exchange", func(m *core.Message) { m.Exchange = "nowhere" }, core.ErrNotFound, core.DropUnroutable},
		{"a negative TTL", ttl(-1), core.ErrInvalid, core.DropNotAllowed},
		{"a queue that refuses", func(m *core.Message) { m.Exchange = "amq.fanout" }, core.ErrFull, core.DropOverflow},
	} {
		t.Run(c.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := core.DefaultConfig()
				cfg.MaxMessage = 100
				h := houseOn(t, local.New(quiet()), cfg, nil)
				s := h.fresh("a")
				full := core.QueueSpec{Key: core.Named("full"), Args: core.QueueArgs{HasMaxLength: true, Overflow: core.RejectPublish}}
				_, err := s.DeclareQueue(h.ctx, full)
				h.must(err)
				h.must(s.Bind(h.ctx, core.BindSpec{Source: "amq.fanout", Queue: full.Key}))
				_, err = h.say(s, h.note("t", "x", c.edit))
				h.wantError(err, c.kind)
				var applied error
				s.Apply(nil, []core.Op{{Message: h.note("t", "x", c.edit)}}, func(_ bool, e error) { applied = e })
				h.wantError(applied, c.kind)
				if n := h.dropped("mqtt", c.reason); n != 0 {
					t.Errorf("%d counted, though the publisher was told", n)
				}
				s.Publish(nil, h.note("t", "x", c.edit), nil)
				s.Apply(nil, []core.Op{{Message: h.note("t", "x", c.edit)}}, nil)
				if n := h.dropped("mqtt", c.reason); n != 2 {
					t.Errorf("%d counted as %v, want 2", n, c.reason)
				}
			})
		})
	}
}

// A message that no queue takes: the publisher is told, else it is counted; a
// retained one came to something.
func TestUnroutable(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		if routed, err := h.say(s, h.note("t", "x")); routed || err != nil {
			t.Errorf("routed %v, %v", routed, err)
		}
		s.Publish(nil, h.note("t", "x", retain), nil)
		if n := h.dropped("mqtt", core.DropUnroutable); n != 0 {
			t.Errorf("%d counted, want none", n)
		}
		s.Publish(nil, h.note("t", "x"), nil)
		if n := h.dropped("mqtt", core.DropUnroutable); n != 1 {
			t.Errorf("%d counted, want 1", n)
		}
	})
}

// slow is an engine that confirms later, in an order of the test's choice.
type slow struct {
	core.Engine
	mu      sync.Mutex
	pending []func()
}

func (e *slow) Publish(b *core.Batch, m *core.Message, done core.Done) {
	e.Engine.Publish(b, m, func(routed bool, err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pending = append(e.pending, func() {
			if done != nil {
				done(routed, err)
			}
		})
	})
}

func (e *slow) confirm(i int) {
	e.mu.Lock()
	f := e.pending[i]
	e.mu.Unlock()
	f()
}

// Confirms of one lane come in order though the engine confirms in another,
// also across refusals and retained messages; two lanes do not wait for each
// other.
// It shows fault 106.
func TestConfirmOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &slow{Engine: local.New(quiet())}
		h := houseOn(t, e, core.DefaultConfig(), nil)
		s := h.fresh("a")
		one, other := core.NewLane(&core.Batch{}), core.NewLane(&core.Batch{})
		var told []string
		say := func(l *core.Lane, name string, edits ...func(*core.Message)) {
			s.Publish(l, h.note("t", name, edits...), func(_ bool, err error) {
				if err != nil {
					name += " refused"
				}
				told = append(told, name)
			})
		}
		want := func(names ...string) {
			t.Helper()
			if !slices.Equal(told, names) {
				t.Fatalf("told %q, want %q", told, names)
			}
			told = nil
		}
		say(one, "1")
		say(one, "2", func(m *core.Message) { m.Topic = routing.Topic{} })
		say(one, "3", retain)
		say(other, "a")
		say(one, "4")
		want()
		e.confirm(2)
		want("a")
		e.confirm(3)
		e.confirm(1)
		want()
		e.confirm(0)
		want("1", "2 refused", "3", "4")
		say(one, "5")
		e.confirm(4)
		want("5")
	})
}

// Without a lane what a publish causes is flushed before it returns.
func TestPublishWithoutLaneFlushes(t *testing.T) {
	bubble(t, func(h *house) {
		flushed := 0
		s := h.fresh("a")
		h.subscribe(s, "a", "t", receiver(func(d core.Delivery) core.Verdict {
			d.Batch.Add(flushCount{&flushed})
			return core.Settled
		}))
		s.Publish(nil, h.note("t", "x"), nil)
		s.Apply(nil, []core.Op{{Message: h.note("t", "x")}}, nil)
		if flushed != 2 {
			t.Errorf("%d flushes, want 2", flushed)
		}
		b := &core.Batch{}
		s.Publish(core.NewLane(b), h.note("t", "x"), nil)
		if flushed != 2 {
			t.Error("the lane's batch was flushed by the publish")
		}
		b.Flush()
		if flushed != 3 {
			t.Error("the lane's batch did not have it")
		}
	})
}

type flushCount struct{ n *int }

func (f flushCount) Flush() { *f.n++ }

// A settlement is only for the session whose consumer holds the delivery.
func TestApplyOfAnothersConsumer(t *testing.T) {
	bubble(t, func(h *house) {
		a, b := h.fresh("a"), h.fresh("b")
		box := h.holding()
		c := h.subscribe(a, "a", "t", box)
		h.tell(b, "t", "1")
		d := box.want("1")[0]
		op := core.Op{Consumer: c, Seq: d.Seq, Outcome: core.Ack}
		var err error
		for _, ops := range [][]core.Op{{op}, {{Seq: d.Seq}}} {
			b.Apply(nil, ops, func(_ bool, e error) { err = e })
			h.wantError(err, core.ErrInvalid)
		}
		a.Apply(nil, []core.Op{op, {Message: h.note("u", "2")}}, func(_ bool, e error) { err = e })
		h.must(err)
		h.wantError(c.Settle(nil, core.Ack, d.Seq), core.ErrNotFound)
	})
}

func TestTrafficIsCounted(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		h.tell(s, "t", "12345")
		s.Apply(nil, []core.Op{{Message: h.note("t", "12")}}, nil)
		s.Traffic.CountOut(7)
		check := func(connections int) {
			t.Helper()
			p := h.broker.Stats().Protocols["mqtt"]
			if p.In != 2 || p.InBytes != 7 || p.Out != 1 || p.OutBytes != 7 || p.Connections != connections || p.Connected != 1 {
				t.Errorf("counted %+v", p)
			}
		}
		check(1)
		s.Close(core.CloseNormal)
		s.Close(core.CloseNormal)
		check(0)
	})
}

// A message's time is its publisher's wish from the moment of publishing.
func TestMessageTime(t *testing.T) {
	bubble(t, func(h *house) {
		box := h.listen("t")
		h.tell(h.fresh("a"), "t", "x", ttl(time.Minute))
		d := box.want("x")[0]
		pass(20 * time.Second)
		if left, ok := d.Remaining(time.Now()); !ok || left != 40*time.Second || d.Expired(time.Now()) {
			t.Errorf("%v left, expired %v", left, d.Expired(time.Now()))
		}
		pass(time.Minute)
		if left, ok := d.Remaining(time.Now()); !ok || left != 0 || !d.Expired(time.Now()) {
			t.Errorf("%v left, expired %v", left, d.Expired(time.Now()))
		}
		if _, ok := h.note("t", "x").Remaining(time.Now()); ok || h.note("t", "x").Expired(time.Now()) {
			t.Error("a message without TTL expires")
		}
	})
}

func TestConfig(t *testing.T) {
	if err := core.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, edit := range []func(*core.Config){
		func(c *core.Config) { c.MaxMessage = 0 },
		func(c *core.Config) { c.MaxMessage = 1 << 30 },
		func(c *core.Config) { c.MaxRetained = -1 },
		func(c *core.Config) { c.MaxRetainedBytes = -1 },
	} {
		c := core.DefaultConfig()
		edit(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "invalid") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Realms are found by name; an unknown name, as STOMP's host may be, gets the
// first.
func TestRealms(t *testing.T) {
	e := local.New(quiet())
	a := core.NewBroker(core.DefaultConfig(), "a", e, nil, quiet())
	b := core.NewBroker(core.DefaultConfig(), "b", e, nil, quiet())
	r := core.NewRealms(a, b)
	for name, want := range map[string]*core.Broker{"a": a, "b": b, "localhost": a, "": a} {
		if got, exact := r.Broker(name); got != want || exact != (name == "a" || name == "b") {
			t.Errorf("%q: realm %q, exact %v", name, got.Realm(), exact)
		}
	}
	n := 0
	r.Each(func(*core.Broker) { n++ })
	if n != 2 || a.MaxMessage() != core.DefaultConfig().MaxMessage {
		t.Errorf("%d realms", n)
	}
}
