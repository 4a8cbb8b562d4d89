package core_test

import (
	"errors"
	"fmt"
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

// worker is a callee that writes down what it gets and answers by act.
type worker struct {
	name string
	full bool
	deaf bool // cannot be told
	act  func(b *core.Batch, i *core.Invocation)

	mu    sync.Mutex
	got   []*core.Invocation
	ended []string
}

func (w *worker) Invoke(b *core.Batch, i *core.Invocation) bool {
	w.mu.Lock()
	if w.full {
		w.mu.Unlock()
		return false
	}
	w.got = append(w.got, i)
	w.mu.Unlock()
	if w.act != nil {
		w.act(b, i)
	}
	return true
}

func (w *worker) Ended(_ *core.Batch, _ *core.Invocation, how core.CancelMode, why error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, fmt.Sprintf("%d%v", how, errors.Is(why, core.ErrTimeout)))
	return !w.deaf
}

func (w *worker) last() *core.Invocation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got[len(w.got)-1]
}

func (w *worker) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

// echo answers with the worker's name and the payload.
func echo(name string) *worker {
	w := &worker{name: name}
	w.act = func(b *core.Batch, i *core.Invocation) {
		_ = i.Yield(b, &core.Message{Payload: []byte(name + ":" + string(i.Message().Payload))}, false)
	}
	return w
}

// answers writes down what a caller is told.
type answers struct {
	mu  sync.Mutex
	all []string
}

func (a *answers) add(_ *core.Batch, _ *core.Call, r core.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	if r.Message != nil {
		text = string(r.Message.Payload)
	}
	if r.Progress {
		text += "..."
	}
	a.all = append(a.all, strings.TrimSpace(text+" "+r.URI()))
}

func (a *answers) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.all, "|")
}

func topicOf(t *testing.T, text string) routing.Topic {
	t.Helper()
	topic, err := routing.ParseTopic(text)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func (h *house) callSpec(name, payload string, a *answers) core.CallSpec {
	return core.CallSpec{Answer: a.add, Message: &core.Message{Exchange: core.RPCExchange, Topic: topicOf(h.T, name), Payload: []byte(payload)}}
}

// call makes a call and returns what the caller was told.
func (h *house) call(s *core.Session, name, payload string) *answers {
	h.Helper()
	a := &answers{}
	_, err := s.Call(&core.Batch{}, h.callSpec(name, payload, a))
	h.must(err)
	return a
}

func (h *house) register(s *core.Session, name string, c core.Callee, edits ...func(*core.RegisterSpec)) *core.Registration {
	h.Helper()
	f, err := routing.ParseFilter(name)
	h.must(err)
	spec := core.RegisterSpec{Filter: f}
	for _, edit := range edits {
		edit(&spec)
	}
	r, err := s.Register(spec, c)
	h.must(err)
	return r
}

func invoke(p core.InvokePolicy) func(*core.RegisterSpec) {
	return func(s *core.RegisterSpec) { s.Invoke = p }
}

func idempotent(s *core.RegisterSpec) { s.Idempotent = true }

func (h *house) want(what fmt.Stringer, want string) {
	h.Helper()
	if got := what.String(); got != want {
		h.Errorf("got %q, want %q", got, want)
	}
}

func TestCall(t *testing.T) {
	bubble(t, func(h *house) {
		callee, caller := h.fresh("callee", plain), h.fresh("caller", plain)
		a := &answers{}
		_, err := caller.Call(&core.Batch{}, h.callSpec("dev/reboot", "now", a))
		h.wantError(err, core.ErrNotFound)
		r := h.register(callee, "dev/reboot", echo("w"))
		h.want(h.call(caller, "dev/reboot", "now"), "w:now")
		h.want(h.call(callee, "dev/reboot", "self"), "w:self")
		h.must(callee.Unregister(r))
		h.wantError(callee.Unregister(r), core.ErrNotFound)
		_, err = caller.Call(&core.Batch{}, h.callSpec("dev/reboot", "now", a))
		h.wantError(err, core.ErrNotFound)
		h.wantError(caller.Unregister(nil), core.ErrNotFound)
		h.want(a, "")
	})
}

// An exact name, then the longest prefix, then the nearest wildcard.
func TestCallFindsTheNearest(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("s", plain)
		prefix := func(text string) func(*core.RegisterSpec) {
			p, err := routing.URI.ParsePrefix(text)
			h.must(err)
			return func(s *core.RegisterSpec) { s.Prefix = p }
		}
		regs := map[string]*core.Registration{}
		for _, text := range []string{"a/b/c", "a/+/c", "+/b/c", "a/#", "+/#"} {
			regs[text] = h.register(s, text, echo(text))
		}
		for _, text := range []string{"a.b", "a.bx", "a.", "q"} {
			regs[text+"^"] = h.register(s, "x", echo(text+"^"), prefix(text))
		}
		for _, c := range []struct{ name, want string }{
			{"a/b/c", "a/b/c"}, {"a/b/d", "a.b^"}, {"a/bxy", "a.bx^"}, {"a/z/c", "a.^"}, {"b/b/c", "+/b/c"}, {"quick", "q^"}, {"z", "+/#"},
		} {
			h.want(h.call(s, c.name, ""), c.want+":")
		}
		h.must(s.Unregister(regs["a.^"]))
		h.want(h.call(s, "a/z/c", ""), "a/+/c:")
		h.must(s.Unregister(regs["a/+/c"]))
		h.want(h.call(s, "a/z/c", ""), "a/#:")
		if n := len(h.broker.Procedures()); n != 7 {
			t.Errorf("%d procedures", n)
		}
		p, ok := h.broker.Procedure(topicOf(t, "a/bxy"))
		if !ok || !p.IsPrefix() || p.Prefix.String() != "a.bx" || len(p.Callees) != 1 || p.Callees[0] != s.ID() {
			t.Errorf("%+v, %v", p, ok)
		}
	})
}

func TestInvokePolicies(t *testing.T) {
	for _, c := range []struct {
		policy core.InvokePolicy
		want   string
	}{{core.InvokeRoundRobin, "0 1 2 0 1 2"}, {core.InvokeFirst, "0 0 0 0 0 0"}, {core.InvokeLast, "2 2 2 2 2 2"}} {
		bubble(t, func(h *house) {
			caller := h.fresh("caller", plain)
			for i := range 3 {
				h.register(h.fresh(fmt.Sprint(i), plain), "p", echo(fmt.Sprint(i)), invoke(c.policy))
			}
			var got []string
			for range 6 {
				got = append(got, strings.TrimSuffix(h.call(caller, "p", "").String(), ":"))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%v: %s, want %s", c.policy, text, c.want)
			}
		})
	}
	bubble(t, func(h *house) {
		caller, seen := h.fresh("caller", plain), map[string]bool{}
		for i := range 3 {
			h.register(h.fresh(fmt.Sprint(i), plain), "p", echo(fmt.Sprint(i)), invoke(core.InvokeRandom))
		}
		for range 200 {
			seen[h.call(caller, "p", "").String()] = true
		}
		if len(seen) != 3 {
			t.Errorf("random chose %v", seen)
		}
	})
}

func TestRegisterConflicts(t *testing.T) {
	bubble(t, func(h *house) {
		a, b := h.fresh("a", plain), h.fresh("b", plain)
		h.register(a, "single", echo("a"))
		h.register(a, "robin", echo("a"), invoke(core.InvokeRoundRobin))
		for _, c := range []struct {
			s    *core.Session
			name string
			edit func(*core.RegisterSpec)
		}{
			{b, "single", invoke(core.InvokeSingle)}, {b, "single", invoke(core.InvokeRoundRobin)}, {a, "single", invoke(core.InvokeSingle)},
			{b, "robin", invoke(core.InvokeRandom)}, {b, "robin", invoke(core.InvokeSingle)}, {a, "robin", invoke(core.InvokeRoundRobin)},
		} {
			f, _ := routing.ParseFilter(c.name)
			spec := core.RegisterSpec{Filter: f}
			c.edit(&spec)
			_, err := c.s.Register(spec, echo("x"))
			h.wantError(err, core.ErrConflict)
		}
		h.register(b, "robin", echo("b"), func(s *core.RegisterSpec) { s.Join = true })
		_, err := a.Register(core.RegisterSpec{}, echo("a"))
		h.wantError(err, core.ErrInvalid)
		b.Close(core.CloseNormal)
		_, err = b.Register(core.RegisterSpec{Filter: topicOf(t, "x").Filter()}, echo("a"))
		h.wantError(err, core.ErrClosed)
	})
}

func TestProgress(t *testing.T) {
	bubble(t, func(h *house) {
		w := &worker{act: func(b *core.Batch, i *core.Invocation) {
			for n := range 3 {
				_ = i.Yield(b, &core.Message{Payload: []byte{'0' + byte(n)}}, true)
			}
			_ = i.Yield(b, &core.Message{Payload: []byte("end")}, false)
			if err := i.Yield(b, nil, false); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("second answer: %v", err)
			}
			if err := i.Yield(b, nil, true); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("late progress: %v", err)
			}
		}}
		h.register(h.fresh("callee", plain), "p", w)
		caller, a := h.fresh("caller", plain), &answers{}
		spec := h.callSpec("p", "", a)
		spec.Progress = true
		_, err := caller.Call(&core.Batch{}, spec)
		h.must(err)
		h.want(a, "0...|1...|2...|end")
		h.want(h.call(caller, "p", ""), "end")
	})
}

func TestCalleeErrors(t *testing.T) {
	bubble(t, func(h *house) {
		w := &worker{act: func(b *core.Batch, i *core.Invocation) {
			switch string(i.Message().Payload) {
			case "large":
				h.wantError(i.Yield(b, &core.Message{Payload: make([]byte, h.broker.MaxMessage()+1)}, false), core.ErrTooLarge)
			default:
				h.must(i.Fail(b, "com.bad", &core.Message{Payload: []byte("why")}))
			}
		}}
		h.register(h.fresh("callee", plain), "p", w)
		caller := h.fresh("caller", plain)
		h.want(h.call(caller, "p", ""), "why com.bad")
		h.want(h.call(caller, "p", "large"), "wamp.error.payload_size_exceeded")
	})
}

// Where a callee has no room the next is asked.
func TestFullCallees(t *testing.T) {
	bubble(t, func(h *house) {
		caller, first := h.fresh("caller", plain), echo("first")
		h.register(h.fresh("a", plain), "p", first, invoke(core.InvokeFirst))
		h.register(h.fresh("b", plain), "p", echo("second"), invoke(core.InvokeFirst))
		first.full = true
		h.want(h.call(caller, "p", ""), "second:")
		only := echo("only")
		only.full = true
		h.register(h.fresh("c", plain), "q", only)
		_, err := caller.Call(&core.Batch{}, h.callSpec("q", "", &answers{}))
		h.wantError(err, core.ErrFull)
	})
}

// TestCallTimeout shows fault 102.
func TestCallTimeout(t *testing.T) {
	bubble(t, func(h *house) {
		w := &worker{}
		h.register(h.fresh("callee", plain), "p", w)
		a := &answers{}
		spec := h.callSpec("p", "", a)
		spec.Timeout = time.Second
		c, err := h.fresh("caller", plain).Call(&core.Batch{}, spec)
		h.must(err)
		time.Sleep(time.Second - 1)
		synctest.Wait()
		h.want(a, "")
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		h.want(a, "wamp.error.timeout")
		if !slices.Equal(w.ended, []string{"2true"}) {
			t.Errorf("callee was told %v", w.ended)
		}
		h.wantError(w.last().Yield(&core.Batch{}, nil, false), core.ErrNotFound)
		c.Cancel(&core.Batch{}, core.CancelSkip)
		h.want(a, "wamp.error.timeout")
	})
}

// TestCancel shows fault 102.
func TestCancel(t *testing.T) {
	for _, c := range []struct {
		how       core.CancelMode
		deaf      bool
		now, then string // what the caller is told at once, and after the callee's answer
		ended     string
	}{
		{core.CancelSkip, false, "wamp.error.canceled", "wamp.error.canceled", "0false"},
		{core.CancelKillNoWait, false, "wamp.error.canceled", "wamp.error.canceled", "2false"},
		{core.CancelKill, false, "", "late", "1false"},
		{core.CancelKill, true, "wamp.error.canceled", "wamp.error.canceled", "1false 0false"},
	} {
		bubble(t, func(h *house) {
			w, a, b := &worker{deaf: c.deaf}, &answers{}, &core.Batch{}
			h.register(h.fresh("callee", plain), "p", w)
			call, err := h.fresh("caller", plain).Call(b, h.callSpec("p", "", a))
			h.must(err)
			call.Cancel(b, c.how)
			call.Cancel(b, c.how)
			h.want(a, c.now)
			_ = w.last().Yield(b, &core.Message{Payload: []byte("late")}, false)
			h.want(a, c.then)
			if got := strings.Join(w.ended, " "); got != c.ended {
				t.Errorf("%v: callee was told %s, want %s", c.how, got, c.ended)
			}
		})
	}
}

func TestCallerGoes(t *testing.T) {
	bubble(t, func(h *house) {
		w, a := &worker{}, &answers{}
		h.register(h.fresh("callee", plain), "p", w)
		caller := h.fresh("caller", plain)
		for range 3 {
			_, err := caller.Call(&core.Batch{}, h.callSpec("p", "", a))
			h.must(err)
		}
		caller.Close(core.CloseLost)
		if got := strings.Join(w.ended, " "); got != "2false 2false 2false" {
			t.Errorf("callee was told %s", got)
		}
		h.wantError(w.last().Yield(&core.Batch{}, nil, false), core.ErrNotFound)
		h.want(a, "")
		_, err := caller.Call(&core.Batch{}, h.callSpec("p", "", a))
		h.wantError(err, core.ErrClosed)
	})
}

// Calls of a lost callee fail; idempotent ones are made again, at most 3 times.
// It shows faults 78 and 102.
func TestCalleeGoes(t *testing.T) {
	bubble(t, func(h *house) {
		caller := h.fresh("caller", plain)
		for _, c := range []struct {
			name    string
			edits   []func(*core.RegisterSpec)
			callees int
			want    string
			tries   int
		}{
			{"once", []func(*core.RegisterSpec){invoke(core.InvokeFirst)}, 5, "wamp.error.canceled", 1},
			{"again", []func(*core.RegisterSpec){invoke(core.InvokeFirst), idempotent}, 5, "wamp.error.canceled", 3},
			{"alone", []func(*core.RegisterSpec){idempotent}, 1, "wamp.error.canceled", 1},
		} {
			var sessions []*core.Session
			var workers []*worker
			for i := range c.callees {
				s, w := h.fresh(fmt.Sprint(c.name, i), plain), &worker{}
				h.register(s, c.name, w, c.edits...)
				sessions, workers = append(sessions, s), append(workers, w)
			}
			a := h.call(caller, c.name, "")
			for _, s := range sessions {
				s.Close(core.CloseLost)
			}
			h.want(a, c.want)
			tries := 0
			for _, w := range workers {
				tries += w.count()
			}
			if tries != c.tries {
				t.Errorf("%s: %d tries, want %d", c.name, tries, c.tries)
			}
		}
		if n := len(h.broker.Procedures()); n != 0 {
			t.Errorf("%d procedures left", n)
		}
	})
}

// The next callee answers what the lost one did not.
// It shows fault 78.
func TestCallIsMadeAgain(t *testing.T) {
	bubble(t, func(h *house) {
		caller, lost, w := h.fresh("caller", plain), h.fresh("lost", plain), &worker{}
		h.register(lost, "p", w, invoke(core.InvokeFirst), idempotent)
		h.register(h.fresh("next", plain), "p", echo("next"), invoke(core.InvokeFirst), idempotent)
		a := h.call(caller, "p", "x")
		lost.Close(core.CloseLost)
		h.want(a, "next:x")
		h.wantError(w.last().Yield(&core.Batch{}, nil, false), core.ErrNotFound)
	})
}

func TestWatchProcedures(t *testing.T) {
	bubble(t, func(h *house) {
		var seen []string
		h.broker.WatchProcedures(func(p core.Procedure, by core.SessionID, added, edge bool) {
			seen = append(seen, fmt.Sprintln(p.Filter, by, added, edge, len(p.Callees)))
		})
		a, b := h.fresh("a", plain), h.fresh("b", plain)
		h.register(a, "p", echo("a"), invoke(core.InvokeRandom))
		r := h.register(b, "p", echo("b"), invoke(core.InvokeRandom))
		h.must(b.Unregister(r))
		a.Close(core.CloseNormal)
		want := []string{
			fmt.Sprintln("p", a.ID(), true, true, 1), fmt.Sprintln("p", b.ID(), true, false, 2),
			fmt.Sprintln("p", b.ID(), false, false, 1), fmt.Sprintln("p", a.ID(), false, true, 0),
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%v, want %v", seen, want)
		}
	})
}

// TestCallRights shows fault 51.
func TestCallRights(t *testing.T) {
	policy := func(who auth.Principal, a auth.Action, o auth.Object) error {
		if o.Kind == auth.Procedure && strings.HasPrefix(o.Name, "no/") || o.Name == "private" {
			return errors.New(a.String())
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		h := houseOn(t, local.New(quiet()), core.DefaultConfig(), policy)
		s := h.fresh("s", plain)
		_, err := s.Register(core.RegisterSpec{Filter: topicOf(t, "no/p").Filter()}, echo("x"))
		h.wantError(err, core.ErrNotAllowed)
		h.register(s, "yes", echo("x"))
		_, err = s.Call(&core.Batch{}, h.callSpec("no/p", "", &answers{}))
		h.wantError(err, core.ErrNotAllowed)
		h.want(h.call(s, "yes", ""), "x:")
		// Who asks must be allowed to receive where the answer goes.
		m := &core.Message{Exchange: core.RPCExchange, Topic: topicOf(t, "yes"),
			Props: &core.Properties{ReplyTo: core.Address{Exchange: core.TopicExchange, Topic: topicOf(t, "private")}}}
		s.Publish(nil, m, func(routed bool, err error) { h.wantError(err, core.ErrNotAllowed) })
	})
}

// Calls race with the loss of their callees and with time-outs; each gets one
// answer.
// It shows fault 102.
func TestEachCallHasOneEnd(t *testing.T) {
	bubble(t, func(h *house) {
		caller := h.fresh("caller", plain)
		const calls = 1000
		var told [calls]int
		var mu sync.Mutex
		for n := range calls {
			s := h.fresh(fmt.Sprint("callee", n), plain)
			w := &worker{}
			h.register(s, fmt.Sprint("p", n), w)
			spec := h.callSpec(fmt.Sprint("p", n), "", nil)
			spec.Timeout = time.Duration(1+n%3) * time.Millisecond
			spec.Answer = func(*core.Batch, *core.Call, core.Reply) {
				mu.Lock()
				told[n]++
				mu.Unlock()
			}
			_, err := caller.Call(&core.Batch{}, spec)
			h.must(err)
			go func() {
				time.Sleep(2 * time.Millisecond)
				if n%2 == 0 {
					s.Close(core.CloseLost)
				} else {
					_ = w.last().Yield(&core.Batch{}, nil, false)
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for n := range told {
			if told[n] != 1 {
				t.Fatalf("call %d had %d ends", n, told[n])
			}
		}
	})
}
