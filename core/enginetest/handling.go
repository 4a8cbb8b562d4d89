package enginetest

import (
	"fmt"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

func handlingTests() []test {
	return []test{
		{"single active consumer: one gets all, the next takes over", singleActive},
		{"single active consumer: the highest priority takes over", singleActivePriority},
		{"single active consumer: no exclusive one beside it", singleActiveExclusive},
		{"x-redelivery-delay: grows, up to a ceiling; others pass meanwhile", redeliveryDelay},
		{"x-redelivery-delay: a TTL that ends meanwhile", redeliveryExpires},
		{"x-redelivery-delay: purge, limit and figures", redeliveryFigures},
		{"without a limit, tries slow down", tiresOut},
		{"x-last-value-key: the youngest of each value, in its place", lastValue},
		{"x-last-value-key: what is out, and comes back late", lastValueOut},
		{"x-last-value-key: the topic as value; an Apply; no value", lastValueTopic},
		{"fault 82: a TTL that is over behind longer ones goes at its time", expiresBehind},
		{"fault 82: the same of what came back", expiresBack},
	}
}

func singleActiveQueue(r *rig) core.QueueKey {
	r.Helper()
	return r.queue("q", args(core.QueueArgs{SingleActive: true}))
}

func singleActive(r *rig) {
	k := singleActiveQueue(r)
	a, b, c := r.taking(2), r.probe(), r.probe()
	ca, cb := r.consume(k, a), r.consume(k, b)
	cc := r.consume(k, c, paused)
	r.send("", "q", "1", "2", "3")
	got := a.want("1", "2")
	b.want()
	r.ack(ca, got[1])
	ca.Cancel(core.Requeue)
	r.ack(cb, b.want("1", "3")...)
	cb.Cancel(core.Requeue)
	r.send("", "q", "4")
	c.want()
	cc.Resume(nil)
	c.want("4")
	r.consume(k, b)
	cc.Cancel(core.Requeue)
	b.want("4")
	if n := r.info(k).Consumers; n != 1 {
		r.Fatalf("%d consumers", n)
	}
}

func singleActivePriority(r *rig) {
	k := singleActiveQueue(r)
	first, low, high := r.probe(), r.probe(), r.probe()
	c := r.consume(k, first)
	r.consume(k, low)
	r.consume(k, high, func(o *core.ConsumeOptions) { o.Priority = 5 })
	r.send("", "q", "1")
	first.want("1")
	c.Cancel(core.Requeue)
	high.want("1")
	low.want()
}

func singleActiveExclusive(r *rig) {
	k := singleActiveQueue(r)
	_, err := r.engine.Consume(r.ctx, k, core.ConsumeOptions{Exclusive: true}, r.probe())
	r.wantError(err, core.ErrNotAllowed)
}

func redeliveryDelay(r *rig) {
	k := r.queue("q", args(core.QueueArgs{RedeliverWait: time.Second, DeliveryLimit: -1, HasLimit: true}))
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "m")
	for n, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64} {
		d := p.want("m")
		r.settle(c, core.Requeue, d...)
		r.wantInfo(k, 1, 0, 1)
		other := fmt.Sprint(n)
		r.send("", "q", other)
		r.ack(c, p.want(other)...)
		pass(wait*time.Second - time.Millisecond)
		p.want()
		pass(time.Millisecond)
	}
	d := p.want("m")
	r.settle(c, core.Return, d...) // does not count
	p.want("m")
	c.Cancel(core.Return)
	r.send("", "q", "n")
	r.drain(k, "m", "n")
}

func redeliveryExpires(r *rig) {
	k := r.queue("q", args(core.QueueArgs{RedeliverWait: time.Minute}))
	r.sendOne(r.message("", "q", "m", ttl(10*time.Second)))
	r.fall(k, core.Requeue, "m")
	pass(10 * time.Second)
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropExpired, 1)
}

func redeliveryFigures(r *rig) {
	k := r.queue("q", args(core.QueueArgs{RedeliverWait: time.Minute, MaxLength: 2, HasMaxLength: true}))
	p := r.taking(2)
	c := r.consume(k, p)
	r.send("", "q", "1", "2")
	r.settle(c, core.Requeue, p.want("1", "2")...)
	r.wantInfo(k, 2, 0, 2)
	c.Cancel(core.Requeue)
	r.send("", "q", "3")
	r.wantInfo(k, 2, 0, 2)
	r.wantDropped(core.DropOverflow, 1)
	if n, err := r.engine.PurgeQueue(r.ctx, k, 0); n != 2 || err != nil {
		r.Fatalf("purged %d, %v", n, err)
	}
	r.wantInfo(k, 0, 0, 0)
	pull := r.consume(k, nil, pull)
	r.send("", "q", "4")
	d, _ := pull.Get()
	r.must(pull.Settle(nil, core.Requeue, d.Seq))
	if _, ok := pull.Get(); ok {
		r.Fatal("got it at once")
	}
	pass(time.Minute)
	if _, ok := pull.Get(); !ok {
		r.Fatal("it does not come back")
	}
	pull.Cancel(core.Requeue)
}

func tiresOut(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.send("", "q", "m")
	for range 10 {
		r.settle(c, core.Requeue, p.want("m")...)
	}
	r.settle(c, core.Requeue, p.want("m")...)
	p.want()
	pass(100 * time.Millisecond)
	for range 20 {
		r.settle(c, core.Requeue, p.want("m")...)
		pass(10 * time.Second)
	}
	r.ack(c, p.want("m")...)
}

// ofDevice sets the header that x-last-value-key names.
func ofDevice(v any) func(*core.Message) {
	return headers(routing.Header{Name: "device", Value: v})
}

func lastValueQueue(r *rig, key string) core.QueueKey {
	r.Helper()
	return r.queue("q", func(s *core.QueueSpec) { s.Durable = true }, args(core.QueueArgs{LastValueKey: key}))
}

func durable(m *core.Message) { m.Guarantee = core.Durable }

func lastValue(r *rig) {
	k := lastValueQueue(r, "device")
	for n, v := range []any{"a", "b", "a", []byte("b"), int32(7), "c", "a"} {
		r.sendOne(r.message("", "q", fmt.Sprint(n), ofDevice(v), durable))
	}
	r.send("", "q", "x", "x")
	r.wantInfo(k, 6, 0, 6)
	r.wantDropped(core.DropReplaced, 3)
	r.drain(k, "3", "4", "5", "6", "x", "x")
	for n := range 100 {
		r.sendOne(r.message("", "q", fmt.Sprint(n), ofDevice(n%3), durable))
	}
	r.drain(k, "97", "98", "99")
	r.wantInfo(k, 0, 0, 0)
}

func lastValueOut(r *rig) {
	k := lastValueQueue(r, "device")
	p := r.taking(2)
	c := r.consume(k, p)
	send := func(text, device string) { r.sendOne(r.message("", "q", text, ofDevice(device), durable)) }
	send("1", "a")
	send("2", "b")
	send("3", "a")
	d := p.want("1", "2")
	r.wantInfo(k, 1, 2, 3)
	r.settle(c, core.Requeue, d...)
	r.wantInfo(k, 2, 0, 2)
	r.wantDropped(core.DropReplaced, 1)
	send("4", "b")
	r.wantInfo(k, 2, 0, 2)
	c.Cancel(core.Requeue)
	r.drain(k, "3", "4")
	send("5", "a")
	_, err := r.engine.PurgeQueue(r.ctx, k, 0)
	r.must(err)
	send("6", "a")
	r.drain(k, "6")
}

func lastValueTopic(r *rig) {
	k := lastValueQueue(r, "x-topic")
	r.bind(core.TopicExchange, "#", k)
	for n, topic := range []string{"a", "b", "a"} {
		op := r.publication(core.TopicExchange, topic, fmt.Sprint(n))
		op.Message.Guarantee = core.Durable
		_, err := r.apply(op, op)
		r.must(err)
	}
	r.wantInfo(k, 2, 0, 2)
	r.drain(k, "1", "2")
}

func expiresBehind(r *rig) {
	k := r.queue("q", func(s *core.QueueSpec) { s.Durable = true })
	for n := range 40 {
		wait := time.Hour
		if n%3 == 1 {
			wait = time.Duration(50-n) * time.Second
		}
		r.sendOne(r.message("", "q", "m", ttl(wait), durable))
	}
	left := 40
	for at := range 50 {
		if n := 50 - at; n < 40 && n%3 == 1 {
			r.wantInfo(k, left, 0, int64(left))
		}
		pass(time.Second)
		if n := 50 - at - 1; n < 40 && n%3 == 1 {
			left--
		}
		r.wantInfo(k, left, 0, int64(left))
	}
	r.wantDropped(core.DropExpired, 13)
	pass(time.Hour)
	r.wantInfo(k, 0, 0, 0)
}

func expiresBack(r *rig) {
	k := r.queue("q")
	p := r.taking(3)
	c := r.consume(k, p)
	r.send("", "q", "1")
	for range 2 {
		r.sendOne(r.message("", "q", "m", ttl(10*time.Second)))
	}
	r.settle(c, core.Requeue, p.want("1", "m", "m")...)
	c.Cancel(core.Requeue)
	synctest.Wait()
	pass(10 * time.Second)
	r.wantInfo(k, 1, 0, 1)
	r.wantDropped(core.DropExpired, 2)
}
