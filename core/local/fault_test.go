package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/store"
	"entrepot/routing"
)

// bench is an engine on a disk in memory, with a small window, whose disk can
// be made to fail.
type workshop struct {
	*testing.T
	disk   *store.Disk
	store  *store.Store
	engine *Engine
	states chan error
}

func openWorkshop(t *testing.T, d *store.Disk) *workshop {
	t.Helper()
	st, err := store.Open("data", store.Options{Disk: d, RetryEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(slog.New(slog.DiscardHandler), st, "/")
	if err != nil {
		t.Fatal(err)
	}
	e.window, e.tries = windowSize{count: 4, bytes: 1 << 20}, 1<<30
	w := &workshop{t, d, st, e, make(chan error, 16)}
	st.Watch(func(err error) { w.states <- err })
	return w
}

func (w *workshop) close() {
	w.Helper()
	if err := w.store.Close(); err != nil {
		w.Fatal(err)
	}
}

// crash is the same after a power cut that kept only what was synced.
func (w *workshop) crash() *workshop {
	w.Helper()
	d := w.disk.Crash(0, 1)
	w.close()
	return openWorkshop(w.T, d)
}

func (w *workshop) state(works bool) {
	w.Helper()
	select {
	case err := <-w.states:
		if works != (err == nil) {
			w.Fatalf("state %v", err)
		}
	case <-time.After(20 * time.Second):
		w.Fatal("no change of state")
	}
}

func (w *workshop) declare(name string, args core.QueueArgs) {
	w.Helper()
	if _, err := w.engine.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(name), Durable: true, Args: args}); err != nil {
		w.Fatal(err)
	}
}

// to is a durable message for a named queue.
func (w *workshop) to(queue string, id int) *core.Message {
	w.Helper()
	a, err := core.QueueAddress(queue)
	if err != nil {
		w.Fatal(err)
	}
	m := core.NewMessage(8)
	binary.BigEndian.PutUint64(m.Payload, uint64(id))
	m.Topic, m.Guarantee = a.Topic, core.Durable
	return m
}

// send publishes and waits for the answer.
func (w *workshop) send(m *core.Message) error {
	return w.apply(core.Op{Message: m})
}

func (w *workshop) apply(ops ...core.Op) error {
	done := make(chan error, 1)
	b := &core.Batch{}
	f := func(_ bool, err error) { done <- err }
	if len(ops) == 1 && ops[0].Message != nil {
		w.engine.Publish(b, ops[0].Message, f)
	} else {
		w.engine.Apply(b, ops, f)
	}
	b.Flush()
	return <-done
}

func (w *workshop) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *workshop) pull(queue string) core.Consumer {
	w.Helper()
	c, err := w.engine.Consume(context.Background(), core.Named(queue), core.ConsumeOptions{Pull: true}, nil)
	w.must(err)
	return c
}

// rest takes all that waits in a queue and gives it back.
func (w *workshop) rest(queue string) []int {
	w.Helper()
	c := w.pull(queue)
	defer c.Cancel(core.Return)
	var ids []int
	for {
		d, ok := c.Get()
		if !ok {
			return ids
		}
		ids = append(ids, int(binary.BigEndian.Uint64(d.Payload)))
	}
}

func (w *workshop) want(queue string, ids ...int) {
	w.Helper()
	if got := w.rest(queue); !slices.Equal(got, ids) {
		w.Fatalf("%s has %v, want %v", queue, got, ids)
	}
}

// counts is what a queue knows of itself, for a failure.
func (w *workshop) counts(queue string) string {
	q := w.engine.queues[core.Named(queue)]
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.shelf
	return fmt.Sprintf("%s: %d ready, %d back, %d late, %d bytes, %d of them waiting, %d out; "+
		"on disk %d, %d bytes, next %#x, applied %#x, last %#x, %d open, %d flying, %d void, %d revoked, fault %v; draining %v",
		queue, q.ready.len(), len(q.back), len(q.late), q.bytes, q.waitBytes, q.held,
		s.n, s.bytes, s.next, s.applied, q.lastSeq, len(s.open), s.flying, len(s.void), len(s.revoked), s.fault, q.draining)
}

// fail breaks the disk under a publish.
func (w *workshop) fail(what, part string, err error) {
	w.Helper()
	w.disk.Fail(what, part, err)
	m := w.to("broken", 0)
	if err := w.send(m); !errors.Is(err, core.ErrFull) || !strings.Contains(err.Error(), "disk") {
		w.Fatalf("publish on a failing disk: %v", err)
	}
	w.state(false)
}

func (w *workshop) heal() {
	w.Helper()
	w.disk.Heal()
	w.state(true)
}

// Publishers and consumers go on over a failure and a recovery of the disk:
// nothing is confirmed that is lost, in memory or after a crash.
// It shows fault 71.
// It shows fault 106.
func TestDiskFailsUnderPublishers(t *testing.T) {
	for _, f := range []struct {
		what, part string
		err        error
	}{{"sync", ".log", io.ErrUnexpectedEOF}, {"write", ".log", syscall.ENOSPC}, {"sync", "", syscall.EIO}, {"write", "", syscall.EROFS}} {
		t.Run(fmt.Sprint(f.what, f.part, f.err), func(t *testing.T) {
			w := openWorkshop(t, store.MemoryDisk())
			for _, q := range []string{"a", "b"} {
				w.declare(q, core.QueueArgs{})
			}
			topic, err := routing.NewTopic("t")
			w.must(err)
			for _, q := range []string{"a", "b"} {
				_, err := w.engine.Bind(context.Background(), core.BindSpec{Source: core.TopicExchange, Queue: core.Named(q), Filter: topic.Filter()})
				w.must(err)
			}
			w.must(w.store.Sync())
			p := &publishers{w: w, topic: topic, sure: map[string]map[int]bool{"a": {}, "b": {}}}
			stop := make(chan struct{})
			wg := p.run(stop)
			for range 2 {
				p.await(20)
				w.disk.Fail(f.what, f.part, f.err)
				w.state(false)
				w.heal()
			}
			p.await(20)
			close(stop)
			wg.Wait()
			w.must(w.store.Sync())
			acked := map[int]bool{}
			c := w.pull("a")
			for range 10 {
				d, ok := c.Get()
				if !ok {
					t.Fatalf("queue a is empty: %d confirmed; %s", len(p.sure["a"]), w.counts("a"))
				}
				acked[int(binary.BigEndian.Uint64(d.Payload))] = true
				w.must(c.Settle(nil, core.Ack, d.Seq))
			}
			c.Cancel(core.Return)
			p.check("in memory", acked)
			w.must(w.store.Sync())
			p.w = w.crash()
			p.check("after a crash", acked)
			p.w.close()
		})
	}
}

// publishers send to one queue or both, alone or in transactions.
type publishers struct {
	w     *workshop
	topic routing.Topic
	next  atomic.Int64
	mu    sync.Mutex
	sure  map[string]map[int]bool // confirmed, by queue
}

func (p *publishers) run(stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for kind := range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.one(kind)
				}
			}
		})
	}
	return &wg
}

// one publishes in one of four ways and notes what is confirmed.
func (p *publishers) one(kind int) {
	var ops []core.Op
	sent := map[string][]int{}
	add := func(queues ...string) {
		id := int(p.next.Add(1))
		m := p.w.to(queues[0], id)
		if len(queues) == 2 {
			m.Exchange, m.Topic = core.TopicExchange, p.topic
		}
		ops = append(ops, core.Op{Message: m})
		for _, q := range queues {
			sent[q] = append(sent[q], id)
		}
	}
	switch kind {
	case 0:
		add("a")
	case 1:
		add("a", "b")
	case 2:
		add("a")
		add("a", "b")
	default:
		add("b")
	}
	err := p.w.apply(ops...)
	if err != nil && !errors.Is(err, core.ErrFull) {
		p.w.Errorf("publish: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for q, ids := range sent {
		for _, id := range ids {
			if err == nil {
				p.sure[q][id] = true
			}
		}
	}
}

// await waits for n more confirmations for each queue: for some time on one
// core all may come from one publisher.
func (p *publishers) await(n int) {
	p.w.Helper()
	count := func() (a, b int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.sure["a"]), len(p.sure["b"])
	}
	beginA, beginB := count()
	p.w.awaitThat("both queues get messages", func() bool {
		a, b := count()
		return a >= beginA+n && b >= beginB+n
	})
}

func (p *publishers) check(when string, acked map[int]bool) {
	p.w.Helper()
	for _, q := range []string{"a", "b"} {
		have := map[int]bool{}
		for _, id := range p.w.rest(q) {
			if have[id] {
				p.w.Fatalf("%s: queue %s has %d twice", when, q, id)
			}
			have[id] = true
			if q == "a" && acked[id] {
				p.w.Fatalf("%s: %d was acknowledged and is back", when, id)
			}
		}
		for id := range p.sure[q] {
			if !have[id] && !(q == "a" && acked[id]) {
				p.w.Fatalf("%s: queue %s: %d was confirmed and is gone; %d there, %d confirmed", when, q, id, len(have), len(p.sure[q]))
			}
		}
	}
}

// A queue that was declared while the disk failed is on disk before anything
// in it is confirmed; one that was deleted meanwhile stays away.
func TestTopologyOverAFailure(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	ctx := context.Background()
	for _, q := range []string{"broken", "old"} {
		w.declare(q, core.QueueArgs{})
	}
	w.must(w.engine.DeclareExchange(ctx, core.ExchangeSpec{Name: "gone", Kind: routing.Fanout, Durable: true}))
	w.must(w.send(w.to("old", 1)))
	w.fail("sync", ".log", syscall.EIO)
	w.declare("new", core.QueueArgs{MaxLength: 10, HasMaxLength: true})
	w.must(w.engine.DeclareExchange(ctx, core.ExchangeSpec{Name: "x", Kind: routing.Fanout, Durable: true}))
	_, err := w.engine.Bind(ctx, core.BindSpec{Source: "x", Queue: core.Named("new")})
	w.must(err)
	if _, err := w.engine.DeleteQueue(ctx, core.Named("old"), core.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.must(w.engine.DeleteExchange(ctx, "gone", false))
	w.heal()
	m := w.to("new", 2)
	m.Exchange = "x"
	w.must(w.send(m))
	w = w.crash()
	defer w.close()
	w.want("new", 2)
	if info, err := w.engine.DeclareQueue(ctx, core.QueueSpec{Key: core.Named("old"), Passive: true}); err == nil {
		t.Fatalf("a deleted queue is back: %+v", info)
	}
	if err := w.engine.DeclareExchange(ctx, core.ExchangeSpec{Name: "gone", Passive: true}); !errors.Is(err, core.ErrNotFound) {
		t.Fatalf("a deleted exchange is back: %v", err)
	}
	m = w.to("new", 3)
	m.Exchange = "x"
	w.must(w.send(m))
	w.want("new", 2, 3)
}

// What is acknowledged while the disk fails stays acknowledged.
// It shows fault 71.
func TestAcksOverAFailure(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("broken", core.QueueArgs{})
	w.declare("a", core.QueueArgs{})
	for id := range 20 {
		w.must(w.send(w.to("a", id)))
	}
	w.fail("write", ".log", syscall.ENOSPC)
	c := w.pull("a")
	for range 10 {
		d, ok := c.Get()
		if !ok {
			t.Fatal("reading stopped with the writing")
		}
		w.must(c.Settle(nil, core.Ack, d.Seq))
	}
	c.Cancel(core.Return)
	w.heal()
	w.must(w.store.Sync())
	w = w.crash()
	defer w.close()
	w.want("a", 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
}

// A transaction that the disk refuses gives back what it acknowledged.
func TestRefusedTransactionGivesBack(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("broken", core.QueueArgs{})
	w.declare("a", core.QueueArgs{})
	w.declare("b", core.QueueArgs{})
	w.must(w.send(w.to("a", 1)))
	w.must(w.send(w.to("a", 2)))
	c := w.pull("a")
	d, ok := c.Get()
	if !ok {
		t.Fatal("nothing to get")
	}
	w.disk.Fail("sync", ".log", syscall.EIO)
	err := w.apply(core.Op{Message: w.to("b", 3)}, core.Op{Consumer: c, Seq: d.Seq, Outcome: core.Ack})
	if !errors.Is(err, core.ErrFull) {
		t.Fatalf("transaction: %v", err)
	}
	w.state(false)
	again, ok := c.Get()
	if !ok || again.Seq != d.Seq || again.Attempts != 1 {
		t.Fatalf("what was acknowledged in vain: %+v, %v", again, ok)
	}
	c.Cancel(core.Return)
	w.heal()
	w.want("a", 1, 2)
	w.must(w.store.Sync())
	w = w.crash()
	defer w.close()
	w.want("a", 1, 2)
}

// What was refused and waits on disk only is nowhere, also when it came there.
func TestRefusedAndSpilled(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("a", core.QueueArgs{})
	for id := range 8 { // the window is 4
		w.must(w.send(w.to("a", id)))
	}
	w.disk.Fail("sync", ".log", syscall.EIO)
	// Written, but not synced.
	if err := w.send(w.to("a", 8)); !errors.Is(err, core.ErrFull) {
		t.Fatalf("publish: %v", err)
	}
	w.state(false)
	w.heal()
	w.must(w.send(w.to("a", 9)))
	info, err := w.engine.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named("a"), Passive: true})
	w.must(err)
	if info.Messages != 9 {
		t.Fatalf("%d messages, want 9", info.Messages)
	}
	w.want("a", 0, 1, 2, 3, 4, 5, 6, 7, 9)
	w.must(w.store.Sync())
	w = w.crash()
	defer w.close()
	w.want("a", 0, 1, 2, 3, 4, 5, 6, 7, 9)
}
