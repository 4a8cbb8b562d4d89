package enginetest

import (
	"errors"
	"slices"
	"time"

	"entrepot/core"
)

func matchedTests() []test {
	return []test{
		{"Matched: the values of all bindings that matched", matchedValues},
		{"Matched: binding again replaces the value", matchedReplaced},
		{"Matched: nothing where bindings have no value", matchedNothing},
		{"Matched: a replay has its binding's value", matchedReplay},
	}
}

// wantMatched skips the case when the engine keeps no values.
func (r *rig) wantMatched(d core.Delivery, want ...string) {
	r.Helper()
	if d.Matched == nil && len(want) > 0 {
		r.Skip("the engine keeps no matched values")
	}
	var got []string
	for _, v := range d.Matched {
		got = append(got, v.(string))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		r.Fatalf("matched %q, want %q", got, want)
	}
}

func matchedValues(r *rig) {
	k, other := r.queue("q"), r.queue("other")
	r.bind(core.TopicExchange, "a/#", k, value("1"))
	r.bind(core.TopicExchange, "a/+", k, value("2"))
	r.bind(core.TopicExchange, "a/b", k)
	r.bind(core.TopicExchange, "+/b", k, value("3"))
	r.bind(core.TopicExchange, "a/b", other, value("4"))
	p, q := r.settling(), r.settling()
	r.consume(k, p)
	r.consume(other, q)
	for range 2 { // the second time it is remembered
		r.send(core.TopicExchange, "a/b", "m")
		r.send(core.TopicExchange, "a/c", "m")
		got := p.want("m", "m")
		r.wantMatched(got[0], "1", "2", "3")
		r.wantMatched(got[1], "1", "2")
		r.wantMatched(q.want("m")[0], "4")
	}
}

func matchedReplaced(r *rig) {
	k := r.queue("q")
	p := r.settling()
	r.consume(k, p)
	for _, v := range []string{"1", "2"} {
		r.bind(core.TopicExchange, "a", k, value(v))
		r.send(core.TopicExchange, "a", "m")
		r.wantMatched(p.want("m")[0], v)
	}
}

func matchedNothing(r *rig) {
	k := r.queue("q")
	r.bind(core.TopicExchange, "a", k)
	p := r.settling()
	r.consume(k, p)
	r.send(core.TopicExchange, "a", "m")
	r.send("", "q", "m")
	for _, d := range p.want("m", "m") {
		r.wantMatched(d)
	}
}

func matchedReplay(r *rig) {
	s := r.subscription(value("v"))
	p := r.settling()
	r.consume(s.Queue, p)
	r.must(r.engine.Replay(r.ctx, s, r.snapshot("r", 1).next))
	r.wantMatched(p.want("r0")[0], "v")
	s.Value = nil
	r.must(r.engine.Replay(r.ctx, s, r.snapshot("r", 1).next))
	r.wantMatched(p.want("r0")[0])
}

func allOrNoneTests() []test {
	return []test{
		{"a refused message is in none of its queues", refusedByOne},
		{"an Apply that one queue refuses does nothing", applyRefused},
		{"an Apply counts its own messages against the limit", applyCountsOwn},
		{"a refused Apply gives its room back", applyRoomBack},
	}
}

// wantFull skips the case when the engine cannot do all or none.
func (r *rig) wantFull(err error) {
	r.Helper()
	if errors.Is(err, core.ErrUnsupported) {
		r.Skipf("not supported: %v", err)
	}
	r.wantError(err, core.ErrFull)
}

func refusedByOne(r *rig) {
	a, b, c := r.queue("a"), r.queue("b", length(1, core.RejectPublish)), r.queue("c", length(5, core.RejectPublish))
	for _, k := range []core.QueueKey{a, b, c} {
		r.bind("amq.fanout", "", k)
	}
	r.send("amq.fanout", "t", "1")
	_, err := r.publish(r.message("amq.fanout", "t", "2"))
	r.wantFull(err)
	for _, k := range []core.QueueKey{a, b, c} {
		r.wantInfo(k, 1, 0, 1)
	}
	r.drain(b, "1")
	r.send("amq.fanout", "t", "3")
	r.wantInfo(a, 2, 0, 2)
}

func applyRefused(r *rig) {
	in, out := r.queue("in"), r.queue("out", length(1, core.RejectPublish))
	p := r.probe()
	c := r.consume(in, p)
	r.send("", "in", "1")
	r.send("", "out", "x")
	got := p.want("1")
	_, err := r.apply(settlement(c, core.Ack, got[0]), r.publication("", "in", "2"), r.publication("", "out", "y"))
	r.wantFull(err)
	r.wantInfo(in, 0, 1, 1)
	p.want()
	r.drain(out, "x")
	_, err = r.apply(settlement(c, core.Ack, got[0]), r.publication("", "out", "y"))
	r.must(err)
}

func applyCountsOwn(r *rig) {
	k := r.queue("q", args(core.QueueArgs{MaxLength: 3, HasMaxLength: true, MaxBytes: 5, HasMaxBytes: true, Overflow: core.RejectPublish}))
	m := func(payload string) core.Op { return r.publication("", "q", payload) }
	_, err := r.apply(m("1"), m("2"), m("3"), m("4"))
	r.wantFull(err)
	_, err = r.apply(m("333"), m("333"))
	r.wantFull(err)
	r.wantInfo(k, 0, 0, 0)
	_, err = r.apply(m("1"), m("22"), m("33"))
	r.must(err)
	r.drain(k, "1", "22", "33")
}

func applyRoomBack(r *rig) {
	k := r.queue("q", length(2, core.RejectPublish))
	for range 5 {
		_, err := r.apply(r.publication("", "q", "1"), r.publication("", "q", "2"), r.publication("nowhere", "a", "3"))
		r.wantError(err, core.ErrNotFound)
	}
	r.send("", "q", "1", "2")
	r.wantInfo(k, 2, 0, 2)
}

func priorityTests() []test {
	return []test{{"consumers of a higher priority first, in turn", consumerPriority}}
}

func consumerPriority(r *rig) {
	k := r.queue("q")
	of := func(n int) func(*core.ConsumeOptions) { return func(o *core.ConsumeOptions) { o.Priority = n } }
	low, a, b := r.probe(), r.taking(2), r.taking(2)
	r.consume(k, low, of(-1))
	ca := r.consume(k, a, of(5))
	r.consume(k, b, of(5))
	r.send("", "q", "1", "2", "3", "4", "5", "6")
	got := append(a.take(), b.take()...)
	if len(got) == 0 {
		r.Skip("the engine knows no priorities of consumers")
	}
	if len(got) != 4 {
		r.Fatalf("the first four went %d times to the higher priority", len(got))
	}
	low.want("5", "6")
	a.more(-1)
	ca.Resume(nil)
	r.send("", "q", "7", "8")
	a.want("7", "8")
	ca.Cancel(core.Requeue)
	low.take()
	r.send("", "q", "9")
	low.want("9")
}

func behindTests() []test {
	return []test{{"a TTL that is over behind a longer one: not handed over", expiredBehind}}
}

func expiredBehind(r *rig) {
	k := r.queue("q")
	r.sendOne(r.message("", "q", "1", ttl(time.Hour)))
	r.sendOne(r.message("", "q", "2", ttl(time.Second)))
	r.send("", "q", "3")
	pass(time.Minute)
	r.drain(k, "1", "3")
	r.wantDropped(core.DropExpired, 1)
}
