package enginetest

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

func delayTests() []test {
	return []test{
		{"delay: routed when its time has come, not before", delayed},
		{"delay: by due time, and the same due time as published", delayedOrder},
		{"delay: one that is due already", delayedOver},
		{"delay: the bindings of then count", delayedRouting},
		{"delay: no such exchange now, and none any more then", delayedExchange},
		{"delay: a TTL begins when its time has come", delayedTTL},
		{"delay: a full queue is tried again", delayedFull},
		{"delay: with other steps of an Apply, all or none", delayedApply},
		{"delay: list, page by page", delayedList},
		{"delay: cancel", delayedCancel},
		{"delay: fire now", delayedFire},
		{"delay: x-delayed-message shows the delay, negative", delayedMarked},
		{"fault 83: many due at once come in order, each once", delayedMany},
	}
}

// after stamps as Session.Publish does.
func after(d time.Duration) func(*core.Message) {
	return func(m *core.Message) {
		if m.Props == nil {
			m.Props = &core.Properties{}
		}
		m.Props.Delay, m.Props.Due = d, time.Now().Add(d)
	}
}

// later publishes one with a delay; the case is skipped where there is none.
func (r *rig) later(to, text string, d time.Duration, edits ...func(*core.Message)) {
	r.Helper()
	_, err := r.publish(r.message("", to, text, append(edits, after(d), durable)...))
	if errors.Is(err, core.ErrUnsupported) {
		r.Skipf("not supported: %v", err)
	}
	r.must(err)
}

func (r *rig) wantDelayed(n int) {
	r.Helper()
	synctest.Wait()
	if got := r.engine.Stats().Delayed; got != n {
		r.Fatalf("%d wait for their time, want %d", got, n)
	}
}

func durableQueue(s *core.QueueSpec) { s.Durable = true }

func delayed(r *rig) {
	k := r.queue("q", durableQueue)
	r.later("q", "m", time.Minute)
	r.wantDelayed(1)
	pass(time.Minute - time.Millisecond)
	r.wantInfo(k, 0, 0, 0)
	pass(time.Millisecond)
	r.wantDelayed(0)
	p := r.settling()
	r.consume(k, p)
	d := p.want("m")[0]
	if !d.Props.Due.IsZero() || d.Props.Delay != 0 || d.Topic.String() != "q" || d.Guarantee != core.Durable {
		r.Fatalf("%+v %+v", d.Message, d.Props)
	}
	r.later("q", "n", time.Second)
	r.sendOne(r.message("", "q", "light", after(500*time.Millisecond))) // not durable
	pass(time.Second)
	p.want("light", "n")
}

func delayedOrder(r *rig) {
	k := r.queue("q", durableQueue)
	for n, d := range []time.Duration{5, 1, 3, 1, 5, 2, 1} {
		r.later("q", fmt.Sprint(n), d*time.Second)
	}
	p := r.settling()
	r.consume(k, p)
	for _, want := range [][]string{{"1", "3", "6"}, {"5"}, {"2"}, {}, {"0", "4"}} {
		pass(time.Second)
		p.want(want...)
	}
}

func delayedOver(r *rig) {
	k := r.queue("q", durableQueue)
	r.later("q", "m", -time.Hour)
	pass(time.Millisecond)
	r.drain(k, "m")
	r.wantDelayed(0)
}

func delayedRouting(r *rig) {
	k, other := r.queue("q"), r.queue("other")
	r.bind(core.TopicExchange, "a", k)
	_, err := r.publish(r.message(core.TopicExchange, "a", "m", after(time.Minute)))
	r.must(err)
	_, err = r.publish(r.message(core.TopicExchange, "nobody", "n", after(time.Minute)))
	r.must(err)
	r.unbind(core.TopicExchange, "a", k)
	r.bind(core.TopicExchange, "a", other)
	before := r.engine.Stats().Unroutable
	pass(time.Minute)
	r.wantInfo(k, 0, 0, 0)
	r.drain(other, "m")
	if n := r.engine.Stats().Unroutable - before; n != 1 {
		r.Fatalf("%d were unroutable", n)
	}
}

func delayedExchange(r *rig) {
	_, err := r.publish(r.message("nowhere", "a", "m", after(time.Minute)))
	r.wantError(err, core.ErrNotFound)
	r.exchange("x", routing.Fanout)
	_, err = r.publish(r.message("x", "a", "m", after(time.Minute)))
	r.must(err)
	r.must(r.engine.DeleteExchange(r.ctx, "x", false))
	pass(time.Minute)
	r.wantDelayed(0)
	r.exchange("inner", routing.Fanout, func(s *core.ExchangeSpec) { s.Internal = true })
	_, err = r.publish(r.message("inner", "a", "m", after(time.Minute)))
	r.wantError(err, core.ErrNotAllowed)
}

func delayedTTL(r *rig) {
	k := r.queue("q", durableQueue)
	r.later("q", "m", time.Minute, ttl(time.Second))
	pass(time.Minute + 999*time.Millisecond)
	r.wantInfo(k, 1, 0, 1)
	pass(time.Millisecond)
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropExpired, 1)
}

func delayedFull(r *rig) {
	k, free := r.queue("q", durableQueue, length(1, core.RejectPublish)), r.queue("free", durableQueue)
	for _, text := range []string{"1", "2"} {
		r.later("q", text, time.Second)
	}
	r.later("free", "3", time.Second)
	pass(time.Minute)
	r.wantInfo(k, 1, 0, 1)
	r.drain(free, "3")
	r.wantDelayed(1)
	r.drain(k, "1")
	pass(2 * time.Second)
	r.drain(k, "2")
	r.wantDelayed(0)
}

func delayedApply(r *rig) {
	in, out := r.queue("in", durableQueue), r.queue("out", durableQueue)
	p := r.probe()
	c := r.consume(in, p)
	r.sendOne(r.message("", "in", "1", durable))
	d := p.want("1")[0]
	later := core.Op{Message: r.message("", "out", "2", after(time.Second), durable)}
	_, err := r.apply(later, r.publication("nowhere", "a", "x"))
	r.wantError(err, core.ErrNotFound)
	r.wantDelayed(0)
	_, err = r.apply(settlement(c, core.Ack, d), later, r.publication("", "out", "3"))
	r.must(err)
	r.wantInfo(in, 0, 0, 0)
	r.drain(out, "3")
	pass(time.Second)
	r.drain(out, "2")
}

// delays skips the case where the engine shows none.
func (r *rig) delays() core.Delays {
	r.Helper()
	d, ok := r.engine.(core.Delays)
	if !ok {
		r.Skip("the engine does not show what waits for its time")
	}
	return d
}

func (r *rig) wantList(after string, n int, want ...string) []core.Delayed {
	r.Helper()
	list, err := r.delays().Delayed(after, n)
	r.must(err)
	var got []string
	for _, d := range list {
		got = append(got, string(d.Payload))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Fatalf("list %v, want %v", got, want)
	}
	return list
}

func delayedList(r *rig) {
	r.queue("q", durableQueue)
	start := time.Now()
	for n := range 5 {
		r.later("q", fmt.Sprint(n), time.Duration(10-n)*time.Second)
	}
	page := r.wantList("", 2, "4", "3")
	if d := page[0].Due.Sub(start); d != 6*time.Second || page[0].Topic.String() != "q" {
		r.Fatalf("due after %v, to %q", d, page[0].Topic)
	}
	r.wantList(page[1].ID, 10, "2", "1", "0")
	r.wantList("ffff", 10)
	pass(time.Minute)
	r.wantList("", 10)
}

func delayedCancel(r *rig) {
	k := r.queue("q", durableQueue)
	for _, text := range []string{"1", "2", "3"} {
		r.later("q", text, time.Minute)
	}
	list := r.wantList("", 9, "1", "2", "3")
	r.must(r.delays().CancelDelayed(list[1].ID))
	r.wantError(r.delays().CancelDelayed(list[1].ID), core.ErrNotFound)
	r.wantError(r.delays().CancelDelayed("nonsense"), core.ErrNotFound)
	r.wantList("", 9, "1", "3")
	r.wantDelayed(2)
	pass(time.Minute)
	r.drain(k, "1", "3")
	r.wantError(r.delays().CancelDelayed(list[0].ID), core.ErrNotFound)
}

func delayedFire(r *rig) {
	k := r.queue("q", durableQueue, length(1, core.RejectPublish))
	for _, text := range []string{"1", "2", "3"} {
		r.later("q", text, time.Minute)
	}
	list := r.wantList("", 9, "1", "2", "3")
	r.must(r.delays().FireDelayed(list[2].ID))
	r.wantInfo(k, 1, 0, 1)
	r.wantError(r.delays().FireDelayed(list[0].ID), core.ErrFull)
	r.wantList("", 9, "1", "2")
	r.wantError(r.delays().FireDelayed(list[2].ID), core.ErrNotFound)
	r.drain(k, "3")
	pass(time.Minute)
	r.drain(k, "1")
	pass(2 * time.Second)
	r.drain(k, "2")
}

func delayedMarked(r *rig) {
	r.exchange("x", routing.Fanout, func(s *core.ExchangeSpec) { s.Delayed = true })
	k := r.queue("q", durableQueue)
	r.bind("x", "", k)
	r.sendOne(r.message("x", "a", "now"))
	_, err := r.publish(r.message("x", "a", "m", durable, headers(routing.Header{Name: "k", Value: "v"}), after(1500*time.Millisecond)))
	r.must(err)
	pass(2 * time.Second)
	p := r.settling()
	r.consume(k, p)
	d := p.want("now", "m")[1]
	r.wantHeader(d, "x-delay", int64(-1500))
	r.wantHeader(d, "k", "v")
}

func delayedMany(r *rig) {
	k := r.queue("q", durableQueue)
	const n = 1000
	var want []string
	for at := range n {
		text := fmt.Sprintf("%04d", at)
		want = append(want, text)
		r.engine.Publish(r.batch, r.message("", "q", text, after(time.Minute), durable), nil)
	}
	r.wantDelayed(n)
	pass(time.Minute)
	r.wantInfo(k, n, 0, 4*n)
	r.drain(k, want...)
	r.wantDelayed(0)
}
