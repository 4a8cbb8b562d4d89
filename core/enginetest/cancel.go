package enginetest

import (
	"testing/synctest"

	"entrepot/core"
)

func cancelTests() []test {
	return []test{
		{"Cancel gives back what is held, with or without an attempt", cancelGivesBack},
		{"Cancel ends deliveries", cancelEnds},
		{"Cancel waits for the Deliver that runs", cancelWaits},
		{"what Deliver holds while Cancel waits goes back too", cancelMeanwhile},
		{"a second Cancel does nothing", cancelTwice},
		{"Keep: what is held may be settled after Cancel", cancelKeeps},
		{"after Keep another Cancel lets go", cancelAfterKeep},
		{"nothing is delivered to a cancelled consumer that resumes or settles", cancelledResumes},
	}
}

func cancelGivesBack(r *rig) {
	for outcome, attempts := range map[core.Outcome]uint32{core.Requeue: 1, core.Return: 0} {
		k := r.queue("q")
		p := r.probe()
		c := r.consume(k, p)
		r.send("", "q", "1", "2", "3")
		r.ack(c, p.take()[1])
		c.Cancel(outcome)
		r.wantInfo(k, 2, 0, 2)
		next := r.settling()
		d := r.consume(k, next)
		for _, got := range next.want("1", "3") {
			if got.Attempts != attempts {
				r.Fatalf("outcome %d: %d attempts, want %d", outcome, got.Attempts, attempts)
			}
		}
		d.Cancel(core.Requeue)
	}
}

func cancelEnds(r *rig) {
	k := r.queue("q")
	p := r.settling()
	c := r.consume(k, p)
	r.send("", "q", "1")
	c.Cancel(core.Requeue)
	r.send("", "q", "2")
	p.want("1")
	r.wantInfo(k, 1, 0, 1)
	p.wantGone(0)
}

func cancelWaits(r *rig) {
	k := r.queue("q")
	p := r.gated(core.Settled)
	c := r.consume(k, p)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "1"), nil)
	p.meet()
	ended := make(chan struct{})
	go func() {
		c.Cancel(core.Requeue)
		close(ended)
	}()
	second := make(chan struct{})
	go func() {
		c.Cancel(core.Requeue)
		close(second)
	}()
	synctest.Wait()
	select {
	case <-ended:
		r.Fatal("Cancel returned while Deliver runs")
	case <-second:
		r.Fatal("a second Cancel returned while Deliver runs")
	default:
	}
	p.leave()
	<-ended
	<-second
	r.wantInfo(k, 0, 0, 0)
}

func cancelMeanwhile(r *rig) {
	for _, v := range []core.Verdict{core.Held, core.Full} {
		k := r.queue("q")
		p, next := r.gated(v), r.settling()
		c := r.consume(k, p)
		go r.engine.Publish(&core.Batch{}, r.message("", "q", "1"), nil)
		p.meet()
		ended := make(chan struct{})
		go func() {
			c.Cancel(core.Return)
			close(ended)
		}()
		synctest.Wait()
		r.send("", "q", "2")
		p.leave()
		<-ended
		r.wantInfo(k, 2, 0, 2)
		d := r.consume(k, next)
		next.want("1", "2")
		d.Cancel(core.Requeue)
	}
}

func cancelTwice(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "1")
	c.Cancel(core.Return)
	next := r.probe()
	d := r.consume(k, next)
	got := next.want("1")
	c.Cancel(core.Requeue)
	r.wantInfo(k, 0, 1, 1)
	r.wantError(c.Settle(nil, core.Ack, got[0].Seq), core.ErrNotFound)
	r.ack(d, got...)
}

func cancelKeeps(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "1", "2")
	got := p.want("1", "2")
	c.Cancel(core.Keep)
	r.send("", "q", "3")
	p.want()
	r.wantInfo(k, 1, 2, 3)
	if n := r.info(k).Consumers; n != 0 {
		r.Fatalf("%d consumers, want none", n)
	}
	r.ack(c, got[0])
	r.settle(c, core.Requeue, got[1])
	p.want()
	r.wantInfo(k, 2, 0, 2)
}

func cancelAfterKeep(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "1", "2")
	p.want("1", "2")
	c.Cancel(core.Keep)
	next := r.settling()
	r.consume(k, next)
	next.want()
	c.Cancel(core.Requeue)
	if d := next.want("1", "2")[0]; d.Attempts != 1 {
		r.Fatalf("%d attempts, want 1", d.Attempts)
	}
}

func cancelledResumes(r *rig) {
	k := r.queue("q")
	p := r.taking(1)
	c := r.consume(k, p)
	r.send("", "q", "1", "2")
	got := p.want("1")
	p.more(-1)
	c.Cancel(core.Keep)
	c.Resume(nil)
	r.ack(c, got...)
	p.want()
	r.wantInfo(k, 1, 0, 1)
}
