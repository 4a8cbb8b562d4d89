package core_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// way is one way of a verb to do something that a rule is about.
type way struct {
	title  string
	verb   string // of Session
	action auth.Action
	allow  string // the rule that allows it
	deny   string // a rule that denies it, beside one that allows everything
	do     func(h *house, s *core.Session) error
}

// said is the end of a publish.
func said(h *house, s *core.Session, m *core.Message) error {
	h.Helper()
	_, err := h.say(s, m)
	return err
}

func to(h *house, exchange, topic string, edits ...func(*core.Message)) *core.Message {
	h.Helper()
	m := h.note(topic, "x", edits...)
	m.Exchange = exchange
	return m
}

func withProps(p core.Properties) func(*core.Message) {
	return func(m *core.Message) { m.Props = &p }
}

// publishing are the ways to publish.
func publishing() []way {
	const allow, deny = "allow user:ann publish t/+", "deny user:ann publish t/1"
	return []way{
		{"live", "Publish", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			return said(h, s, h.note("t/1", "x"))
		}},
		{"later", "MayPublish", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			return s.MayPublish(h.note("t/1", "x"))
		}},
		{"retained", "Publish", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			return said(h, s, h.note("t/1", "x", retain))
		}},
		{"a retained value cleared", "Publish", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			return said(h, s, h.note("t/1", "", retain))
		}},
		{"delayed", "Publish", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			return said(h, s, h.note("t/1", "x", withProps(core.Properties{Delay: time.Minute})))
		}},
		{"with notes", "PublishNoted", auth.Publish, allow, deny, func(h *house, s *core.Session) (err error) {
			s.PublishNoted(nil, h.note("t/1", "x"), nil, func(_ bool, e error) { err = e })
			return err
		}},
		{"in a transaction", "Apply", auth.Publish, allow, deny, func(h *house, s *core.Session) (err error) {
			s.Apply(nil, []core.Op{{Message: h.note("t/1", "x")}}, func(_ bool, e error) { err = e })
			return err
		}},
		{"CC", "Publish", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			return said(h, s, h.note("t/2", "x", withProps(core.Properties{CC: []routing.Topic{h.topic("t/1")}})))
		}},
		{"BCC", "Publish", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			return said(h, s, h.note("t/2", "x", withProps(core.Properties{BCC: []routing.Topic{h.topic("t/1")}})))
		}},
		{"a reply address", "Publish", auth.Publish, allow + "\nallow user:ann publish p", deny, func(h *house, s *core.Session) error {
			re := core.Address{Exchange: core.TopicExchange, Topic: h.topic("t/1")}
			return said(h, s, h.note("p", "x", withProps(core.Properties{ReplyTo: re})))
		}},
		{"will", "Broker", auth.Publish, allow, deny, func(h *house, s *core.Session) error {
			c, _, err := s.Broker().Connect(h.ctx, hello("w", as("ann"), will(h, "t/1", "x", 0)))
			if err == nil {
				c.Close(core.CloseNormal)
			}
			return err
		}},
		{"to a queue", "Publish", auth.Publish, "allow user:ann publish queue:q*", "deny user:ann publish queue:q",
			func(h *house, s *core.Session) error { return said(h, s, to(h, "", "q")) }},
		{"to an exchange", "Publish", auth.Publish, "allow user:ann publish exchange:x", "deny user:ann publish exchange:x*",
			func(h *house, s *core.Session) error { return said(h, s, to(h, "x", "any/key")) }},
	}
}

// subscribing are the ways to receive topics, and what exchanges bring.
func subscribing() []way {
	const allow, deny = "allow user:ann subscribe t/#", "deny user:ann subscribe t/#"
	bind := func(edits ...func(*core.BindSpec)) func(*house, *core.Session) error {
		return func(h *house, s *core.Session) error {
			b := core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: h.filter("t/+")}
			for _, edit := range edits {
				edit(&b)
			}
			return s.Bind(h.ctx, b)
		}
	}
	return []way{
		{"a filter", "Bind", auth.Subscribe, allow, deny, bind()},
		{"with replay", "Bind", auth.Subscribe, allow, deny, bind(replay(core.ReplayAlways))},
		{"again after a restart", "Rebind", auth.Subscribe, allow, deny, func(h *house, s *core.Session) error {
			return s.Rebind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: h.filter("t/+")})
		}},
		{"a group", "DeclareQueue", auth.Subscribe, allow, deny, func(h *house, s *core.Session) error {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Key(core.GroupQueue, "g", "t/+")})
			return err
		}},
		{"a retained value", "Retained", auth.Subscribe, allow, deny, func(h *house, s *core.Session) error {
			_, err := s.Retained(h.topic("t/1"))
			return err
		}},
		{"all retained values", "EachRetained", auth.Subscribe, allow, deny, func(h *house, s *core.Session) error {
			err := core.ErrNotAllowed
			s.EachRetained(h.filter("#"), func(*core.Message) bool {
				err = nil
				return true
			})
			return err
		}},
		{"a call's reply address", "Publish", auth.Subscribe, allow + "\nallow user:ann publish t/1\nallow user:ann call rpc:p", deny,
			func(h *house, s *core.Session) error {
				re := core.Address{Exchange: core.TopicExchange, Topic: h.topic("t/1")}
				m := h.note("p", "x", withProps(core.Properties{ReplyTo: re}))
				m.Exchange = core.RPCExchange
				return said(h, s, m)
			}},
		{"an exchange", "Bind", auth.Subscribe, "allow user:ann subscribe exchange:x", "deny user:ann subscribe exchange:x",
			bind(func(b *core.BindSpec) { b.Source = "x" })},
	}
}

// queueing are the ways to work on queues and exchanges.
func queueing() []way {
	const declare, noDeclare = "allow user:ann declare queue:*", "deny user:ann declare queue:*"
	const consume, noConsume = "allow user:ann consume queue:q", "deny user:ann consume queue:q"
	const exchange, noExchange = "allow user:ann declare exchange:*", "deny user:ann declare exchange:*"
	return []way{
		{"consume", "Consume", auth.Consume, consume, noConsume, func(h *house, s *core.Session) error {
			_, err := s.Consume(h.ctx, core.Named("q"), core.ConsumeOptions{}, h.inbox())
			return err
		}},
		{"get", "Consume", auth.Consume, consume, noConsume, func(h *house, s *core.Session) error {
			_, err := s.Consume(h.ctx, core.Named("q"), core.ConsumeOptions{Pull: true}, h.inbox())
			return err
		}},
		{"purge", "PurgeQueue", auth.Consume, consume, noConsume, func(h *house, s *core.Session) error {
			_, err := s.PurgeQueue(h.ctx, core.Named("q"))
			return err
		}},
		{"declare", "DeclareQueue", auth.Declare, declare, noDeclare, func(h *house, s *core.Session) error {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("new")})
			return err
		}},
		{"delete", "DeleteQueue", auth.Declare, declare, noDeclare, func(h *house, s *core.Session) error {
			_, err := s.DeleteQueue(h.ctx, core.Named("q"), core.DeleteOptions{})
			return err
		}},
		{"bind", "Bind", auth.Declare, declare + "\nallow user:ann subscribe t", noDeclare, func(h *house, s *core.Session) error {
			return s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: h.filter("t")})
		}},
		{"unbind", "Unbind", auth.Declare, declare, noDeclare, func(h *house, s *core.Session) error {
			return s.Unbind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: h.filter("bound")})
		}},
		{"dead letters", "DeclareQueue", auth.Publish, declare + "\nallow user:ann consume queue:*\nallow user:ann publish exchange:x",
			"deny user:ann publish exchange:x", func(h *house, s *core.Session) error {
				args := core.QueueArgs{DeadLetter: &core.DeadLetter{Exchange: "x"}}
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("new"), Args: args})
				return err
			}},
		{"dead letters by their own keys", "DeclareQueue", auth.Publish, declare + "\nallow user:ann consume queue:*\nallow user:ann publish queue:*",
			"deny user:ann publish queue:in\nallow user:ann publish exchange:*", func(h *house, s *core.Session) error {
				args := core.QueueArgs{DeadLetter: &core.DeadLetter{Exchange: core.DefaultExchange}}
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("new"), Args: args})
				return err
			}},
		{"declare an exchange", "DeclareExchange", auth.Declare, exchange, noExchange, func(h *house, s *core.Session) error {
			return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "new", Kind: routing.Fanout})
		}},
		{"an exchange looked for", "DeclareExchange", auth.Declare, exchange, noExchange, func(h *house, s *core.Session) error {
			return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Passive: true})
		}},
		{"alternate exchange", "DeclareExchange", auth.Publish, exchange + "\nallow user:ann publish exchange:x",
			"deny user:ann publish exchange:x", func(h *house, s *core.Session) error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "new", Kind: routing.Fanout, Alternate: "x"})
			}},
		{"delete an exchange", "DeleteExchange", auth.Declare, exchange, noExchange, func(h *house, s *core.Session) error {
			return s.DeleteExchange(h.ctx, "x", false)
		}},
	}
}

// calling are the ways of calls, and what operators do.
func calling() []way {
	const call, noCall = "allow user:ann call rpc:dev/#", "deny user:ann call rpc:dev/a"
	const register, noRegister = "allow user:ann register rpc:dev/+", "deny user:ann register rpc:dev/b"
	return []way{
		{"call", "Call", auth.Call, call, noCall, func(h *house, s *core.Session) error {
			_, err := s.Call(&core.Batch{}, h.callSpec("dev/a", "x", &answers{}))
			return err
		}},
		{"call by a message", "Publish", auth.Call, call, noCall, func(h *house, s *core.Session) error {
			return said(h, s, to(h, core.RPCExchange, "dev/a"))
		}},
		{"register", "Register", auth.Register, register, noRegister, func(h *house, s *core.Session) error {
			r, err := s.Register(core.RegisterSpec{Filter: h.filter("dev/b")}, echo("b"))
			if err == nil {
				h.must(s.Unregister(r))
			}
			return err
		}},
		{"serve by a queue", "Bind", auth.Register, register, noRegister, func(h *house, s *core.Session) error {
			return s.Bind(h.ctx, core.BindSpec{Source: core.RPCExchange, Queue: sessionQueue("a"), Filter: h.filter("dev/b")})
		}},
		{"what operators do", "Allowed", auth.Admin, "allow user:ann admin", "deny user:ann admin", func(_ *house, s *core.Session) error {
			return s.Allowed(auth.Admin, auth.Object{Name: "$SYS/queues"})
		}},
	}
}

// Every way is allowed by its rule, denied without it, and denied by the rule
// against it. It shows fault 36 and fault 52.
func TestRightsMatrix(t *testing.T) {
	all := append(append(publishing(), subscribing()...), append(queueing(), calling()...)...)
	for _, w := range all {
		for _, c := range []struct {
			rules string
			want  error
		}{{w.allow, nil}, {"", core.ErrNotAllowed}, {w.deny + "\nallow user:ann all", core.ErrNotAllowed},
			{"allow user:bob all", core.ErrNotAllowed}} {
			bubble(t, func(h *house) {
				s := furnished(h)
				h.rules("allow user:owner all", c.rules)
				if err := w.do(h, s); !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("%s %s with %q: %v, want %v", w.action, w.title, c.rules, err, c.want)
				}
			})
		}
	}
	everyVerbHasARow(t, all)
}

// furnished has what the ways are about.
func furnished(h *house) *core.Session {
	owner := h.fresh("owner", plain, as("owner"))
	_, err := owner.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q")})
	h.must(err)
	h.must(owner.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.TopicKind}))
	h.tell(owner, "t/1", "old", retain)
	h.register(owner, "dev/a", echo("a"))
	s := h.fresh("a", as("ann"))
	h.queue(s, "a")
	h.must(owner.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: h.filter("bound")}))
	return s
}

// everyVerbHasARow fails for a new verb of Session, and for a new action.
func everyVerbHasARow(t *testing.T, all []way) {
	t.Helper()
	verbs, actions := map[string]bool{}, map[auth.Action]bool{}
	for _, w := range all {
		verbs[w.verb], actions[w.action] = true, true
	}
	// What these do is the client's own.
	for _, free := range []string{"Admit", "Close", "Drops", "ID", "Keep", "Lasting", "Notes", "Origin", "Pace", "Principal", "Reached", "Renew",
		"SetExpiry", "SetState", "Spend", "State", "Unregister"} {
		verbs[free] = true
	}
	of := reflect.TypeFor[*core.Session]()
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; !verbs[name] {
			t.Errorf("Session.%s has no row", name)
		}
	}
	for a := auth.Publish; a <= auth.Admin; a++ {
		if !actions[a] {
			t.Errorf("%s has no row", a)
		}
	}
}
