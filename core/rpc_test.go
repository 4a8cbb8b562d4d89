package core_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// mailbox is a queue of a session's own that is consumed.
func (h *house) mailbox(s *core.Session, name string) *inbox {
	h.Helper()
	_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named(name), Exclusive: true})
	h.must(err)
	in := h.inbox()
	_, err = s.Consume(h.ctx, core.Named(name), core.ConsumeOptions{NoAck: true}, in)
	h.must(err)
	return in
}

// serve makes the queue a callee.
func (h *house) serve(s *core.Session, queue, procedure string, args ...routing.Header) core.BindSpec {
	h.Helper()
	f, err := routing.ParseFilter(procedure)
	h.must(err)
	b := core.BindSpec{Source: core.RPCExchange, Queue: core.Named(queue), Filter: f, Args: args}
	h.must(s.Bind(h.ctx, b))
	return b
}

// ask publishes a call whose answer goes to a queue.
func (h *house) ask(s *core.Session, procedure, payload, queue string, edits ...func(*core.Properties)) (routed bool, err error) {
	h.Helper()
	a, e := core.QueueAddress(queue)
	h.must(e)
	p := &core.Properties{ReplyTo: a, Correlation: []byte("c1")}
	for _, edit := range edits {
		edit(p)
	}
	s.Publish(nil, &core.Message{Exchange: core.RPCExchange, Topic: topicOf(h.T, procedure), Payload: []byte(payload), Props: p},
		func(r bool, e error) { routed, err = r, e })
	return routed, err
}

func (h *house) one(in *inbox) core.Delivery {
	h.Helper()
	synctest.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.got) != 1 {
		h.Fatalf("%d deliveries, want 1", len(in.got))
	}
	d := in.got[0]
	in.got = nil
	return d
}

func (h *house) none(in *inbox) {
	h.Helper()
	synctest.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.got) != 0 {
		h.Fatalf("%d deliveries, want none", len(in.got))
	}
}

// reply answers a delivery as a client does that knows only its reply address.
func (h *house) reply(s *core.Session, d core.Delivery, payload string, headers ...routing.Header) (routed bool) {
	h.Helper()
	to := d.Props.ReplyTo
	s.Publish(nil, &core.Message{Exchange: to.Exchange, Topic: to.Topic, Payload: []byte(payload),
		Props: &core.Properties{ContentType: "text/plain", Headers: headers, Correlation: []byte("mine")}},
		func(r bool, err error) {
			h.must(err)
			routed = r
		})
	return routed
}

func errorOf(d core.Delivery) string {
	v, _ := d.Props.Headers.Get("x-error")
	return fmt.Sprint(v)
}

func TestCallByMessages(t *testing.T) {
	bubble(t, func(h *house) {
		callee, caller, thief := h.fresh("callee", plain), h.fresh("caller", plain), h.fresh("thief", plain)
		work, answers := h.mailbox(callee, "work"), h.mailbox(caller, "answers")
		bound := h.serve(callee, "work", "dev/reboot")
		h.must(callee.Bind(h.ctx, bound)) // again is no fault
		routed, err := h.ask(caller, "dev/reboot", "now", "answers")
		h.must(err)
		d := h.one(work)
		if a := d.Address(); !routed || a.Exchange != core.RPCExchange || a.Topic.String() != "dev/reboot" || string(d.Payload) != "now" {
			t.Fatalf("routed %v, callee got %v %q", routed, a, d.Payload)
		}
		if d.Props.ReplyTo.Topic.String() == "answers" {
			t.Error("the callee got the caller's own reply address")
		}
		if h.reply(thief, d, "forged") {
			t.Error("an answer of another session counted")
		}
		h.none(answers)
		if !h.reply(callee, d, "done") {
			t.Error("the answer did not count")
		}
		a := h.one(answers)
		if string(a.Payload) != "done" || string(a.Props.Correlation) != "c1" || a.Props.ContentType != "text/plain" || a.Origin != callee.Origin() {
			t.Errorf("answer %q %+v", a.Payload, a.Props)
		}
		if h.reply(callee, d, "twice") {
			t.Error("a second answer counted")
		}
		h.none(answers)
		h.must(callee.Unbind(h.ctx, bound))
		h.wantError(callee.Unbind(h.ctx, bound), core.ErrNotFound)
		routed, err = h.ask(caller, "dev/reboot", "now", "answers")
		h.must(err)
		if a := h.one(answers); routed || errorOf(a) != "wamp.error.no_such_procedure" {
			t.Errorf("routed %v, answer %+v", routed, a.Props)
		}
	})
}

func TestCallByMessageEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(h *house, callee *core.Session, d core.Delivery)
		want string
	}{
		{"error", func(h *house, callee *core.Session, d core.Delivery) {
			h.reply(callee, d, "why", routing.Header{Name: "X-Error", Value: "com.bad"})
		}, "com.bad"},
		{"callee gone", func(_ *house, callee *core.Session, _ core.Delivery) { callee.Close(core.CloseLost) }, "wamp.error.canceled"},
		{"timeout", func(*house, *core.Session, core.Delivery) { time.Sleep(time.Minute + 1) }, "wamp.error.timeout"},
	} {
		bubble(t, func(h *house) {
			callee, caller := h.fresh("callee", plain), h.fresh("caller", plain)
			work, answers := h.mailbox(callee, "work"), h.mailbox(caller, "answers")
			h.serve(callee, "work", "p/+")
			_, err := h.ask(caller, "p/x", "", "answers")
			h.must(err)
			d := h.one(work)
			c.end(h, callee, d)
			if a := h.one(answers); errorOf(a) != c.want || string(a.Props.Correlation) != "c1" {
				t.Errorf("%s: answer %q %+v", c.name, a.Payload, a.Props)
			}
			if c.name != "callee gone" && h.reply(callee, d, "late") {
				t.Errorf("%s: a late answer counted", c.name)
			}
			h.none(answers)
		})
	}
}

// A message's expiry is its call's deadline, and the callee is told what is left.
func TestCallDeadlineByMessage(t *testing.T) {
	bubble(t, func(h *house) {
		callee, caller := h.fresh("callee", plain), h.fresh("caller", plain)
		work, answers := h.mailbox(callee, "work"), h.mailbox(caller, "answers")
		h.serve(callee, "work", "p")
		_, err := h.ask(caller, "p", "", "answers", func(p *core.Properties) { p.HasTTL, p.TTL = true, 3*time.Second })
		h.must(err)
		if d := h.one(work); !d.Props.HasTTL || d.Props.TTL != 3*time.Second {
			t.Errorf("callee was told %+v", d.Props)
		}
		time.Sleep(3*time.Second - 1)
		h.none(answers)
		time.Sleep(2 * time.Nanosecond)
		if a := h.one(answers); errorOf(a) != "wamp.error.timeout" {
			t.Errorf("answer %+v", a.Props)
		}
	})
}

// Messages call verbs' callees, and verbs call queues.
func TestVerbsAndMessages(t *testing.T) {
	bubble(t, func(h *house) {
		callee, caller := h.fresh("callee", plain), h.fresh("caller", plain)
		work, answers := h.mailbox(callee, "work"), h.mailbox(caller, "answers")
		h.register(callee, "verb", echo("v"))
		h.serve(callee, "work", "message", routing.Header{Name: "x-idempotent", Value: true})
		_, err := h.ask(caller, "verb", "1", "answers")
		h.must(err)
		if a := h.one(answers); string(a.Payload) != "v:1" || string(a.Props.Correlation) != "c1" {
			t.Errorf("answer %q %+v", a.Payload, a.Props)
		}
		a := h.call(caller, "message", "2")
		h.reply(callee, h.one(work), "two")
		h.want(a, "two")
		// Nobody asked for an answer.
		caller.Publish(nil, &core.Message{Exchange: core.RPCExchange, Topic: topicOf(t, "verb")}, func(routed bool, err error) {
			if !routed || err != nil {
				t.Errorf("routed %v, %v", routed, err)
			}
		})
	})
}

// A transaction's calls are made when the rest is done.
func TestCallInATransaction(t *testing.T) {
	bubble(t, func(h *house) {
		callee, caller := h.fresh("callee", plain), h.fresh("caller", plain)
		work, answers := h.mailbox(callee, "work"), h.mailbox(caller, "answers")
		h.serve(callee, "work", "p")
		to, _ := core.QueueAddress("answers")
		calling := core.Op{Message: &core.Message{Exchange: core.RPCExchange, Topic: topicOf(t, "p"), Props: &core.Properties{ReplyTo: to}}}
		plain := core.Op{Message: &core.Message{Topic: to.Topic, Payload: []byte("first")}}
		caller.Apply(nil, []core.Op{calling, plain}, func(routed bool, err error) {
			if !routed || err != nil {
				t.Errorf("routed %v, %v", routed, err)
			}
		})
		if d := h.one(answers); string(d.Payload) != "first" {
			t.Errorf("got %q", d.Payload)
		}
		h.reply(callee, h.one(work), "second")
		if d := h.one(answers); string(d.Payload) != "second" {
			t.Errorf("got %q", d.Payload)
		}
		bad := core.Op{Message: &core.Message{Exchange: "none", Topic: to.Topic}}
		caller.Apply(nil, []core.Op{calling, bad}, func(_ bool, err error) { h.wantError(err, core.ErrNotFound) })
		h.none(work)
	})
}

// TestReplyAddressesRefused shows fault 101.
func TestReplyAddressesRefused(t *testing.T) {
	bubble(t, func(h *house) {
		caller := h.fresh("caller", plain)
		h.register(caller, "p", echo("x"))
		for _, a := range []core.Address{{Exchange: core.RPCExchange, Topic: topicOf(t, "p")}, {Exchange: "amq.direct", Topic: topicOf(t, "k")}} {
			_, err := h.ask(caller, "p", "", "q", func(p *core.Properties) { p.ReplyTo = a })
			h.wantError(err, core.ErrNotAllowed)
		}
		h.must(caller.DeclareExchange(h.ctx, core.ExchangeSpec{Name: core.RPCExchange, Passive: true}))
		h.wantError(caller.DeclareExchange(h.ctx, core.ExchangeSpec{Name: core.RPCExchange, Kind: routing.Direct}), core.ErrNotAllowed)
		h.wantError(caller.DeleteExchange(h.ctx, core.RPCExchange, false), core.ErrNotAllowed)
		err := caller.Bind(h.ctx, core.BindSpec{Source: core.RPCExchange, Exchange: "amq.topic", Filter: topicOf(t, "p").Filter()})
		h.wantError(err, core.ErrUnsupported)
	})
}
