package enginetest

import (
	"slices"

	"entrepot/core"
)

func deliveryTests() []test {
	return []test{
		{"in order of publishing, Seq rising, first attempt", inOrder},
		{"what waited comes before what is published later", backlogFirst},
		{"ack takes the message out", acks},
		{"settling what is not held tells, and settles the rest", settleUnknown},
		{"nack with requeue goes to its place, one attempt more", requeues},
		{"a requeued message comes before all younger ones", requeueBeforeYounger},
		{"Return goes to its place as if never delivered", returns},
		{"Reject drops and counts", rejects},
		{"Settled and Dropped end a delivery", endedByVerdict},
		{"no-ack settles whatever the receiver answers but Full", noAcks},
		{"a client quicker than its Deliver", quickClient},
		{"deliveries of a Resume without a batch are flushed", flushes},
	}
}

func inOrder(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3")
	got := p.want("1", "2", "3")
	if s := seqs(got); !slices.IsSorted(s) || s[0] == s[1] || s[1] == s[2] {
		r.Fatalf("Seq %v", s)
	}
	for _, d := range got {
		if d.Attempts != 0 || d.Replayed {
			r.Fatalf("attempts %d, replayed %v at the first time", d.Attempts, d.Replayed)
		}
	}
	r.wantInfo(k, 0, 3, 3)
	r.ack(c, got...)
}

func backlogFirst(r *rig) {
	k := r.queue("q")
	r.send("", "q", "1", "2")
	p := r.taking(1)
	c := r.consume(k, p)
	r.send("", "q", "3")
	p.want("1")
	p.more(-1)
	c.Resume(nil)
	p.want("2", "3")
	r.send("", "q", "4")
	p.want("4")
}

func acks(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "one", "two", "three")
	got := p.take()
	r.ack(c, got[1])
	r.wantInfo(k, 0, 2, 8)
	r.ack(c, got[0], got[2])
	r.wantInfo(k, 0, 0, 0)
	c.Cancel(core.Requeue)
	r.wantInfo(k, 0, 0, 0)
}

func settleUnknown(r *rig) {
	k := r.queue("q")
	p, other := r.probe(), r.probe()
	c, d := r.consume(k, p), r.consume(k, other)
	r.send("", "q", "1", "2", "3")
	mine, theirs := p.take(), other.take()
	if len(mine) != 2 || len(theirs) != 1 {
		r.Fatalf("%d and %d received", len(mine), len(theirs))
	}
	r.wantError(c.Settle(nil, core.Ack, theirs[0].Seq), core.ErrNotFound)
	r.wantError(c.Settle(nil, core.Ack, mine[0].Seq, 9999, mine[1].Seq), core.ErrNotFound)
	r.wantInfo(k, 0, 1, 1)
	r.wantError(c.Settle(nil, core.Ack, mine[0].Seq), core.ErrNotFound)
	r.must(c.Settle(nil, core.Ack))
	r.wantError(c.Settle(nil, core.Keep, mine[0].Seq), core.ErrInvalid)
	r.ack(d, theirs...)
}

func requeues(r *rig) {
	k := r.queue("q")
	p := r.taking(3)
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3", "4")
	first := p.want("1", "2", "3")
	r.settle(c, core.Requeue, first[1], first[0])
	r.wantInfo(k, 3, 1, 4)
	p.more(-1)
	c.Resume(nil)
	again := p.want("1", "2", "4")
	if again[0].Seq != first[0].Seq || again[1].Seq != first[1].Seq {
		r.Fatalf("Seq changed from %v to %v", seqs(first), seqs(again))
	}
	if again[0].Attempts != 1 || again[1].Attempts != 1 || again[2].Attempts != 0 {
		r.Fatal("attempts are not 1, 1, 0")
	}
	p.more(0)
	r.settle(c, core.Requeue, again[0])
	p.more(-1)
	c.Resume(nil)
	if d := p.want("1")[0]; d.Attempts != 2 {
		r.Fatalf("%d attempts, want 2", d.Attempts)
	}
}

func requeueBeforeYounger(r *rig) {
	k := r.queue("q")
	p := r.taking(4)
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3", "4", "5", "6")
	got := p.want("1", "2", "3", "4")
	// Newest first, and not all.
	r.settle(c, core.Requeue, got[3])
	r.settle(c, core.Return, got[0])
	r.settle(c, core.Requeue, got[2])
	p.more(-1)
	c.Resume(nil)
	p.want("1", "3", "4", "5", "6")
}

func returns(r *rig) {
	k := r.queue("q")
	p := r.taking(2)
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3")
	r.settle(c, core.Return, p.want("1", "2")...)
	p.more(-1)
	c.Resume(nil)
	for _, d := range p.want("1", "2", "3") {
		if d.Attempts != 0 {
			r.Fatalf("%q: %d attempts after Return", d.Payload, d.Attempts)
		}
	}
}

func rejects(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "1", "2")
	r.settle(c, core.Reject, p.take()[0])
	r.wantInfo(k, 0, 1, 1)
	r.wantDropped(core.DropRejected, 1)
}

func endedByVerdict(r *rig) {
	k := r.queue("q")
	p := r.settling()
	c := r.consume(k, p)
	r.send("", "q", "1")
	d := p.want("1")[0]
	r.wantInfo(k, 0, 0, 0)
	r.wantError(c.Settle(nil, core.Ack, d.Seq), core.ErrNotFound)
	p.say(core.Dropped(core.DropTooLarge))
	r.send("", "q", "2")
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropTooLarge, 1)
	c.Cancel(core.Requeue)
	r.wantInfo(k, 0, 0, 0)
}

func noAcks(r *rig) {
	k := r.queue("q")
	p := r.taking(1)
	c := r.consume(k, p, noAck)
	r.send("", "q", "1", "2")
	d := p.want("1")[0]
	r.wantInfo(k, 1, 0, 1)
	r.wantError(c.Settle(nil, core.Ack, d.Seq), core.ErrNotFound)
	p.more(-1)
	c.Resume(nil)
	p.want("2")
	p.say(core.Dropped(core.DropTooLarge))
	r.send("", "q", "3")
	r.wantDropped(core.DropTooLarge, 1)
	c.Cancel(core.Requeue)
	r.wantInfo(k, 0, 0, 0)
}

// quickClient settles while Deliver has not returned.
func quickClient(r *rig) {
	for _, c := range []struct {
		outcome core.Outcome
		ready   int
	}{{core.Ack, 0}, {core.Reject, 0}, {core.Requeue, 1}, {core.Return, 1}} {
		k := r.queue("q")
		p := r.gated(core.Held)
		con := r.consume(k, p)
		go r.engine.Publish(&core.Batch{}, r.message("", "q", "m"), nil)
		seq := p.meet().Seq
		r.must(con.Settle(nil, c.outcome, seq))
		r.wantError(con.Settle(nil, c.outcome, seq), core.ErrNotFound)
		if c.ready == 1 {
			p.leave()
			p.meet() // it comes again
			p.say(core.Full)
			p.leave()
		} else {
			p.leave()
		}
		r.wantInfo(k, c.ready, 0, int64(c.ready))
		_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{})
		r.must(err)
	}
}

// flusher counts flushes.
type flusher struct{ flushed int }

func (f *flusher) Flush() { f.flushed++ }

// writing adds itself to the batch of every delivery.
type writing struct {
	probe   *probe
	flusher *flusher
}

func (w writing) Deliver(d core.Delivery) core.Verdict {
	v := w.probe.Deliver(d)
	if v != core.Full {
		d.Batch.Add(w.flusher)
	}
	return v
}

func flushes(r *rig) {
	k := r.queue("q")
	w := writing{r.taking(1), &flusher{}}
	b := &core.Batch{}
	c := r.consume(k, w)
	r.engine.Publish(b, r.message("", "q", "1"), nil)
	if w.flusher.flushed != 0 {
		r.Fatal("flushed before the publisher's batch")
	}
	b.Flush()
	if w.flusher.flushed != 1 {
		r.Fatal("the publisher's batch did not have it")
	}
	r.send("", "q", "2", "3")
	w.probe.more(1)
	c.Resume(nil)
	if w.flusher.flushed != 2 {
		r.Fatal("Resume without a batch did not flush")
	}
	w.probe.more(1)
	c.Resume(b)
	if w.flusher.flushed != 2 {
		r.Fatal("Resume flushed what was its caller's to flush")
	}
	b.Flush()
	if w.flusher.flushed != 3 {
		r.Fatal("the batch of Resume did not have it")
	}
}
