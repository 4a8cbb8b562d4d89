package core_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// rules sets the policy of a house; no lines deny everything.
func (h *house) rules(lines ...string) {
	h.Helper()
	r, err := auth.ParseRules([]byte(strings.Join(lines, "\n")))
	h.must(err)
	h.broker.SetPolicy(r.Decide)
}

// told is a client that writes down what is withdrawn from it.
type told struct {
	mu     sync.Mutex
	list   []core.Withdrawal
	kicked []core.EndReason
	state  []core.Withdrawal
}

func (o *told) hello(c *core.Hello) { c.Withdrawn = o.withdrawn }

func (o *told) kick(c *core.Hello) {
	c.Kick = func(why core.EndReason) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.kicked = append(o.kicked, why)
	}
}

func (o *told) withdrawn(w core.Withdrawal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, w)
}

// Withdrawn implements core.Withdrawer.
func (o *told) Withdrawn(w core.Withdrawal) []core.Note {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = append(o.state, w)
	return []core.Note{{Key: []byte("sub " + w.Binding.Filter.String())}}
}

// take is what was withdrawn since the last one, with a moment to settle.
func (o *told) take() []core.Withdrawal {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

// one is the only thing that was withdrawn.
func (o *told) one(h *house) core.Withdrawal {
	h.Helper()
	list := o.take()
	if len(list) != 1 {
		h.Fatalf("%d things withdrawn, want 1: %+v", len(list), list)
	}
	return list[0]
}

func as(user string, groups ...string) func(*core.Hello) {
	return func(c *core.Hello) {
		c.Principal = auth.Principal{User: user, ClientID: c.ClientID, Groups: groups}
	}
}

// Rules inside a filter that is granted hold for each topic: live, by CC, and
// among retained messages.
func TestDenialsInsideAFilter(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow user:ann subscribe #", "deny anyone subscribe plant/+/secret", "allow user:pub publish #",
			"allow user:ann subscribe plant/7/secret")
		p := h.fresh("p", plain, as("pub"))
		h.tell(p, "plant/1/secret", "old secret", retain)
		h.tell(p, "plant/1/temp", "old", retain)
		box := h.inbox()
		s := h.fresh("a", as("ann"))
		h.subscribe(s, "a", "plant/#", box, replay(core.ReplayAlways))
		box.want("old")
		h.tell(p, "plant/1/secret", "1")
		h.tell(p, "plant/1/temp", "2")
		h.tell(p, "plant/7/secret", "3")
		h.tell(p, "plant/1/secret", "4", func(m *core.Message) {
			m.Props = &core.Properties{CC: []routing.Topic{h.topic("plant/2/secret")}}
		})
		h.tell(p, "plant/1/secret", "5", func(m *core.Message) {
			m.Props = &core.Properties{BCC: []routing.Topic{h.topic("plant/2/temp")}}
		})
		box.want("2", "3", "5")
		h.wantError(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"),
			Filter: h.filter("plant/1/secret")}), core.ErrNotAllowed)
		if _, err := s.Retained(h.topic("plant/1/secret")); !errors.Is(err, core.ErrNotAllowed) {
			t.Error(err)
		}
		var seen []string
		s.EachRetained(h.filter("#"), func(m *core.Message) bool {
			seen = append(seen, m.Topic.String())
			return true
		})
		if strings.Join(seen, " ") != "plant/1/temp" {
			t.Error(seen)
		}
	})
}

// A binding that matches more than one topic space of the client brings in what
// one of them may.
func TestOneBindingMayWhereAnotherMayNot(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow user:ann all", "allow user:bob subscribe a/#", "deny user:bob subscribe a/x",
			"allow user:bob declare queue:q")
		ann, bob := h.fresh("ann", as("ann")), h.fresh("bob", as("bob"))
		_, err := ann.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q")})
		h.must(err)
		h.must(bob.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: h.filter("a/#")}))
		box := h.inbox()
		_, err = ann.Consume(h.ctx, core.Named("q"), core.ConsumeOptions{}, box)
		h.must(err)
		h.tell(ann, "a/x", "1")
		h.tell(ann, "a/y", "2")
		box.want("2")
		h.must(ann.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: h.filter("a/+")}))
		h.tell(ann, "a/x", "3")
		box.want("3")
	})
}

// $SYS comes in by no wildcard of an AMQP binding without a rule of its own.
// It shows fault 42.
func TestSystemTopicsByAWildcardBinding(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow anyone subscribe #", "allow user:ops subscribe $SYS/#")
		in := map[string]*inbox{"ann": h.inbox(), "ops": h.inbox()}
		for user, box := range in {
			s := h.fresh(user, as(user))
			h.subscribe(s, user, "#", box, func(b *core.BindSpec) { b.Filter = b.Filter.WithDollars() })
		}
		h.broker.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: h.topic("$SYS/x"), Payload: []byte("1")})
		in["ann"].want()
		in["ops"].want("1")
	})
}

// Rights withdrawn end what runs, at once. They show fault 48.
func TestRightsWithdrawn(t *testing.T) {
	all := []string{"allow user:ann all", "allow user:pub all"}
	less := []string{"allow user:pub all", "allow user:ann subscribe other"}
	bubble(t, func(h *house) { // a subscription
		o := &told{}
		h.rules(all...)
		box := h.inbox()
		s := h.fresh("a", as("ann"), o.hello)
		h.subscribe(s, "a", "t/#", box)
		h.bind(s, "a", "other")
		p := h.fresh("p", plain, as("pub"))
		h.rules(less...)
		w := o.one(h)
		if w.Binding == nil || w.Binding.Filter != h.filter("t/#") || w.Binding.Queue != sessionQueue("a") {
			t.Errorf("%+v", w)
		}
		h.tell(p, "t/x", "1")
		h.tell(p, "other", "2")
		box.want("2")
		h.rules(all...) // it does not come back
		h.tell(p, "t/x", "3")
		box.want()
		if len(o.take()) > 0 {
			t.Error("something else was withdrawn")
		}
	})
	bubble(t, func(h *house) { // a consumer, one that pulls, one of an own queue
		o := &told{}
		h.rules(all...)
		s := h.fresh("a", as("ann"), o.hello)
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q")})
		h.must(err)
		mine, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(""), Exclusive: true})
		h.must(err)
		own := h.inbox()
		_, err = s.Consume(h.ctx, mine.Key, core.ConsumeOptions{}, own)
		h.must(err)
		box := h.holding()
		c, err := s.Consume(h.ctx, core.Named("q"), core.ConsumeOptions{}, box)
		h.must(err)
		p := h.fresh("p", plain, as("pub"))
		toQueue := func(k core.QueueKey, payload string) {
			a, err := core.QueueAddress(k.Name)
			h.must(err)
			_, err = h.say(p, h.note("x", payload, func(m *core.Message) { m.Exchange, m.Topic = a.Exchange, a.Topic }))
			h.must(err)
		}
		toQueue(core.Named("q"), "1")
		box.want("1")
		h.rules(less...)
		if w := o.one(h); w.Consumer != c {
			t.Errorf("%+v", w)
		}
		toQueue(core.Named("q"), "2")
		toQueue(mine.Key, "3")
		box.want()
		own.want("3")
		info, err := p.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q"), Passive: true})
		h.must(err)
		if info.Messages != 2 || info.Unsettled != 0 {
			t.Errorf("%+v: what was out goes back", info)
		}
	})
	bubble(t, func(h *house) { // a registration, and a queue that serves
		o := &told{}
		h.rules(all...)
		s := h.fresh("a", as("ann"), o.hello)
		reg := h.register(s, "dev/reboot", &worker{})
		h.queue(s, "a")
		h.must(s.Bind(h.ctx, core.BindSpec{Source: core.RPCExchange, Queue: sessionQueue("a"), Filter: h.filter("dev/+")}))
		h.rules(less...)
		list := o.take()
		if len(list) != 2 {
			t.Fatalf("%+v", list)
		}
		for _, w := range list {
			if w.Registration != reg && (w.Binding == nil || w.Binding.Source != core.RPCExchange) {
				t.Errorf("%+v", w)
			}
		}
		if n := len(h.broker.Procedures()); n != 0 {
			t.Errorf("%d procedures are left", n)
		}
	})
	bubble(t, func(h *house) { // a group, whose other member stays
		o := &told{}
		h.rules("allow anyone all")
		s, other := h.fresh("a", as("ann"), o.hello), h.fresh("b", as("bob"))
		key := core.Key(core.GroupQueue, "g", "t/#")
		boxes := map[*core.Session]*inbox{s: h.inbox(), other: h.inbox()}
		for c, box := range boxes {
			_, err := c.DeclareQueue(h.ctx, core.QueueSpec{Key: key})
			h.must(err)
			h.must(c.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: h.filter("t/#")}))
			_, err = c.Consume(h.ctx, key, core.ConsumeOptions{}, box)
			h.must(err)
		}
		h.rules("allow user:bob all", "allow user:ann subscribe t/#", "deny user:ann subscribe t/x")
		if w := o.one(h); w.Binding == nil || w.Binding.Queue != key || w.Binding.Filter != h.filter("t/#") {
			t.Errorf("%+v", w)
		}
		for range 4 {
			h.tell(other, "t/x", "1")
		}
		boxes[s].want()
		boxes[other].want("1", "1", "1", "1")
		h.rules("deny anyone all")
		h.wantNoQueues()
	})
}

func (h *house) wantNoQueues() {
	h.Helper()
	if n := h.queues(); n != 0 {
		h.Errorf("%d queues", n)
	}
}

// A session whose client is away loses what it may not have; when the client
// is back it is not there.
func TestRightsWithdrawnWhileAway(t *testing.T) {
	bubble(t, func(h *house) {
		o := &told{}
		h.rules("allow user:ann subscribe #", "allow user:pub all")
		s := h.fresh("a", as("ann"))
		s.SetState(o)
		h.queue(s, "a")
		h.bind(s, "a", "t/#")
		h.bind(s, "a", "other")
		group := core.Key(core.GroupQueue, "g", "t/1")
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: group})
		h.must(err)
		h.must(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: group, Filter: h.filter("t/1")}))
		s.Close(core.CloseNormal)
		h.rules("allow user:ann subscribe other", "allow user:pub all")
		if len(o.state) != 2 {
			t.Fatalf("%+v", o.state)
		}
		p := h.fresh("p", plain, as("pub"))
		h.tell(p, "t/1", "1")
		h.tell(p, "other", "2")
		s = h.again("a", as("ann"))
		box := h.inbox()
		h.consume(s, "a", box)
		box.want("2")
		h.wantError(s.Rebind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: h.filter("t/#")}),
			core.ErrNotAllowed)
	})
}

// After a restart the rules are others: bindings that are kept know whose they
// are.
func TestRightsWithdrawnAfterRestart(t *testing.T) {
	eachEnd(t, func(c *bunker, end func(time.Duration)) {
		c.rules("allow group:ops all")
		s := c.fresh("a", as("ann", "ops"), expiry(time.Hour))
		c.lasting(s, "a", "t/#")
		c.must(s.Bind(c.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: c.filter("u/#")}))
		_, err := s.DeclareQueue(c.ctx, core.QueueSpec{Key: core.Named("q"), Durable: true})
		c.must(err)
		c.must(s.Bind(c.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: c.filter("v/#")}))
		end(time.Minute)
		c.rules("allow group:ops subscribe t/#", "deny anyone subscribe t/x", "allow user:pub publish #",
			"allow user:pub declare queue:q")
		p := c.fresh("p", plain, as("pub"))
		for _, topic := range []string{"t/x", "t/y", "u/1", "v/1"} {
			c.tell(p, topic, topic, durable)
		}
		again := c.again("a", as("ann", "ops"), expiry(time.Hour))
		box := c.inbox()
		c.consume(again, "a", box)
		box.want("t/y")
		info, err := p.DeclareQueue(c.ctx, core.QueueSpec{Key: core.Named("q"), Passive: true})
		c.must(err)
		if info.Messages != 0 {
			t.Errorf("%d messages in a queue that was bound with rights that are gone", info.Messages)
		}
	})
}

// Who comes back with other groups has their rights in what was bound before.
func TestOtherGroupsAtResume(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow group:ops subscribe #", "allow group:dev subscribe dev/#", "allow user:pub publish #")
		o := &told{}
		s := h.fresh("a", as("ann", "ops", "dev"))
		h.queue(s, "a")
		h.bind(s, "a", "t")
		h.bind(s, "a", "dev/x")
		s.Close(core.CloseLost)
		s = h.again("a", as("ann", "dev"), o.hello)
		if w := o.one(h); w.Binding == nil || w.Binding.Filter != h.filter("t") {
			t.Errorf("%+v", w)
		}
		box := h.inbox()
		h.consume(s, "a", box)
		p := h.fresh("p", plain, as("pub"))
		h.tell(p, "t", "1")
		h.tell(p, "dev/x", "2")
		box.want("2")
	})
}

// An adapter that has no way to tell of one thing ends the connection.
func TestWithdrawnWithoutACallback(t *testing.T) {
	bubble(t, func(h *house) {
		o := &told{}
		h.rules("allow anyone all")
		s := h.fresh("a", as("ann"), o.kick)
		h.queue(s, "a")
		h.bind(s, "a", "t")
		h.rules()
		synctest.Wait()
		if len(o.kicked) != 1 || o.kicked[0] != core.EndRefused {
			t.Errorf("%v", o.kicked)
		}
	})
}

// What a session remembers of its rights does not outlive the rules.
func TestGrantsEndWithTheRules(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a", as("ann"))
		for _, c := range []struct {
			rule string
			want error
		}{
			{"allow user:ann publish t", nil}, {"allow user:ann publish u", core.ErrNotAllowed},
			{"allow user:ann publish t", nil}, {"", core.ErrNotAllowed},
		} {
			h.rules(c.rule)
			for range 2 {
				if _, err := h.say(s, h.note("t", "x")); !errors.Is(err, c.want) {
					t.Errorf("%q: %v", c.rule, err)
				}
			}
		}
		h.broker.SetPolicy(nil)
		h.tell(s, "t", "x")
	})
}

// A verb that was let in by the older rules while they changed is found by the
// second look.
func TestVerbsUnderWayAtAChange(t *testing.T) {
	bubble(t, func(h *house) {
		o := &told{}
		h.rules("allow user:ann subscribe #")
		s := h.fresh("a", as("ann"), o.hello)
		h.queue(s, "a")
		h.rules("allow user:ann subscribe u")
		// As if Bind had asked before.
		_, err := h.engine.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: h.filter("t"),
			Owner: &core.Owner{Principal: auth.Principal{User: "ann"}, Session: s.ID()}})
		h.must(err)
		if len(o.take()) > 0 {
			t.Fatal("too early")
		}
		pass(time.Second)
		if w := o.one(h); w.Binding == nil || w.Binding.Filter != h.filter("t") {
			t.Errorf("%+v", w)
		}
	})
}
