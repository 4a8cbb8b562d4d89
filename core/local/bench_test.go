package local

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"entrepot/core"
	"entrepot/routing"
)

// sink takes everything and is done with it, as a QoS 0 connection.
type sink struct{ n int }

func (s *sink) Deliver(core.Delivery) core.Verdict {
	s.n++
	return core.Settled
}

// window holds what it gets until drained, as a QoS 1 connection.
type window struct{ seqs []uint64 }

func (w *window) Deliver(d core.Delivery) core.Verdict {
	w.seqs = append(w.seqs, d.Seq)
	return core.Held
}

type load struct {
	engine *Engine
	topic  routing.Topic
	batch  core.Batch
}

func newLoad(tb testing.TB) *load {
	tb.Helper()
	t, err := routing.ParseTopic("plant/7/temp")
	if err != nil {
		tb.Fatal(err)
	}
	return &load{engine: New(quiet()), topic: t}
}

// subscribe attaches a receiver behind a session queue of its own.
func (l *load) subscribe(tb testing.TB, name string, f routing.Filter, r core.Receiver) core.Consumer {
	tb.Helper()
	ctx := context.Background()
	k := core.Key(core.SessionQueue, name)
	if _, err := l.engine.DeclareQueue(ctx, core.QueueSpec{Key: k, Exclusive: true, By: 1}); err != nil {
		tb.Fatal(err)
	}
	if _, err := l.engine.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: f, Value: name, By: 1}); err != nil {
		tb.Fatal(err)
	}
	c, err := l.engine.Consume(ctx, k, core.ConsumeOptions{By: 1}, r)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func (l *load) message(g core.Guarantee) *core.Message {
	m := core.NewMessage(64)
	m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, l.topic, g
	return m
}

func BenchmarkPublishOne(b *testing.B) {
	l := newLoad(b)
	s := &sink{}
	l.subscribe(b, "s", l.topic.Filter(), s)
	m := l.message(core.AtMostOnce)
	b.ReportAllocs()
	for b.Loop() {
		l.engine.Publish(&l.batch, m, nil)
	}
	if s.n != b.N {
		b.Fatalf("%d of %d delivered", s.n, b.N)
	}
}

func BenchmarkFanOut50(b *testing.B) {
	l := newLoad(b)
	s := &sink{}
	for i := range 50 {
		l.subscribe(b, fmt.Sprint(i), l.topic.Filter(), s)
	}
	m := l.message(core.AtMostOnce)
	b.ReportAllocs()
	for b.Loop() {
		l.engine.Publish(&l.batch, m, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(50*b.N), "ns/delivery")
}

// A window of 100, acknowledged one by one.
func BenchmarkQoS1(b *testing.B) {
	l := newLoad(b)
	w := &window{}
	c := l.subscribe(b, "s", l.topic.Filter(), w)
	m := l.message(core.AtLeastOnce)
	one := make([]uint64, 1)
	b.ReportAllocs()
	for b.Loop() {
		l.engine.Publish(&l.batch, m, nil)
		if len(w.seqs) < 100 {
			continue
		}
		for _, one[0] = range w.seqs {
			if err := c.Settle(&l.batch, core.Ack, one...); err != nil {
				b.Fatal(err)
			}
		}
		w.seqs = w.seqs[:0]
	}
}

// Through a queue that is full half of the time.
func BenchmarkBacklog(b *testing.B) {
	l := newLoad(b)
	w := &window{}
	r := &credit{left: 0, to: w}
	c := l.subscribe(b, "s", l.topic.Filter(), r)
	m := l.message(core.AtLeastOnce)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.engine.Publish(&l.batch, m, nil)
		if i%128 == 127 {
			r.left = 128
			c.Resume(&l.batch)
			if err := c.Settle(&l.batch, core.Ack, w.seqs...); err != nil {
				b.Fatal(err)
			}
			w.seqs = w.seqs[:0]
		}
	}
}

// credit is full when nothing is left.
type credit struct {
	left int
	to   core.Receiver
}

func (c *credit) Deliver(d core.Delivery) core.Verdict {
	if c.left == 0 {
		return core.Full
	}
	c.left--
	return c.to.Deliver(d)
}

// Several publishers into one queue.
func BenchmarkContended(b *testing.B) {
	l := newLoad(b)
	l.subscribe(b, "s", l.topic.Filter(), &sink{})
	m := l.message(core.AtMostOnce)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		batch := &core.Batch{}
		for pb.Next() {
			l.engine.Publish(batch, m, nil)
		}
	})
}

// Every publisher has a topic and a subscriber of its own.
func BenchmarkPairs(b *testing.B) {
	l := newLoad(b)
	topics := make(chan routing.Topic, 64)
	for i := range cap(topics) {
		t, err := routing.ParseTopic(fmt.Sprint("pair/", i))
		if err != nil {
			b.Fatal(err)
		}
		l.subscribe(b, fmt.Sprint(i), t.Filter(), &sink{})
		topics <- t
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		batch := &core.Batch{}
		m := l.message(core.AtMostOnce)
		m.Topic = <-topics
		for pb.Next() {
			l.engine.Publish(batch, m, nil)
		}
	})
}

// A client that subscribes and goes.
func BenchmarkComeAndGo(b *testing.B) {
	l := newLoad(b)
	k := core.Key(core.SessionQueue, "s")
	s := &sink{}
	b.ReportAllocs()
	for b.Loop() {
		c := l.subscribe(b, "s", l.topic.Filter(), s)
		c.Cancel(core.Return)
		if _, err := l.engine.DeleteQueue(context.Background(), k, core.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// The hot path does not allocate, whatever the receiver answers.
func TestPublishDoesNotAllocate(t *testing.T) {
	l := newLoad(t)
	w := &window{}
	l.subscribe(t, "a", l.topic.Filter(), &sink{})
	c := l.subscribe(t, "b", l.topic.Filter(), w)
	m := l.message(core.AtLeastOnce)
	one := make([]uint64, 1)
	n := testing.AllocsPerRun(1000, func() {
		l.engine.Publish(&l.batch, m, nil)
		one[0] = w.seqs[0]
		w.seqs = w.seqs[:0]
		if err := c.Settle(&l.batch, core.Ack, one...); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%.1f allocations a message", n)
	}
}

// An idle queue with its binding and consumer costs less than 1 KiB.
func TestIdleSubscriptionIsSmall(t *testing.T) {
	each := idleCost(t, 5000)
	t.Logf("%d bytes for a queue, binding and consumer", each)
	if each >= 1024 {
		t.Errorf("%d bytes for a queue, binding and consumer, want less than 1024", each)
	}
}

// The same with 100,000 of them.
func BenchmarkIdle100k(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(idleCost(b, 100_000)), "bytes/subscription")
	}
}

// idleCost is the memory of n idle subscriptions, for each.
func idleCost(tb testing.TB, n int) uint64 {
	tb.Helper()
	names, filters := make([]string, n), make([]routing.Filter, n)
	for i := range n {
		names[i] = fmt.Sprintf("device-%06d", i)
		f, err := routing.ParseFilter("plant/" + names[i] + "/command")
		if err != nil {
			tb.Fatal(err)
		}
		filters[i] = f
	}
	l := newLoad(tb)
	s := &sink{}
	before := heap()
	for i := range n {
		l.subscribe(tb, names[i], filters[i], s)
	}
	each := (heap() - before) / uint64(n)
	runtime.KeepAlive(l)
	return each
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
