package enginetest

import (
	"fmt"

	"entrepot/core"
)

func consumerTests() []test {
	return []test{
		{"consumers take in turn", inTurn},
		{"the turn goes on when a consumer leaves or comes", turnGoesOn},
		{"a lost consumer's messages go to the next, in order", lostConsumer},
		{"an exclusive consumer is alone [AMQP 1.8.3.3]", exclusiveAlone},
		{"consuming from nowhere is refused", consumeNowhere},
		{"consumers are counted", countConsumers},
	}
}

func inTurn(r *rig) {
	k := r.queue("q")
	ps := []*probe{r.probe(), r.probe(), r.probe()}
	for _, p := range ps {
		r.consume(k, p)
	}
	for i := range 9 {
		r.send("", "q", fmt.Sprint(i))
	}
	ps[0].want("0", "3", "6")
	ps[1].want("1", "4", "7")
	ps[2].want("2", "5", "8")
}

func turnGoesOn(r *rig) {
	k := r.queue("q")
	a, b, c := r.probe(), r.probe(), r.probe()
	leaves := r.consume(k, a)
	r.consume(k, b)
	r.send("", "q", "1") // a
	leaves.Cancel(core.Requeue)
	b.want("1")
	r.consume(k, c)
	r.send("", "q", "2", "3", "4")
	if n, m := len(b.take()), len(c.take()); n < 1 || m < 1 || n+m != 3 {
		r.Fatalf("%d and %d of 3", n, m)
	}
}

func lostConsumer(r *rig) {
	k := r.queue("q")
	lost, next := r.probe(), r.taking(2)
	c := r.consume(k, lost)
	d := r.consume(k, next)
	r.send("", "q", "1", "2", "3", "4", "5", "6")
	lost.want("1", "3", "5", "6")
	r.ack(d, next.want("2", "4")...)
	c.Cancel(core.Requeue)
	r.send("", "q", "7")
	next.more(-1)
	d.Resume(nil)
	r.wantInfo(k, 0, 5, 5)
	got := next.want("1", "3", "5", "6", "7")
	for _, d := range got[:4] {
		if d.Attempts != 1 {
			r.Fatalf("%q: %d attempts, want 1", d.Payload, d.Attempts)
		}
	}
}

func exclusiveAlone(r *rig) {
	k := r.queue("q")
	only := r.consume(k, r.probe(), exclusiveConsumer)
	for _, o := range []core.ConsumeOptions{{}, {Exclusive: true}} {
		_, err := r.engine.Consume(r.ctx, k, o, r.probe())
		r.wantError(err, core.ErrInUse)
	}
	r.getNone(r.consume(k, nil, pull))
	only.Cancel(core.Requeue)
	second := r.consume(k, r.probe())
	_, err := r.engine.Consume(r.ctx, k, core.ConsumeOptions{Exclusive: true}, r.probe())
	r.wantError(err, core.ErrInUse)
	second.Cancel(core.Requeue)
	r.consume(k, r.probe(), exclusiveConsumer)
}

func consumeNowhere(r *rig) {
	_, err := r.engine.Consume(r.ctx, core.Named("nobody"), core.ConsumeOptions{}, r.probe())
	r.wantError(err, core.ErrNotFound)
}

func countConsumers(r *rig) {
	k := r.queue("q")
	c, d := r.consume(k, r.probe()), r.consume(k, r.probe(), paused)
	e := r.consume(k, nil, pull)
	if n, m := r.info(k).Consumers, r.engine.Stats().Consumers; n != 2 || m != 2 {
		r.Fatalf("%d, in sum %d consumers, want 2", n, m)
	}
	for _, c := range []core.Consumer{c, d, e} {
		c.Cancel(core.Requeue)
	}
	if n := r.info(k).Consumers; n != 0 {
		r.Fatalf("%d consumers, want none", n)
	}
}
