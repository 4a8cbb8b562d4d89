package core_test

import (
	"errors"
	"testing"

	"entrepot/core"
	"entrepot/routing"
)

// A reply address needs the right to publish there, else somebody with more rights
// would write there for who has none, and of a call also the right to receive,
// unless it is the client's own: its queue, or what a rule gives to its name. It
// shows fault 101.
func TestReplyAddressNeedsRights(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow anyone publish t", "allow anyone call rpc:p", "allow user:ann subscribe own/%u/#",
			"allow user:ann consume queue:own-%u", "deny user:ann subscribe own/%u/no", "allow user:ann declare queue:mine",
			"allow user:ann subscribe read/#", "allow user:ann consume queue:read", "allow user:ann subscribe exchange:read",
			"allow user:ann publish write/#", "allow user:ann publish queue:write", "allow user:ann publish exchange:write",
			"allow user:ann publish,subscribe both/#", "allow user:ann publish,consume queue:both", "allow user:ann call rpc:other")
		s := h.fresh("a", as("ann"))
		private := func(user string) string {
			info, err := h.fresh(user+"2", as(user)).DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(""), Exclusive: true})
			h.must(err)
			return info.Key.Name
		}
		own, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(""), Exclusive: true})
		h.must(err)
		_, err = s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("mine"), Exclusive: true})
		h.must(err)
		queue := func(name string) core.Address {
			a, err := core.QueueAddress(name)
			h.must(err)
			return a
		}
		topic := func(exchange, name string) core.Address {
			return core.Address{Exchange: exchange, Topic: h.topic(name)}
		}
		for _, c := range []struct {
			to            core.Address
			message, call bool
		}{
			{topic(core.TopicExchange, "own/ann/x"), true, true},
			{topic(core.TopicExchange, "own/ann/no"), false, false},
			{topic(core.TopicExchange, "own/bob/x"), false, false},
			{topic(core.TopicExchange, "read/x"), false, false},
			{topic(core.TopicExchange, "write/x"), true, false},
			{topic(core.TopicExchange, "both/x"), true, true},
			{topic(core.TopicExchange, "cmd/door"), false, false},
			{queue("own-ann"), true, true},
			{queue("own-bob"), false, false},
			{queue("read"), false, false},
			{queue("write"), true, false},
			{queue("both"), true, true},
			{queue(own.Key.Name), true, true},
			{queue("mine"), true, true},
			{queue(private("bob")), true, false}, // whoever was told may publish there
			{queue(private("ann")), true, false}, // another session's
			{topic("read", "k"), false, false},
			{topic("write", "k"), true, false},
			{topic(core.RPCExchange, "other"), true, false},
			{topic(core.RPCExchange, "q"), false, false},
		} {
			for exchange, want := range map[string]bool{core.TopicExchange: c.message, core.RPCExchange: c.call} {
				m := h.note("t", "x", func(m *core.Message) {
					m.Props = &core.Properties{ReplyTo: c.to}
					if m.Exchange = exchange; exchange == core.RPCExchange {
						m.Topic = h.topic("p")
					}
				})
				if _, err := h.say(s, m); want && err != nil || !want && !errors.Is(err, core.ErrNotAllowed) {
					t.Errorf("to %v by %q: %v, want %v", c.to, exchange, err, want)
				}
			}
		}
		// The name is another's by now.
		_, err = s.DeleteQueue(h.ctx, core.Named("mine"), core.DeleteOptions{})
		h.must(err)
		_, err = h.say(s, h.note("t", "x", withProps(core.Properties{ReplyTo: queue("mine")})))
		h.wantError(err, core.ErrNotAllowed)
	})
}

// An answer is not published for who may not have it any more. It shows fault 101.
func TestAnswerAfterRightsWereWithdrawn(t *testing.T) {
	bubble(t, func(h *house) {
		work := &worker{}
		h.register(h.fresh("callee", as("root")), "slow", work)
		box := h.inbox()
		h.subscribe(h.fresh("heard", as("root")), "heard", "re/#", box)
		caller := h.fresh("caller", as("ann"))
		h.rules("allow user:root all", "allow user:ann call rpc:#", "allow user:ann publish,subscribe re/#")
		re := core.Address{Exchange: core.TopicExchange, Topic: h.topic("re/x")}
		for range 2 {
			_, err := h.ask(caller, "slow", "", "q", func(p *core.Properties) { p.ReplyTo = re })
			h.must(err)
		}
		answer := func(n int, text string) {
			b := &core.Batch{}
			h.must(work.got[n].Yield(b, &core.Message{Payload: []byte(text)}, false))
			b.Flush()
		}
		answer(0, "in time")
		h.rules("allow user:root all", "allow user:ann call rpc:#", "allow user:ann subscribe re/#")
		answer(1, "late")
		box.want("in time")
	})
}

// Whoever was given an address that nobody can guess may answer there, and only
// its owner receives.
func TestGivenAddresses(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules()
		s, other := h.fresh("a", as("ann")), h.fresh("b", as("bob"))
		for _, prefix := range []string{"", "amq.rabbitmq.reply-to.", "stomp-reply-"} {
			info, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(""), Prefix: prefix, Exclusive: true})
			h.must(err)
			box := h.inbox()
			_, err = s.Consume(h.ctx, info.Key, core.ConsumeOptions{}, box)
			h.must(err)
			a, err := core.QueueAddress(info.Key.Name)
			h.must(err)
			_, err = h.say(other, h.note("x", "re", func(m *core.Message) { m.Exchange, m.Topic = a.Exchange, a.Topic }))
			h.must(err)
			box.want("re")
			_, err = other.Consume(h.ctx, info.Key, core.ConsumeOptions{}, box)
			h.wantError(err, core.ErrNotAllowed)
			_, err = other.DeclareQueue(h.ctx, core.QueueSpec{Key: info.Key, Passive: true})
			h.wantError(err, core.ErrNotAllowed)
			_, err = s.PurgeQueue(h.ctx, info.Key)
			h.must(err)
			_, err = s.DeleteQueue(h.ctx, info.Key, core.DeleteOptions{})
			h.must(err)
			_, err = h.say(h.fresh("c"+prefix, as("carl")), h.note("x", "re", func(m *core.Message) { m.Exchange, m.Topic = a.Exchange, a.Topic }))
			h.wantError(err, core.ErrNotAllowed)
		}
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("")})
		h.wantError(err, core.ErrNotAllowed) // one for everybody needs a rule
		_, err = s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("squat"), Exclusive: true})
		h.wantError(err, core.ErrNotAllowed)
		s.Close(core.CloseNormal)
	})
}

// What would publish further needs the right to all that it may publish to. It
// shows fault 52.
func TestTargetsNeedRights(t *testing.T) {
	rules := []string{"allow user:ann declare exchange:*", "allow user:ann declare,consume queue:*",
		"allow user:ann subscribe #", "allow user:ann publish exchange:ok", "allow user:ann publish dead/%u",
		"allow user:ann publish queue:grave", "allow user:ann subscribe exchange:ok"}
	queue := func(d core.DeadLetter) func(*house, *core.Session) error {
		return func(h *house, s *core.Session) error {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q"), Args: core.QueueArgs{DeadLetter: &d}})
			return err
		}
	}
	alternate := func(to string) func(*house, *core.Session) error {
		return func(h *house, s *core.Session) error {
			return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.Fanout, Alternate: to})
		}
	}
	bound := func(to, filter string) func(*house, *core.Session) error {
		return func(h *house, s *core.Session) error {
			h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "ok", Kind: routing.TopicKind}))
			h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "no", Kind: routing.TopicKind}))
			source := "ok"
			if to != core.TopicExchange {
				source = core.TopicExchange
			}
			return s.Bind(h.ctx, core.BindSpec{Source: source, Exchange: to, Filter: h.filter(filter)})
		}
	}
	for _, c := range []struct {
		title string
		do    func(*house, *core.Session) error
		want  error
	}{
		{"dead letters to an exchange", queue(core.DeadLetter{Exchange: "ok"}), nil},
		{"dead letters to another exchange", queue(core.DeadLetter{Exchange: "no"}), core.ErrNotAllowed},
		{"dead letters to a topic", queue(core.DeadLetter{Exchange: core.TopicExchange, Key: "dead.ann", HasKey: true}), nil},
		{"dead letters to another topic", queue(core.DeadLetter{Exchange: core.TopicExchange, Key: "dead.bob", HasKey: true}), core.ErrNotAllowed},
		{"dead letters to any topic", queue(core.DeadLetter{Exchange: core.TopicExchange}), core.ErrNotAllowed},
		{"dead letters to a queue", queue(core.DeadLetter{Key: "grave", HasKey: true}), nil},
		{"dead letters to another queue", queue(core.DeadLetter{Key: "theirs", HasKey: true}), core.ErrNotAllowed},
		{"dead letters to any queue", queue(core.DeadLetter{}), core.ErrNotAllowed},
		{"dead letters as calls", queue(core.DeadLetter{Exchange: core.RPCExchange, Key: "p", HasKey: true}), core.ErrNotAllowed},
		{"alternate exchange", alternate("ok"), nil},
		{"another alternate exchange", alternate("no"), core.ErrNotAllowed},
		{"topics as alternate exchange", alternate(core.TopicExchange), core.ErrNotAllowed},
		{"calls as alternate exchange", alternate(core.RPCExchange), core.ErrNotAllowed},
		{"exchange bound to topics", bound("ok", "t/#"), nil},
		{"another exchange bound to topics", bound("no", "t/#"), core.ErrNotAllowed},
		{"topics bound to an exchange", bound(core.TopicExchange, "t/#"), core.ErrNotAllowed},
	} {
		bubble(t, func(h *house) {
			h.rules(rules...)
			if err := c.do(h, h.fresh("a", as("ann"))); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: %v, want %v", c.title, err, c.want)
			}
		})
	}
}

// What goes on from an exchange, to a group or by a pattern of procedures is
// granted whole or not at all.
func TestWholeOrNothing(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow user:ann subscribe #", "deny anyone subscribe a/secret", "allow user:ann declare,publish exchange:x",
			"allow user:ann register rpc:#", "deny anyone register rpc:a/secret")
		s := h.fresh("a", as("ann"))
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.TopicKind}))
		for filter, want := range map[string]error{"a/#": core.ErrNotAllowed, "a/+": core.ErrNotAllowed, "b/#": nil,
			"a/secret": core.ErrNotAllowed, "a/b": nil, "#": core.ErrNotAllowed} {
			errs := map[string]error{
				"exchange": s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Exchange: "x", Filter: h.filter(filter)}),
			}
			_, errs["group"] = s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Key(core.GroupQueue, "g", filter)})
			_, errs["registration"] = s.Register(core.RegisterSpec{Filter: h.filter(filter)}, &worker{})
			for what, err := range errs {
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("%s of %s: %v, want %v", what, filter, err, want)
				}
			}
		}
		dollars := h.filter("#/b").WithDollars()
		h.wantError(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Exchange: "x", Filter: dollars}), core.ErrNotAllowed)
	})
}

// Another session's queue, and the names of inner ones, are out of reach
// whatever the rules say. It shows fault 42.
func TestOthersQueuesWithAllRights(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow anyone all")
		victim := h.fresh("victim", as("ann"))
		h.queue(victim, "victim")
		s := h.fresh("s", as("eve"))
		for _, err := range []error{
			func() error {
				_, err := s.Consume(h.ctx, sessionQueue("victim"), core.ConsumeOptions{}, h.inbox())
				return err
			}(),
			func() error { _, err := s.PurgeQueue(h.ctx, sessionQueue("victim")); return err }(),
			func() error {
				_, err := s.DeleteQueue(h.ctx, sessionQueue("victim"), core.DeleteOptions{})
				return err
			}(),
			s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("victim"), Filter: h.filter("t")}),
		} {
			h.wantError(err, core.ErrLocked)
		}
		// Fault 43: nobody speaks as the broker.
		for _, topic := range []string{"$SYS/x", "$reply-x", "$anything"} {
			_, err := h.say(s, h.note(topic, "x"))
			h.wantError(err, core.ErrNotAllowed)
		}
	})
}

// Nobody is somebody: without a policy all of this is allowed.
func TestTargetsWithoutRules(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		args := core.QueueArgs{DeadLetter: &core.DeadLetter{}}
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q"), Args: args})
		h.must(err)
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.Fanout, Alternate: core.TopicExchange}))
	})
}
