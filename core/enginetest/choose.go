package enginetest

import (
	"errors"
	"strings"
	"testing/synctest"
	"time"

	"entrepot/core"
)

func chooseTests() []test {
	return []test{
		{"Accepts: each gets what it accepts, in order", chooseInOrder},
		{"Accepts: what nobody accepts waits, and is passed over", choosePasses},
		{"Accepts: a consumer that comes or resumes gets what was passed over, in order", chooseLater},
		{"Accepts: what comes back goes to who accepts it, before younger ones", chooseReturned},
		{"Accepts: a full one is not asked for", chooseFull},
		{"Accepts: in turn among those that accept, by priority", chooseInTurn},
		{"Accepts: when the chooser leaves, what waits is in its order", chooseLeaves},
		{"Accepts: what was passed over is pulled, purged, counted and expires", choosePassedOver},
		{"Accepts: limits drop the oldest, also what was passed over", chooseLimit},
		{"Accepts: not with Pull", choosePull},
	}
}

// starts accepts payloads that begin so.
func starts(with string) func(*core.ConsumeOptions) {
	return func(o *core.ConsumeOptions) {
		o.Accepts = func(m *core.Message) bool { return strings.HasPrefix(string(m.Payload), with) }
	}
}

// chooser attaches a consumer with Accepts; engines that cannot are skipped.
func (r *rig) chooser(k core.QueueKey, recv core.Receiver, edits ...func(*core.ConsumeOptions)) core.Consumer {
	r.Helper()
	var o core.ConsumeOptions
	for _, edit := range edits {
		edit(&o)
	}
	c, err := r.engine.Consume(r.ctx, k, o, recv)
	if errors.Is(err, core.ErrUnsupported) {
		r.Skipf("not supported: %v", err)
	}
	r.must(err)
	return c
}

func chooseInOrder(r *rig) {
	k := r.queue("q")
	a, b := r.settling(), r.settling()
	r.chooser(k, a, starts("a"))
	r.chooser(k, b, starts("b"))
	r.send("", "q", "a1", "b1", "b2", "a2", "b3")
	a.want("a1", "a2")
	b.want("b1", "b2", "b3")
	r.wantInfo(k, 0, 0, 0)
}

func choosePasses(r *rig) {
	k := r.queue("q")
	a, b := r.settling(), r.settling()
	r.chooser(k, a, starts("a"))
	r.send("", "q", "b1", "a1", "b2", "a2")
	a.want("a1", "a2")
	r.wantInfo(k, 2, 0, 4)
	r.chooser(k, b, starts("b"))
	b.want("b1", "b2")
	r.send("", "q", "c1", "b3")
	b.want("b3")
	r.wantInfo(k, 1, 0, 2)
}

func chooseLater(r *rig) {
	k := r.queue("q")
	a, b, c := r.probe(), r.probe(), r.settling()
	a.more(1)
	ca := r.chooser(k, a, starts("a"))
	r.chooser(k, b, starts("b"))
	r.send("", "q", "a1", "c1", "a2", "b1", "a3", "c2")
	got := a.want("a1")
	b.want("b1")
	a.more(-1)
	r.ack(ca, got...)
	a.want("a2", "a3")
	r.chooser(k, c, starts("c"))
	c.want("c1", "c2")
	r.send("", "q", "a4", "c3")
	a.want("a4")
	c.want("c3")
}

func chooseReturned(r *rig) {
	k := r.queue("q")
	a, b := r.taking(2), r.probe()
	ca := r.chooser(k, a, starts("a"))
	cb := r.chooser(k, b, starts("b"))
	r.send("", "q", "a1", "b1", "a2", "b2", "a3", "b3")
	got := a.want("a1", "a2")
	b.want("b1", "b2", "b3")
	r.settle(ca, core.Requeue, got[0])
	r.wantInfo(k, 2, 4, 12)
	a.more(-1)
	ca.Resume(nil)
	if again := a.want("a1", "a3"); again[0].Attempts != 1 {
		r.Fatalf("%d attempts, want 1", again[0].Attempts)
	}
	cb.Cancel(core.Return)
	next := r.probe()
	cn := r.consume(k, next)
	r.ack(cn, next.want("b1", "b2", "b3")...)
	r.wantInfo(k, 0, 3, 6)
}

func chooseFull(r *rig) {
	k := r.queue("q")
	a, rest := r.taking(1), r.settling()
	ca := r.chooser(k, a, starts("a"))
	r.send("", "q", "a1", "a2", "b1", "a3")
	a.want("a1")
	r.consume(k, rest)
	rest.want("a2", "b1", "a3")
	a.more(1)
	ca.Resume(nil)
	r.send("", "q", "b2")
	rest.want("b2")
}

func chooseInTurn(r *rig) {
	k := r.queue("q")
	high := func(o *core.ConsumeOptions) { o.Priority = 1 }
	a, b, rest := r.settling(), r.settling(), r.settling()
	r.chooser(k, a, starts("a"), high)
	r.chooser(k, b, starts("a"), high)
	r.consume(k, rest)
	r.send("", "q", "a1", "b1", "a2", "b2", "a3", "a4")
	a.want("a1", "a3")
	b.want("a2", "a4")
	rest.want("b1", "b2")
}

func chooseLeaves(r *rig) {
	k := r.queue("q")
	a := r.taking(1)
	ca := r.chooser(k, a, starts("a"))
	r.send("", "q", "b1", "a1", "b2", "a2", "b3")
	a.want("a1")
	ca.Cancel(core.Return)
	r.wantInfo(k, 5, 0, 10)
	r.drain(k, "b1", "a1", "b2", "a2", "b3")
}

func choosePassedOver(r *rig) {
	k := r.queue("q")
	a := r.settling()
	r.chooser(k, a, starts("a"))
	r.send("", "q", "b1")
	r.sendOne(r.message("", "q", "b2", ttl(time.Second)))
	r.sendOne(r.message("", "q", "a1", ttl(time.Second)))
	r.sendOne(r.message("", "q", "b3", ttl(0)))
	r.send("", "q", "b4", "b5")
	a.want("a1")
	r.wantInfo(k, 4, 0, 8)
	r.wantDropped(core.DropExpired, 1)
	pass(time.Minute)
	p := r.consume(k, nil, pull)
	for _, want := range []string{"b1", "b4"} {
		d, ok := p.Get()
		if !ok || string(d.Payload) != want {
			r.Fatalf("got %q %v, want %q", d.Payload, ok, want)
		}
		r.ack(p, d)
	}
	r.wantDropped(core.DropExpired, 2)
	n, err := r.engine.PurgeQueue(r.ctx, k, 0)
	r.must(err)
	if n != 1 {
		r.Fatalf("purged %d, want 1", n)
	}
	r.wantInfo(k, 0, 0, 0)
	r.send("", "q", "b6", "a2")
	a.want("a2")
	synctest.Wait()
	r.wantInfo(k, 1, 0, 2)
}

func chooseLimit(r *rig) {
	k := r.queue("q", length(2, core.DropHead))
	a := r.taking(0)
	ca := r.chooser(k, a, starts("a"))
	b := r.settling()
	r.chooser(k, b, starts("b"))
	r.send("", "q", "c1", "a1", "a2", "b1")
	b.want("b1")
	r.wantInfo(k, 2, 0, 4)
	r.wantDropped(core.DropOverflow, 1)
	a.more(-1)
	ca.Resume(nil)
	a.want("a1", "a2")
}

func choosePull(r *rig) {
	k := r.queue("q")
	o := core.ConsumeOptions{Pull: true}
	starts("a")(&o)
	_, err := r.engine.Consume(r.ctx, k, o, nil)
	r.wantError(err, core.ErrUnsupported)
}
