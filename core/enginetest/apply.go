package enginetest

import (
	"slices"
	"testing/synctest"

	"entrepot/core"
)

func applyTests() []test {
	return []test{
		{"Apply publishes and settles", applyAll},
		{"Apply keeps the order of its publishes", applyOrder},
		{"Apply with a settlement that is not held does nothing", applyUnknown},
		{"Apply settles what went with its queue, and does the rest", applyDeleted},
		{"Apply to an exchange that is not there does nothing", applyNowhere},
		{"Apply tells when a message is unroutable", applyUnroutable},
		{"Apply tells which messages are unroutable, and only when it does the rest", applyUnrouted},
		{"Apply settles a delivery whose Deliver has not returned", applyQuick},
		{"Apply with what is no settlement", applyInvalid},
		{"an empty Apply is done", applyNothing},
		{"what Apply gives back goes to its place", applyReturns},
	}
}

func settlement(c core.Consumer, o core.Outcome, d core.Delivery) core.Op {
	return core.Op{Consumer: c, Seq: d.Seq, Outcome: o}
}

func (r *rig) publication(exchange, topic, payload string) core.Op {
	r.Helper()
	return core.Op{Message: r.message(exchange, topic, payload)}
}

func applyAll(r *rig) {
	in, out := r.queue("in"), r.queue("out")
	p := r.probe()
	c := r.consume(in, p)
	r.send("", "in", "1", "2")
	got := p.want("1", "2")
	routed, err := r.apply(settlement(c, core.Ack, got[0]), r.publication("", "out", "a"), settlement(c, core.Reject, got[1]))
	r.must(err)
	if !routed {
		r.Fatal("not routed")
	}
	r.wantInfo(in, 0, 0, 0)
	r.wantInfo(out, 1, 0, 1)
	r.wantDropped(core.DropRejected, 1)
}

func applyOrder(r *rig) {
	a, b := r.queue("a"), r.queue("b")
	pa, pb := r.settling(), r.settling()
	r.consume(a, pa)
	r.consume(b, pb)
	_, err := r.apply(r.publication("", "a", "1"), r.publication("", "b", "2"), r.publication("", "a", "3"), r.publication("", "b", "4"))
	r.must(err)
	pa.want("1", "3")
	pb.want("2", "4")
}

func applyUnknown(r *rig) {
	in, out := r.queue("in"), r.queue("out")
	p := r.taking(2)
	c := r.consume(in, p)
	r.send("", "in", "1", "2", "3")
	got := p.want("1", "2")
	unknown := core.Op{Consumer: c, Seq: 999, Outcome: core.Ack}
	for _, ops := range [][]core.Op{
		{settlement(c, core.Ack, got[0]), r.publication("", "out", "a"), unknown},
		{settlement(c, core.Requeue, got[0]), settlement(c, core.Ack, got[0])},
	} {
		_, err := r.apply(ops...)
		r.wantError(err, core.ErrNotFound)
		r.wantInfo(in, 1, 2, 3)
		r.wantInfo(out, 0, 0, 0)
	}
	r.ack(c, got...)
}

func applyDeleted(r *rig) {
	in, out := r.queue("in"), r.queue("out")
	pull, err := r.engine.Consume(r.ctx, in, core.ConsumeOptions{Pull: true}, r.probe())
	r.must(err)
	r.send("", "in", "1")
	d, ok := pull.Get()
	if !ok {
		r.Fatal("nothing to get")
	}
	_, err = r.engine.DeleteQueue(r.ctx, in, core.DeleteOptions{})
	r.must(err)
	_, err = r.apply(settlement(pull, core.Ack, d), r.publication("", "out", "a"))
	r.must(err)
	r.wantInfo(out, 1, 0, 1)
	pull.Cancel(core.Requeue)
}

func applyNowhere(r *rig) {
	in, out := r.queue("in"), r.queue("out")
	p := r.probe()
	c := r.consume(in, p)
	r.send("", "in", "1")
	got := p.want("1")
	_, err := r.apply(settlement(c, core.Ack, got[0]), r.publication("", "out", "a"), r.publication("nowhere", "b", "b"))
	r.wantError(err, core.ErrNotFound)
	r.wantInfo(in, 0, 1, 1)
	r.wantInfo(out, 0, 0, 0)
}

func applyUnroutable(r *rig) {
	k := r.queue("q")
	before := r.engine.Stats().Unroutable
	routed, err := r.apply(r.publication("", "q", "1"), r.publication("", "nobody", "2"))
	r.must(err)
	if routed {
		r.Fatal("routed, though one was not")
	}
	if n := r.engine.Stats().Unroutable - before; n != 1 {
		r.Fatalf("%d counted, want 1", n)
	}
	r.wantInfo(k, 1, 0, 1)
}

func applyUnrouted(r *rig) {
	k := r.queue("q")
	var lost []string
	telling := func(name string) core.Op {
		op := r.publication("", name, "1")
		op.Unrouted = func() { lost = append(lost, name) }
		return op
	}
	_, err := r.apply(telling("nobody"), r.publication("nowhere", "b", "b"))
	r.wantError(err, core.ErrNotFound)
	if len(lost) > 0 {
		r.Fatalf("told of %v, though nothing was done", lost)
	}
	_, err = r.apply(telling("q"), telling("nobody"), r.publication("", "nobody", "2"), telling("no one"))
	r.must(err)
	if !slices.Equal(lost, []string{"nobody", "no one"}) {
		r.Fatalf("told of %v", lost)
	}
	r.wantInfo(k, 1, 0, 1)
}

func applyQuick(r *rig) {
	in, out := r.queue("in"), r.queue("out")
	p := r.gated(core.Held)
	c := r.consume(in, p)
	go r.engine.Publish(&core.Batch{}, r.message("", "in", "1"), nil)
	d := p.meet()
	var res result
	ended := make(chan struct{})
	go func() {
		r.engine.Apply(&core.Batch{}, []core.Op{settlement(c, core.Ack, d), r.publication("", "out", "a")}, r.done(&res))
		close(ended)
	}()
	synctest.Wait()
	p.leave()
	<-ended
	if res != (result{1, true, nil}) {
		r.Fatalf("Done said %+v", res)
	}
	r.wantInfo(in, 0, 0, 0)
	r.wantInfo(out, 1, 0, 1)
}

func applyInvalid(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "1")
	got := p.want("1")
	for _, op := range []core.Op{{Seq: 1}, settlement(c, core.Keep, got[0])} {
		_, err := r.apply(op)
		r.wantError(err, core.ErrInvalid)
	}
	r.wantInfo(k, 0, 1, 1)
}

func applyNothing(r *rig) {
	if _, err := r.apply(); err != nil {
		r.Fatal(err)
	}
}

func applyReturns(r *rig) {
	k := r.queue("q")
	p := r.taking(3)
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3", "4")
	got := p.want("1", "2", "3")
	_, err := r.apply(settlement(c, core.Requeue, got[2]), settlement(c, core.Return, got[0]))
	r.must(err)
	p.more(-1)
	c.Resume(nil)
	again := p.want("1", "3", "4")
	if again[0].Attempts != 0 || again[1].Attempts != 1 {
		r.Fatalf("attempts %d and %d, want 0 and 1", again[0].Attempts, again[1].Attempts)
	}
}
