package enginetest

import (
	"errors"
	"time"

	"entrepot/core"
)

func queueTests() []test {
	return []test{
		{"declare again, otherwise, passively [AMQP 1.7.2.1]", declareQueue},
		{"internal queues have names of their own", internalQueues},
		{"an auto-delete queue goes when its last consumer leaves [AMQP 1.7.2.1.6]", autoDeleteQueue},
		{"an auto-delete queue stays for a consumer that comes at the last moment", autoDeleteStays},
		{"delete returns how many, and takes bindings and consumers along", deleteQueue},
		{"delete if unused, if empty [AMQP 1.7.2.9]", deleteIf},
		{"what a deleted queue had out is settled by nobody", settleGone},
		{"delete while Deliver runs", deleteMeanwhile},
		{"purge drops what is ready [AMQP 1.7.2.7]", purge},
		{"bytes are those of all that is here", bytesCounted},
	}
}

func declareQueue(r *rig) {
	r.wantGone(core.Named("q"))
	k := r.queue("q")
	r.send("", "q", "abc")
	i, err := r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k})
	r.must(err)
	if i.Key != k || i.Messages != 1 || i.Bytes != 3 || i.Consumers != 0 {
		r.Fatalf("declared again: %+v", i)
	}
	_, err = r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k, By: 7, Drops: &core.Drops{}})
	r.must(err)
	for _, other := range []core.QueueSpec{
		{Durable: true}, {AutoDelete: true}, {Exclusive: true},
		{Args: core.QueueArgs{MaxLength: 1, HasMaxLength: true}},
		{Args: core.QueueArgs{MessageTTL: time.Second, HasMessageTTL: true}},
		{Args: core.QueueArgs{Overflow: core.RejectPublish}},
	} {
		other.Key = k
		_, err := r.engine.DeclareQueue(r.ctx, other)
		r.wantError(err, core.ErrConflict)
		if _, ok := errors.AsType[*core.Difference](err); !ok {
			r.Fatalf("%v does not say in what", err)
		}
	}
	r.wantInfo(k, 1, 0, 3)
}

func internalQueues(r *rig) {
	named := r.queue("q")
	for _, kind := range []core.QueueKind{core.SessionQueue, core.GroupQueue, core.TopicQueue} {
		k := core.Key(kind, "q")
		_, err := r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k})
		r.must(err)
		r.queues = append(r.queues, k)
		r.bind(core.TopicExchange, "a", k)
	}
	r.send("", "q", "1")
	r.send(core.TopicExchange, "a", "2")
	r.wantInfo(named, 1, 0, 1)
	for _, k := range r.queues[1:] {
		r.wantInfo(k, 1, 0, 1)
	}
}

func autoDeleteQueue(r *rig) {
	k := r.queue("q", autoDelete)
	r.bind(core.TopicExchange, "a", k)
	getter := r.consume(k, nil, pull)
	a, b := r.consume(k, r.probe()), r.consume(k, r.probe())
	a.Cancel(core.Requeue)
	r.send("", "q", "1")
	b.Cancel(core.Requeue)
	r.wantGone(k)
	r.sendNowhere(r.message(core.TopicExchange, "a", "2"))
	r.getNone(getter)
	getter.Cancel(core.Requeue)
	r.queue("q", autoDelete)
	r.consume(k, nil, pull).Cancel(core.Requeue)
	r.wantInfo(k, 0, 0, 0) // no consumer was there
}

// autoDeleteStays: the last consumer waits for its Deliver as another comes.
func autoDeleteStays(r *rig) {
	k := r.queue("q", autoDelete)
	p := r.gated(core.Settled)
	c := r.consume(k, p)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "1"), nil)
	p.meet()
	ended := make(chan struct{})
	go func() {
		c.Cancel(core.Requeue)
		close(ended)
	}()
	second := r.probe()
	r.consume(k, second)
	p.leave()
	<-ended
	r.send("", "q", "2")
	second.want("2")
}

func (r *rig) delete(k core.QueueKey, o core.DeleteOptions) int {
	r.Helper()
	n, err := r.engine.DeleteQueue(r.ctx, k, o)
	r.must(err)
	return n
}

func deleteQueue(r *rig) {
	k := r.queue("q")
	r.bind("amq.fanout", "", k)
	p := r.taking(1)
	c := r.consume(k, p)
	r.send("amq.fanout", "a", "1", "2", "3")
	if n := r.delete(k, core.DeleteOptions{}); n != 2 {
		r.Fatalf("%d went with it, want 2", n)
	}
	p.wantGone(1)
	r.sendNowhere(r.message("amq.fanout", "a", "4"))
	p.more(-1)
	c.Resume(nil)
	p.want("1")
	c.Cancel(core.Requeue)
	p.wantGone(1)
	_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{})
	r.wantError(err, core.ErrNotFound)
	_, err = r.engine.PurgeQueue(r.ctx, k, 0)
	r.wantError(err, core.ErrNotFound)
}

func deleteIf(r *rig) {
	k := r.queue("q")
	c := r.consume(k, r.taking(0))
	getter := r.consume(k, nil, pull)
	r.send("", "q", "1")
	for _, o := range []core.DeleteOptions{{IfUnused: true}, {IfEmpty: true}, {IfUnused: true, IfEmpty: true}} {
		_, err := r.engine.DeleteQueue(r.ctx, k, o)
		r.wantError(err, core.ErrInUse)
	}
	r.send("", "q", "2") // it lives
	c.Cancel(core.Requeue)
	_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{IfUnused: true, IfEmpty: true})
	r.wantError(err, core.ErrInUse)
	r.get(getter, "1")
	if n := r.delete(k, core.DeleteOptions{IfUnused: true}); n != 1 {
		r.Fatalf("%d went with it, want 1", n)
	}
}

func settleGone(r *rig) {
	k := r.queue("q")
	p, q := r.probe(), r.probe()
	c, d := r.consume(k, p), r.consume(k, q)
	r.send("", "q", "1", "2")
	one, two := p.take(), q.take()
	d.Cancel(core.Keep)
	r.delete(k, core.DeleteOptions{})
	r.wantError(c.Settle(nil, core.Requeue, seqs(one)...), core.ErrNotFound)
	r.wantError(d.Settle(nil, core.Ack, seqs(two)...), core.ErrNotFound)
	d.Cancel(core.Requeue)
	r.queue("q")
	r.wantInfo(k, 0, 0, 0)
}

func deleteMeanwhile(r *rig) {
	for _, v := range []core.Verdict{core.Held, core.Settled, core.Full} {
		k := r.queue("q")
		p := r.gated(v)
		c := r.consume(k, p)
		go r.engine.Publish(&core.Batch{}, r.message("", "q", "1"), nil)
		p.meet()
		r.send("", "q", "2")
		ended := make(chan int)
		go func() { ended <- r.delete(k, core.DeleteOptions{}) }()
		p.wantGone(0) // a Deliver runs
		p.leave()
		if n := <-ended; n != 1 {
			r.Fatalf("%d went with it, want 1", n)
		}
		p.wantGone(1)
		c.Cancel(core.Requeue)
		r.wantGone(k)
	}
}

func purge(r *rig) {
	k := r.queue("q")
	p := r.taking(1)
	c := r.consume(k, p)
	r.send("", "q", "1", "22", "333")
	n, err := r.engine.PurgeQueue(r.ctx, k, 0)
	r.must(err)
	if n != 2 {
		r.Fatalf("%d purged, want 2", n)
	}
	r.wantInfo(k, 0, 1, 1)
	p.more(-1)
	r.settle(c, core.Requeue, p.want("1")...)
	p.want("1")
	r.send("", "q", "4")
	p.want("4")
}

func bytesCounted(r *rig) {
	k := r.queue("q")
	p := r.taking(2)
	c := r.consume(k, p)
	r.send("", "q", "22", "333", "4444")
	r.wantInfo(k, 1, 2, 9)
	if b := r.engine.Stats().Bytes - r.first.Bytes; b != 9 {
		r.Fatalf("%d bytes in sum, want 9", b)
	}
	got := p.take()
	r.settle(c, core.Requeue, got[0])
	r.wantInfo(k, 2, 1, 9)
	r.ack(c, got[1])
	r.wantInfo(k, 2, 0, 6)
}
