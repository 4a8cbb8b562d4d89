package local

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/store"
	"entrepot/routing"
)

// left are the keys of messages and attempts on the disk.
func (w *workshop) left() (keys []string) {
	w.Helper()
	w.must(w.store.Sync())
	for _, kind := range []byte{keyMessage, keyAttempts} {
		first := w.engine.disk.space.key(kind)
		w.must(w.store.Scan(first, w.engine.disk.space.key(kind+1), func(key, value []byte) bool {
			number, seq := binary.BigEndian.Uint32(key[len(first):]), seqOf(key)
			keys = append(keys, fmt.Sprintf("%c of queue %d, seq %#x, value %.20x", kind, number, seq, value))
			return true
		}))
	}
	return keys
}

// nothingLeft: no message is anywhere, and the counts say so.
func (w *workshop) nothingLeft(queues ...string) {
	w.Helper()
	for _, name := range queues {
		q := w.engine.queues[core.Named(name)]
		q.mu.Lock()
		if q.waiting() != 0 || q.bytes != 0 || q.waitBytes != 0 || q.held != 0 || q.shelf.bytes != 0 || len(q.shelf.open) != 0 {
			defer func() { w.Errorf("not empty: %s", w.counts(name)) }()
		}
		q.mu.Unlock()
	}
	if keys := w.left(); len(keys) > 0 {
		w.Errorf("%d keys are left: %v", len(keys), keys[:min(len(keys), 5)])
		for _, name := range queues {
			w.Logf("number %d is %s", w.engine.queues[core.Named(name)].shelf.spool.queue, w.counts(name))
		}
	}
}

// Publishers alone and in transactions race into a queue that is on disk for
// the most part; consumers come and go, read, return and acknowledge; some of
// it is purged. Nothing confirmed is lost, nothing is left.
func TestRaceIntoTheBacklog(t *testing.T) {
	for seed := range uint64(soakRounds(4, 100)) {
		w := openWorkshop(t, store.MemoryDisk())
		r := &race{w: w, seed: seed, got: map[int]int{}}
		for _, q := range []string{"a", "b"} {
			w.declare(q, core.QueueArgs{})
		}
		topic, err := routing.NewTopic("t")
		w.must(err)
		r.topic = topic
		for _, q := range []string{"a", "b"} {
			_, err := w.engine.Bind(context.Background(), core.BindSpec{Source: core.TopicExchange, Queue: core.Named(q), Filter: topic.Filter()})
			w.must(err)
		}
		r.run()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		w.close()
	}
}

// race is one round of TestRaceIntoTheBacklog.
type race struct {
	w     *workshop
	seed  uint64
	topic routing.Topic
	next  atomic.Int64

	mu     sync.Mutex
	sure   []int       // confirmed for queue a
	got    map[int]int // acknowledged from queue a, times
	orders [][]int     // what each publisher sent to a, in order
}

func (r *race) run() {
	var publishers, consumers sync.WaitGroup
	for i := range 4 {
		publishers.Go(func() { r.publish(i) })
	}
	stop := make(chan struct{})
	for i := range 3 {
		consumers.Go(func() { r.consume(uint64(i), stop) })
	}
	publishers.Wait()
	close(stop)
	consumers.Wait()
	r.w.must(r.w.store.Sync())
	r.drain()
	for _, id := range r.sure {
		if r.got[id] == 0 {
			r.w.Errorf("%d was confirmed and is gone", id)
		}
	}
	// Queue b was never read.
	all := r.w.rest("b")
	if !slices.IsSorted(order(all, r.orders)) {
		r.w.Error("queue b is out of order")
	}
	_, err := r.w.engine.PurgeQueue(context.Background(), core.Named("b"), 0)
	r.w.must(err)
	r.w.nothingLeft("a", "b")
}

// order puts each publisher's messages into the order in which they came; it
// returns places that are sorted when every publisher's order holds.
func order(all []int, sent [][]int) (bad []int) {
	for _, ids := range sent {
		place := map[int]int{}
		for i, id := range ids {
			place[id] = i
		}
		last := -1
		for _, id := range all {
			if p, ok := place[id]; ok {
				if p < last {
					return []int{2, 1}
				}
				last = p
			}
		}
	}
	return nil
}

func (r *race) publish(kind int) {
	rng := rand.New(rand.NewPCG(r.seed, uint64(kind)))
	b := &core.Batch{}
	var wg sync.WaitGroup
	var sent []int
	for range 150 {
		var ops []core.Op
		var ids []int
		for range 1 + kind%2*rng.IntN(4) {
			id := int(r.next.Add(1))
			m := r.w.to("a", id)
			if kind >= 2 {
				m.Exchange, m.Topic = core.TopicExchange, r.topic
				sent = append(sent, id)
			}
			if rng.IntN(8) == 0 {
				m.Guarantee = core.AtLeastOnce
			}
			ops, ids = append(ops, core.Op{Message: m}), append(ids, id)
		}
		wg.Add(1)
		done := func(_ bool, err error) {
			defer wg.Done()
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil {
				r.w.Errorf("publish: %v", err)
			}
			r.sure = append(r.sure, ids...)
		}
		if len(ops) == 1 {
			r.w.engine.Publish(b, ops[0].Message, done)
		} else {
			r.w.engine.Apply(b, ops, done)
		}
		b.Flush()
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders = append(r.orders, sent)
}

// consume reads from queue a by Get or by Deliver until stop.
func (r *race) consume(n uint64, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(r.seed, 100+n))
	for {
		select {
		case <-stop:
			return
		default:
		}
		if n == 0 {
			r.pull(rng)
			continue
		}
		c := &taker{room: 1 + rng.IntN(6)}
		var err error
		c.consumer, err = r.w.engine.Consume(context.Background(), core.Named("a"), core.ConsumeOptions{}, c)
		r.w.must(err)
		for range rng.IntN(10) {
			c.mu.Lock()
			held := c.held
			c.held = nil
			c.mu.Unlock()
			for _, d := range held {
				r.settle(rng, c.consumer, d)
			}
		}
		c.consumer.Cancel(core.Requeue)
	}
}

func (r *race) pull(rng *rand.Rand) {
	c := r.w.pull("a")
	for range rng.IntN(20) {
		d, ok := c.Get()
		if !ok {
			break
		}
		r.settle(rng, c, d)
	}
	c.Cancel(core.Return)
}

func (r *race) settle(rng *rand.Rand, c core.Consumer, d core.Delivery) {
	id := int(binary.BigEndian.Uint64(d.Payload))
	switch rng.IntN(4) {
	case 0:
		r.w.must(c.Settle(nil, core.Requeue, d.Seq))
	case 1:
		r.w.must(c.Settle(nil, core.Return, d.Seq))
	default:
		r.mu.Lock()
		r.got[id]++
		if r.got[id] > 1 {
			r.w.Errorf("%d came again after it was acknowledged", id)
		}
		r.mu.Unlock()
		r.w.must(c.Settle(nil, core.Ack, d.Seq))
	}
}

// drain takes what is left of queue a.
func (r *race) drain() {
	c := r.w.pull("a")
	defer c.Cancel(core.Return)
	for {
		d, ok := c.Get()
		if !ok {
			return
		}
		r.got[int(binary.BigEndian.Uint64(d.Payload))]++
		r.w.must(c.Settle(nil, core.Ack, d.Seq))
	}
}

// A purge meets whatever else is on its way: nothing older comes after it, and
// the counts hold.
func TestPurgeInTheRace(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("a", core.QueueArgs{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ops := []core.Op{{Message: w.to("a", n)}, {Message: w.to("a", n)}}
				w.must(w.apply(ops[:1+i%2]...))
			}
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			c := w.pull("a")
			for range rng.IntN(10) {
				if d, ok := c.Get(); ok && rng.IntN(2) == 0 {
					w.must(c.Settle(nil, core.Ack, d.Seq))
				}
			}
			c.Cancel(core.Requeue)
			_, err := w.engine.PurgeQueue(context.Background(), core.Named("a"), 0)
			w.must(err)
		}
		close(stop)
	})
	wg.Wait()
	w.must(w.store.Sync())
	_, err := w.engine.PurgeQueue(context.Background(), core.Named("a"), 0)
	w.must(err)
	w.nothingLeft("a")
	w.must(w.send(w.to("a", 7)))
	w.want("a", 7)
	w = w.crash()
	defer w.close()
	w.want("a", 7)
}

// A deleted queue leaves nothing on the disk.
func TestDeleteInTheRace(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	defer w.close()
	for range 30 {
		w.declare("a", core.QueueArgs{})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for n := range 20 {
					ops := []core.Op{{Message: w.to("a", n)}, {Message: w.to("a", n)}}
					w.must(w.apply(ops[:1+i%2]...))
				}
			})
		}
		wg.Go(func() {
			if c, err := w.engine.Consume(context.Background(), core.Named("a"), core.ConsumeOptions{Pull: true}, nil); err == nil {
				c.Get()
			}
			_, err := w.engine.DeleteQueue(context.Background(), core.Named("a"), core.DeleteOptions{})
			w.must(err)
		})
		wg.Wait()
		if keys := w.left(); len(keys) > 0 {
			t.Fatalf("%d keys are left: %v", len(keys), keys[:min(len(keys), 5)])
		}
	}
}

// Attempts, limits, and what waits on disk hold over a restart.
func TestQueueOverRestart(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("a", core.QueueArgs{MaxLength: 10, HasMaxLength: true})
	for id := range 30 {
		w.must(w.send(w.to("a", id)))
	}
	c := w.pull("a")
	d, ok := c.Get()
	if !ok || binary.BigEndian.Uint64(d.Payload) != 20 {
		t.Fatalf("the oldest within the limit: %v, %v", d.Message, ok)
	}
	w.must(c.Settle(nil, core.Requeue, d.Seq))
	d, _ = c.Get()
	w.must(c.Settle(nil, core.Requeue, d.Seq))
	seq := d.Seq
	w.must(w.store.Sync())
	w = w.crash()
	info, err := w.engine.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named("a"), Durable: true,
		Args: core.QueueArgs{MaxLength: 10, HasMaxLength: true}})
	w.must(err)
	if info.Messages != 10 || info.Bytes != 80 {
		t.Fatalf("after the restart: %+v", info)
	}
	c = w.pull("a")
	d, ok = c.Get()
	if !ok || d.Seq != seq || d.Attempts != 2 {
		t.Fatalf("what came back twice: %+v, %v", d, ok)
	}
	w.must(c.Settle(nil, core.Ack, d.Seq))
	c.Cancel(core.Return)
	w.must(w.send(w.to("a", 30)))
	w.must(w.send(w.to("a", 31)))
	w.want("a", 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)
	_, err = w.engine.PurgeQueue(context.Background(), core.Named("a"), 0)
	w.must(err)
	w.nothingLeft("a")
	w.must(w.store.Sync())
	w = w.crash()
	defer w.close()
	w.want("a")
}

// Durable and transient messages share a backlog in order; a restart keeps the
// durable ones.
func TestMixedBacklogOverRestart(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("a", core.QueueArgs{})
	var all, durable []int
	for id := range 40 {
		m := w.to("a", id)
		if id%3 == 0 {
			m.Guarantee = core.Guarantee(id % 2) // AtMostOnce or AtLeastOnce
		} else {
			durable = append(durable, id)
		}
		all = append(all, id)
		w.must(w.send(m))
	}
	w.want("a", all...)
	w.must(w.store.Sync())
	w = w.crash()
	w.want("a", durable...)
	// Another start of the same disk, as what was stale is removed by now.
	w.must(w.store.Sync())
	w = w.crash()
	defer w.close()
	w.want("a", durable...)
	info, err := w.engine.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named("a"), Passive: true})
	w.must(err)
	if info.Messages != len(durable) {
		t.Fatalf("%d messages, want %d", info.Messages, len(durable))
	}
	if n := len(w.left()); n != len(durable) {
		t.Fatalf("%d keys on disk, want %d", n, len(durable))
	}
}

// What a binding asks for at most once is never on disk, even durable and
// behind a backlog of others; a named queue keeps it in memory or spills it.
func TestAtMostOnceWithBacklog(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("a", core.QueueArgs{})
	topic, err := routing.NewTopic("t")
	w.must(err)
	_, err = w.engine.Bind(context.Background(), core.BindSpec{Source: core.TopicExchange, Queue: core.Named("a"), Filter: topic.Filter(), AtMostOnce: true})
	w.must(err)
	for id := range 20 {
		m := w.to("a", id)
		if id%2 == 1 {
			m.Exchange, m.Topic = core.TopicExchange, topic
		}
		w.must(w.send(m))
	}
	w.want("a", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	w.must(w.store.Sync())
	w = w.crash()
	defer w.close()
	w.want("a", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18)
}

// Time goes on for what is on disk, and while the broker is down.
func TestExpiryOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWorkshop(t, store.MemoryDisk())
		w.declare("own", core.QueueArgs{})
		w.declare("queue", core.QueueArgs{MessageTTL: 10 * time.Second, HasMessageTTL: true})
		for id := range 20 {
			m := w.to("own", id)
			if id%2 == 0 {
				m.Props = &core.Properties{HasTTL: true, TTL: 10 * time.Second, Expires: time.Now().Add(10 * time.Second)}
			}
			w.must(w.send(m))
			w.must(w.send(w.to("queue", id)))
		}
		time.Sleep(9 * time.Second)
		w.want("own", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
		if n := len(w.rest("queue")); n != 20 {
			t.Fatalf("%d messages, want 20", n)
		}
		w = w.crash()
		if n := len(w.rest("queue")); n != 20 {
			t.Fatalf("%d messages after the restart, want 20", n)
		}
		time.Sleep(2 * time.Second)
		w.want("own", 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
		w.want("queue")
		synctest.Wait()
		w.must(w.store.Sync())
		if n := len(w.left()); n != 10 {
			t.Fatalf("%d keys on disk, want 10", n)
		}
		w.close()
	})
}

// Damage in one queue's messages stops that queue, which says so; others go on.
// A purge sets it going again.
// It shows fault 70.
func TestDamageStopsItsQueueAlone(t *testing.T) {
	first := openWorkshop(t, store.MemoryDisk())
	for _, q := range []string{"a", "b", "c"} {
		first.declare(q, core.QueueArgs{})
	}
	for id := range 300 {
		for _, q := range []string{"a", "b", "c"} {
			m := first.to(q, id)
			m.Payload = append(slices.Clone(m.Payload), strings.Repeat(fmt.Sprint(q, id), 40)...)
			first.must(first.send(m))
		}
	}
	before := first.disk
	first.close()
	names, err := before.List("data")
	first.must(err)
	stopped := map[string]int{}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		size, err := before.Size("data/" + name)
		first.must(err)
		for off := int64(0); off < size; off += max(size/25, 1) {
			d := before.Crash(100, 1)
			first.must(d.FlipBit("data/"+name, off))
			if q := oneStopped(t, d, off); q != "" {
				stopped[q]++
			}
		}
	}
	t.Logf("stopped: %v", stopped)
	if len(stopped) < 2 {
		t.Fatalf("stopped: %v", stopped)
	}
}

// oneStopped opens a damaged disk and returns which queue stopped.
func oneStopped(t *testing.T, d *store.Disk, off int64) (stopped string) {
	t.Helper()
	st, err := store.Open("data", store.Options{Disk: d})
	if err != nil {
		t.Fatalf("byte %d: %v", off, err)
	}
	e, err := Open(slog.New(slog.DiscardHandler), st, "/")
	if err != nil {
		// The block with the queues themselves.
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		return ""
	}
	w := &workshop{t, d, st, e, nil}
	defer w.close()
	e.window = windowSize{count: 4, bytes: 1 << 20}
	for _, q := range []string{"a", "b", "c"} {
		got := w.rest(q)
		err := w.send(w.to(q, 300))
		switch {
		case err == nil && len(got) == 300:
		case err != nil && strings.Contains(err.Error(), "damaged") && len(got) < 300:
			if stopped += q; len(stopped) > 2 {
				t.Fatalf("byte %d: queues %s stopped", off, stopped)
			}
			_, err := e.PurgeQueue(context.Background(), core.Named(q), 0)
			w.must(err)
			w.must(w.send(w.to(q, 301)))
			w.want(q, 301)
		default:
			t.Fatalf("byte %d: queue %s has %d messages, a new one is answered with %v", off, q, len(got), err)
		}
	}
	return stopped
}

// A disk that does not read for a while stops nobody for good.
func TestReadErrorsPass(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("a", core.QueueArgs{})
	for id := range 50 {
		w.must(w.send(w.to("a", id)))
	}
	d := w.disk
	w.close()
	w = openWorkshop(t, d) // what was in memory is in a table now
	defer w.close()
	c := &taker{room: 100}
	d.Fail("read", ".sst", syscall.EIO)
	var err error
	c.consumer, err = w.engine.Consume(context.Background(), core.Named("a"), core.ConsumeOptions{}, c)
	w.must(err)
	d.Heal()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		c.mu.Lock()
		n := len(c.held)
		c.mu.Unlock()
		if n == 50 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 50 messages came", n)
		}
	}
}
