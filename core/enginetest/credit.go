package enginetest

import (
	"testing/synctest"

	"entrepot/core"
)

func creditTests() []test {
	return []test{
		{"Full keeps the message in its place until Resume", full},
		{"a Resume that comes while Deliver runs counts", stickyResume},
		{"a Settle resumes", settleResumes},
		{"Paused: nothing before the first Resume", pausedConsumer},
		{"others work while one is full", fullBesideFree},
		{"a consumer that gets room while another's Deliver runs is served", roomMeanwhile},
		{"what is published while Deliver runs is handed over", publishedMeanwhile},
		{"a long backlog is handed over whole, in order", longBacklog},
	}
}

func full(r *rig) {
	k := r.queue("q")
	p := r.taking(1)
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3")
	p.want("1")
	r.wantInfo(k, 2, 1, 3)
	c.Resume(nil) // no room, in truth
	p.want()
	p.more(1)
	r.send("", "q", "4")
	p.want() // without a Resume it stays full
	c.Resume(nil)
	p.want("2")
	p.more(-1)
	c.Resume(nil)
	p.want("3", "4")
}

func stickyResume(r *rig) {
	k := r.queue("q")
	p := r.gated(core.Full)
	c := r.consume(k, p)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "m"), nil)
	p.meet()
	c.Resume(nil) // Deliver has not returned its Full
	p.leave()
	p.meet() // so it is asked again
	p.say(core.Settled)
	p.leave()
	p.want("m")
	r.wantInfo(k, 0, 0, 0)
}

func settleResumes(r *rig) {
	k := r.queue("q")
	p := r.taking(1)
	c := r.consume(k, p)
	r.send("", "q", "1", "2")
	got := p.want("1")
	p.more(1)
	r.ack(c, got...)
	p.want("2")
}

func pausedConsumer(r *rig) {
	k := r.queue("q")
	r.send("", "q", "1")
	p := r.probe()
	c := r.consume(k, p, paused)
	r.send("", "q", "2")
	p.want()
	if n := r.info(k).Consumers; n != 1 {
		r.Fatalf("%d consumers, want 1", n)
	}
	c.Resume(nil)
	p.want("1", "2")
}

func fullBesideFree(r *rig) {
	k := r.queue("q")
	slow, fast := r.taking(1), r.probe()
	c := r.consume(k, slow)
	r.consume(k, fast)
	r.send("", "q", "1", "2", "3", "4", "5")
	slow.want("1")
	fast.want("2", "3", "4", "5")
	slow.more(-1)
	c.Resume(nil)
	r.send("", "q", "6", "7")
	slow.want("6")
	fast.want("7")
}

func roomMeanwhile(r *rig) {
	k := r.queue("q")
	busy, other := r.gated(core.Full), r.taking(0)
	r.consume(k, busy)
	c := r.consume(k, other, paused)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "m"), nil)
	busy.meet()
	other.more(-1)
	c.Resume(nil)
	other.want() // the message is out
	busy.leave()
	other.want("m")
}

func publishedMeanwhile(r *rig) {
	k := r.queue("q")
	p := r.gated(core.Settled)
	r.consume(k, p)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "1"), nil)
	p.meet()
	r.send("", "q", "2", "3")
	for range 2 {
		p.leave()
		p.meet()
	}
	p.leave()
	p.want("1", "2", "3")
	r.wantInfo(k, 0, 0, 0)
}

func longBacklog(r *rig) {
	k := r.queue("q")
	const n = 5000
	for range n {
		r.engine.Publish(r.batch, r.message("", "q", "x"), nil)
	}
	p := r.settling()
	r.consume(k, p)
	synctest.Wait()
	got := p.take()
	for i, d := range got {
		if i > 0 && d.Seq <= got[i-1].Seq {
			r.Fatalf("Seq %d after %d", d.Seq, got[i-1].Seq)
		}
	}
	if len(got) != n {
		r.Fatalf("%d received, want %d", len(got), n)
	}
	r.wantInfo(k, 0, 0, 0)
}
