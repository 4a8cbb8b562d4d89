package core_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
	"entrepot/routing"
)

// asked is a policy that writes down what it was asked and refuses some.
type asked struct {
	mu     sync.Mutex
	list   []string
	refuse map[string]bool
}

func (a *asked) decide(who auth.Principal, act auth.Action, o auth.Object) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := [...]string{"topic", "queue", "exchange", "procedure"}[o.Kind]
	question := fmt.Sprintf("%s: %s %s %s", who.User, act, kind, o.Name)
	a.list = append(a.list, question)
	if a.refuse[question] {
		return errors.New("a reason that clients do not see")
	}
	return nil
}

func (a *asked) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	return list
}

// asHans is a client with a user.
func asHans(c *core.Hello) { c.Principal = auth.Principal{User: "hans", ClientID: c.ClientID} }

// What the policy is asked at each verb. Each answer no is ErrNotAllowed, and
// then nothing happened.
// It shows faults 36 and 52.
func TestPolicyAtEveryVerb(t *testing.T) {
	session := sessionQueue("a")
	q := core.Named("q")
	filter := func(h *house, k core.QueueKey, edits ...func(*core.BindSpec)) core.BindSpec {
		b := core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: h.filter("t/#")}
		for _, edit := range edits {
			edit(&b)
		}
		return b
	}
	toQueue := func(m *core.Message) {
		a, err := core.QueueAddress("q")
		if err != nil {
			t.Fatal(err)
		}
		m.Exchange, m.Topic = a.Exchange, a.Topic
	}
	for _, c := range []struct {
		title string
		do    func(*house, *core.Session) error
		asks  []string
	}{
		{"declare a queue", func(h *house, s *core.Session) error {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("new")})
			return err
		}, []string{"declare queue new"}},
		{"declare a queue with dead letters", func(h *house, s *core.Session) error {
			args := core.QueueArgs{DeadLetter: &core.DeadLetter{Exchange: "dead"}}
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("new"), Args: args})
			if errors.Is(err, core.ErrUnsupported) {
				return nil // the engine's word, after the policy's
			}
			return err
		}, []string{"declare queue new", "consume queue new", "publish exchange dead"}},
		{"declare a session's queue", func(h *house, s *core.Session) error {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: sessionQueue("new")})
			return err
		}, nil},
		{"delete a queue", func(h *house, s *core.Session) error {
			_, err := s.DeleteQueue(h.ctx, q, core.DeleteOptions{})
			return err
		}, []string{"declare queue q"}},
		{"purge", func(h *house, s *core.Session) error {
			_, err := s.PurgeQueue(h.ctx, q)
			return err
		}, []string{"consume queue q"}},
		{"consume", func(h *house, s *core.Session) error {
			_, err := s.Consume(h.ctx, q, core.ConsumeOptions{}, h.inbox())
			return err
		}, []string{"consume queue q"}},
		{"consume a session's queue", func(h *house, s *core.Session) error {
			_, err := s.Consume(h.ctx, session, core.ConsumeOptions{}, h.inbox())
			return err
		}, nil},
		{"declare an exchange", func(h *house, s *core.Session) error {
			return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "new", Kind: routing.Fanout, Alternate: "other"})
		}, []string{"declare exchange new", "publish exchange other"}},
		{"passive declare of an exchange", func(h *house, s *core.Session) error {
			return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Passive: true})
		}, []string{"declare exchange x"}},
		{"delete an exchange", func(h *house, s *core.Session) error {
			return s.DeleteExchange(h.ctx, "x", false)
		}, []string{"declare exchange x"}},
		{"subscribe", func(h *house, s *core.Session) error { return s.Bind(h.ctx, filter(h, session)) },
			[]string{"subscribe topic t/#"}},
		{"subscribe with replay", func(h *house, s *core.Session) error {
			return s.Bind(h.ctx, filter(h, session, replay(core.ReplayAlways)))
		}, []string{"subscribe topic t/#"}},
		{"bind a queue", func(h *house, s *core.Session) error { return s.Bind(h.ctx, filter(h, q)) },
			[]string{"subscribe topic t/#", "declare queue q"}},
		{"bind to another exchange", func(h *house, s *core.Session) error {
			return s.Bind(h.ctx, filter(h, session, func(b *core.BindSpec) { b.Source = "x" }))
		}, []string{"subscribe exchange x"}},
		{"bind an exchange", func(h *house, s *core.Session) error {
			return s.Bind(h.ctx, filter(h, core.QueueKey{}, func(b *core.BindSpec) { b.Exchange = "x" }))
		}, []string{"subscribe topic t/#", "declare exchange x", "publish exchange x"}},
		{"unsubscribe", func(h *house, s *core.Session) error { return s.Unbind(h.ctx, filter(h, session)) }, nil},
		{"unbind a queue", func(h *house, s *core.Session) error { return s.Unbind(h.ctx, filter(h, q)) },
			[]string{"declare queue q"}},
		{"read a retained message", func(h *house, s *core.Session) error {
			_, err := s.Retained(h.topic("t/1"))
			return err
		}, []string{"subscribe topic t/1"}},
		{"publish", func(h *house, s *core.Session) error {
			_, err := h.say(s, h.note("p/1", "x"))
			return err
		}, []string{"publish topic p/1"}},
		{"publish retained", func(h *house, s *core.Session) error {
			_, err := h.say(s, h.note("p/1", "x", retain))
			return err
		}, []string{"publish topic p/1"}},
		{"publish to a queue", func(h *house, s *core.Session) error {
			_, err := h.say(s, h.note("t", "x", toQueue))
			return err
		}, []string{"publish queue q"}},
		{"publish to an exchange", func(h *house, s *core.Session) error {
			_, err := h.say(s, h.note("t", "x", func(m *core.Message) { m.Exchange = "x" }))
			return err
		}, []string{"publish exchange x"}},
		{"apply", func(h *house, s *core.Session) (err error) {
			s.Apply(nil, []core.Op{{Message: h.note("p/1", "x")}, {Message: h.note("p/2", "x")}}, func(_ bool, e error) { err = e })
			return err
		}, []string{"publish topic p/1", "publish topic p/2"}},
	} {
		t.Run(c.title, func(t *testing.T) {
			for refused := range len(c.asks) + 1 {
				synctest.Test(t, func(t *testing.T) { askedAt(t, c.do, c.asks, refused) })
			}
		})
	}
}

// askedAt does a verb for which the policy refuses the question of that number,
// from 1, or none.
func askedAt(t *testing.T, do func(*house, *core.Session) error, asks []string, refused int) {
	p := &asked{refuse: map[string]bool{}}
	h, s := preparedHouse(t, p)
	before := h.broker.Stats()
	if refused > 0 {
		p.refuse["hans: "+asks[refused-1]] = true
	}
	err := do(h, s)
	want := make([]string, 0, len(asks))
	for i, q := range asks {
		if refused == 0 || i < refused {
			want = append(want, "hans: "+q)
		}
	}
	if got := p.take(); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("asked %q, want %q", got, want)
	}
	if refused == 0 {
		h.must(err)
		return
	}
	h.wantError(err, core.ErrNotAllowed)
	if strings.Contains(err.Error(), "reason") {
		t.Errorf("the client sees %q", err)
	}
	after := h.broker.Stats()
	if before.Engine != after.Engine || after.Retained != before.Retained {
		t.Errorf("something happened: %+v, before %+v", after, before)
	}
}

// preparedHouse has the queues q and of session a, the exchange x, and the
// bindings that the verbs change.
func preparedHouse(t *testing.T, p *asked) (*house, *core.Session) {
	t.Helper()
	h := houseOn(t, local.New(quiet()), core.DefaultConfig(), p.decide)
	s := h.fresh("a", asHans)
	h.queue(s, "a")
	_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q")})
	h.must(err)
	h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.TopicKind}))
	h.bind(s, "a", "t/#")
	h.must(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: h.filter("t/#")}))
	p.take()
	return h, s
}

// Faults 51 and 52: whoever may do nothing with a queue does not learn whether it
// is there.
func TestPassiveDeclareNeedsSomeRight(t *testing.T) {
	for _, c := range []struct {
		may  string
		want error
	}{{"declare", nil}, {"consume", nil}, {"publish", nil}, {"subscribe", core.ErrNotAllowed}} {
		synctest.Test(t, func(t *testing.T) {
			h := houseOn(t, local.New(quiet()), core.DefaultConfig(), nil)
			s := h.fresh("a", asHans)
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q")})
			h.must(err)
			h.broker.SetPolicy(func(_ auth.Principal, a auth.Action, _ auth.Object) error {
				if a.String() != c.may {
					return errors.New("no")
				}
				return nil
			})
			for _, name := range []string{"q", "none"} {
				_, err = s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(name), Passive: true})
				if c.want != nil && !errors.Is(err, c.want) || c.want == nil && errors.Is(err, core.ErrNotAllowed) {
					t.Errorf("may %s %s: %v", c.may, name, err)
				}
			}
		})
	}
}

// A session remembers what it may publish to, up to a bound, and asks the
// policy no more than once for it.
// It shows fault 26.
func TestGrantsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &asked{refuse: map[string]bool{"hans: publish topic no": true}}
		h := houseOn(t, local.New(quiet()), core.DefaultConfig(), p.decide)
		s := h.fresh("a", asHans)
		for range 10 {
			h.tell(s, "yes", "x")
			if _, err := h.say(s, h.note("no", "x")); err == nil {
				t.Fatal("published without rights")
			}
		}
		if n := len(p.take()); n != 1+10 {
			t.Errorf("asked %d times, want once for what is allowed and 10 times for what is not", n)
		}
		for i := range 1000 {
			h.tell(s, fmt.Sprint("t/", i), "x")
		}
		long := strings.Repeat("x", 10_000)
		for range 2 {
			h.tell(s, long, "x")
		}
		if n := len(p.take()); n != 1000+2 {
			t.Errorf("asked %d times, want for each topic, and each time for a very long one", n)
		}
		if n := core.Grants(s); n > 256 {
			t.Errorf("%d grants remembered", n)
		}
		// Another session of the same user asks for itself.
		h.tell(h.fresh("b", asHans), "yes", "x")
		if n := len(p.take()); n != 1 {
			t.Errorf("another session asked %d times", n)
		}
	})
}

// Names that are the broker's own.
// It shows faults 42 and 43.
func TestReservedNames(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		for _, c := range []struct {
			title string
			do    func() error
			want  error
		}{
			{"declare amq.new", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "amq.new", Kind: routing.Fanout})
			}, core.ErrNotAllowed},
			{"declare $new", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "$new", Kind: routing.Fanout})
			}, core.ErrNotAllowed},
			{"declare amq.new passively", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "amq.new", Passive: true})
			}, core.ErrNotFound},
			{"declare amq.topic as it is", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "amq.topic", Kind: routing.TopicKind, Durable: true})
			}, nil},
			{"declare amq.topic otherwise", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "amq.topic", Kind: routing.Fanout, Durable: true})
			}, core.ErrConflict},
			{"declare amq.topic passively", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "amq.topic", Passive: true})
			}, nil},
			{"declare the default exchange", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Kind: routing.Direct})
			}, core.ErrNotAllowed},
			{"declare the default exchange passively", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Passive: true})
			}, nil},
			{"delete amq.topic", func() error { return s.DeleteExchange(h.ctx, "amq.topic", false) }, core.ErrNotAllowed},
			{"delete the default exchange", func() error { return s.DeleteExchange(h.ctx, "", false) }, core.ErrNotAllowed},
			{"bind to the default exchange", func() error {
				return s.Bind(h.ctx, core.BindSpec{Queue: core.Named("q"), Filter: h.filter("q")})
			}, core.ErrNotAllowed},
			{"declare queue amq.q", func() error {
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("amq.q")})
				return err
			}, core.ErrNotAllowed},
			{"declare queue $q", func() error {
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("$q")})
				return err
			}, core.ErrNotAllowed},
			{"declare queue amq.q passively", func() error {
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("amq.q"), Passive: true})
				return err
			}, core.ErrNotFound},
			{"a queue without a name that should be there", func() error {
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(""), Passive: true})
				return err
			}, core.ErrInvalid},
			{"a name that is too long", func() error {
				return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: strings.Repeat("x", 256), Kind: routing.Fanout})
			}, core.ErrInvalid},
			{"a name with NUL", func() error {
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("a\x00b")})
				return err
			}, core.ErrInvalid},
			{"a name that is no UTF-8", func() error {
				_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("a\xffb")})
				return err
			}, core.ErrInvalid},
			{"publish to $SYS", func() error { _, err := h.say(s, h.note("$SYS/x", "x")); return err }, core.ErrNotAllowed},
			{"subscribe to $SYS", func() error {
				h.queue(s, "a")
				return s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: h.filter("$SYS/#")})
			}, nil},
		} {
			if err := c.do(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.title, err, c.want)
			}
		}
	})
}

// No address reaches a session's queue: a client that names its queue as one
// of the inner keys has another queue.
// It shows fault 42.
func TestInnerQueuesAreOutOfReach(t *testing.T) {
	bubble(t, func(h *house) {
		victim := h.fresh("victim")
		box := h.inbox()
		h.subscribe(victim, "victim", "t", box)
		s := h.fresh("s", plain)
		for _, name := range []string{"victim", "session queue victim"} {
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(name)})
			h.must(err)
			a, err := core.QueueAddress(name)
			h.must(err)
			_, err = h.say(s, h.note("t", "x", func(m *core.Message) { m.Exchange, m.Topic = a.Exchange, a.Topic }))
			h.must(err)
		}
		box.want()
		_, err := s.Consume(h.ctx, sessionQueue("victim"), core.ConsumeOptions{}, h.inbox())
		h.wantError(err, core.ErrLocked)
	})
}

// The address that was granted last is not granted any more once the policy is
// another, or the client's groups are; nor is what the older groups were granted
// while they changed.
func TestLastGrantEnds(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow group:ops publish a/#", "allow group:night publish b")
		in := func(group string) auth.Principal { return auth.Principal{User: "ann", Groups: []string{group}} }
		s := h.fresh("c", func(c *core.Hello) { c.Principal = in("ops") })
		may := func(topic string) bool {
			m := core.NewMessage(1)
			tp, err := routing.ParseTopic(topic)
			h.must(err)
			m.Exchange, m.Topic = core.TopicExchange, tp
			return s.MayPublish(m) == nil
		}
		for range 3 {
			if !may("a/1") || !may("a/2") || may("b") {
				t.Fatal("the rules do not hold")
			}
		}
		h.must(s.Renew(in("night")))
		if may("a/2") || may("a/1") || !may("b") {
			t.Error("the older groups hold")
		}
		var renew sync.Once
		h.broker.SetPolicy(func(p auth.Principal, _ auth.Action, _ auth.Object) error {
			renew.Do(func() { h.must(s.Renew(in("day"))) })
			if p.Groups[0] != "night" {
				return errors.New("not at day")
			}
			return nil
		})
		if !may("c") || may("c") {
			t.Error("what was granted while the groups changed is remembered")
		}
	})
}
