package enginetest

import "entrepot/core"

func pullTests() []test {
	return []test{
		{"Get takes the next, or tells that there is none [AMQP 1.8.3.10]", get},
		{"Get without ack settles", getNoAck},
		{"Get beside consumers takes what is ready", getBeside},
		{"Get only for consumers opened with Pull, and not after Cancel", getRefused},
		{"a requeued message keeps its place before what Get took", getKeepsOrder},
	}
}

func (r *rig) get(c core.Consumer, want string) core.Delivery {
	r.Helper()
	d, ok := c.Get()
	if !ok || string(d.Payload) != want {
		r.Fatalf("got %v, want %q", ok, want)
	}
	return d
}

func (r *rig) getNone(c core.Consumer) {
	r.Helper()
	if d, ok := c.Get(); ok {
		r.Fatalf("got %q, want none", d.Payload)
	}
}

func get(r *rig) {
	k := r.queue("q")
	c := r.consume(k, nil, pull)
	r.getNone(c)
	r.send("", "q", "1", "2", "3")
	d := r.get(c, "1")
	if d.Batch == nil || d.Attempts != 0 {
		r.Fatal("no batch, or attempts at the first time")
	}
	if d.Left != 2 {
		r.Fatalf("%d left, want 2", d.Left)
	}
	if left := r.get(c, "2").Left; left != 1 {
		r.Fatalf("%d left, want 1", left)
	}
	r.wantInfo(k, 1, 2, 3)
	r.settle(c, core.Requeue, d)
	if d = r.get(c, "1"); d.Attempts != 1 {
		r.Fatalf("%d attempts, want 1", d.Attempts)
	}
	r.ack(c, d)
	r.get(c, "3")
	r.getNone(c)
	c.Cancel(core.Return)
	r.wantInfo(k, 2, 0, 2)
}

func getNoAck(r *rig) {
	k := r.queue("q")
	c := r.consume(k, nil, pull, noAck)
	r.send("", "q", "1")
	d := r.get(c, "1")
	r.wantInfo(k, 0, 0, 0)
	r.wantError(c.Settle(nil, core.Ack, d.Seq), core.ErrNotFound)
}

func getBeside(r *rig) {
	k := r.queue("q")
	p := r.taking(1)
	r.consume(k, p)
	c := r.consume(k, nil, pull)
	r.send("", "q", "1", "2")
	p.want("1")
	r.get(c, "2")
	c.Resume(nil) // means nothing
	r.getNone(c)
}

func getRefused(r *rig) {
	k := r.queue("q")
	p := r.taking(0)
	push := r.consume(k, p)
	r.send("", "q", "1")
	r.getNone(push)
	c := r.consume(k, nil, pull)
	c.Cancel(core.Requeue)
	r.getNone(c)
	r.wantInfo(k, 1, 0, 1)
}

// getKeepsOrder: Get takes a younger message while an older one is on its way
// to a consumer that turns out to be full; both come back.
func getKeepsOrder(r *rig) {
	k := r.queue("q")
	p := r.gated(core.Full)
	r.consume(k, p)
	c := r.consume(k, nil, pull)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "1"), nil)
	p.meet()
	r.send("", "q", "2", "3")
	d := r.get(c, "2")
	p.leave()
	r.wantInfo(k, 2, 1, 3)
	r.settle(c, core.Return, d)
	for _, want := range []string{"1", "2", "3"} {
		r.get(c, want)
	}
}
