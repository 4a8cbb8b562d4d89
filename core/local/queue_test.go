package local

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
)

// bench is an engine with one named queue.
type bench struct {
	*testing.T
	engine *Engine
	queue  *queue
	drops  *core.Drops
}

func newBench(t *testing.T, edits ...func(*core.QueueSpec)) *bench {
	t.Helper()
	b := &bench{T: t, engine: New(quiet()), drops: &core.Drops{}}
	s := core.QueueSpec{Key: core.Named("q"), Drops: b.drops}
	for _, edit := range edits {
		edit(&s)
	}
	if _, err := b.engine.DeclareQueue(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b.queue = b.engine.queues[s.Key]
	return b
}

func (b *bench) publish(batch *core.Batch, p *core.Properties) {
	b.Helper()
	m := core.NewMessage(1)
	m.Topic, m.Guarantee, m.Props = topic(b.T, "q"), core.AtLeastOnce, p
	if p != nil && p.HasTTL {
		p.Expires = time.Now().Add(p.TTL)
	}
	b.engine.Publish(batch, m, nil)
}

func (b *bench) consume(r core.Receiver, o core.ConsumeOptions) core.Consumer {
	b.Helper()
	c, err := b.engine.Consume(context.Background(), b.queue.key, o, r)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *bench) clocks() (expiry, idle bool) {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.expiry != nil, b.queue.idle != nil
}

func second() *core.Properties { return &core.Properties{TTL: time.Second, HasTTL: true} }

// receiver is a function as a receiver.
type receiver func(core.Delivery) core.Verdict

func (f receiver) Deliver(d core.Delivery) core.Verdict { return f(d) }

func settled(core.Delivery) core.Verdict { return core.Settled }

// An idle queue has no timer and no goroutine, also after it had messages that
// expire.
func TestIdleQueueHasNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		batch := &core.Batch{}
		b.publish(batch, second())
		if expiry, _ := b.clocks(); !expiry {
			t.Fatal("no timer for a message that expires")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if expiry, idle := b.clocks(); expiry || idle {
			t.Errorf("an empty queue has clocks: %v %v", expiry, idle)
		}
		b.consume(receiver(settled), core.ConsumeOptions{})
		b.publish(batch, second())
		if expiry, _ := b.clocks(); expiry {
			t.Error("a timer for a message that was handed over")
		}
	})
}

func TestDeletedQueueHasNoClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(s *core.QueueSpec) { s.Args.Expires = time.Minute })
		b.publish(&core.Batch{}, second())
		if expiry, idle := b.clocks(); !expiry || !idle {
			t.Fatal("clocks are missing")
		}
		if _, err := b.engine.DeleteQueue(t.Context(), core.Named("q"), core.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if expiry, idle := b.clocks(); expiry || idle {
			t.Errorf("a deleted queue has clocks: %v %v", expiry, idle)
		}
		// Timers that had fired already find a dead queue.
		b.queue.sweep()
		b.queue.unused()
		if expiry, idle := b.clocks(); expiry || idle {
			t.Errorf("a late timer set another: %v %v", expiry, idle)
		}
	})
}

// One timer serves many messages whose deadlines rise.
func TestOneTimerForManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		batch := &core.Batch{}
		b.publish(batch, second())
		timer := func() (*time.Timer, time.Duration) {
			b.queue.mu.Lock()
			defer b.queue.mu.Unlock()
			return b.queue.expiry, b.queue.armed
		}
		first, armed := timer()
		left := 5
		c := b.consume(receiver(func(core.Delivery) core.Verdict {
			if left == 0 {
				return core.Full
			}
			left--
			return core.Settled
		}), core.ConsumeOptions{})
		for range 10 {
			time.Sleep(time.Millisecond)
			b.publish(batch, second())
			c.Resume(nil)
		}
		if now, at := timer(); now != first || at != armed {
			t.Error("the timer was set again while it was early enough")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := b.queue.info().Messages; n != 0 {
			t.Errorf("%d messages did not expire", n)
		}
	})
}

// A caller hands over no more than its turn of a backlog; a goroutine goes on.
func TestDrainerIsRelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const backlog = 10 * drainTurn
		own := &core.Batch{}
		for range backlog {
			b.publish(own, nil)
		}
		var mine, others int
		c := b.consume(receiver(func(d core.Delivery) core.Verdict {
			if d.Batch == own {
				mine++
			} else {
				others++
			}
			return core.Settled
		}), core.ConsumeOptions{Paused: true})
		c.Resume(own)
		if mine > drainTurn {
			t.Errorf("the caller handed over %d, its turn is %d", mine, drainTurn)
		}
		synctest.Wait()
		if mine+others != backlog {
			t.Errorf("%d of %d handed over", mine+others, backlog)
		}
	})
}

// A publisher that meets a steady stream of others' messages gets back to its
// own work.
func TestPublisherIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first := &core.Batch{}
		var mine int
		b.consume(receiver(func(d core.Delivery) core.Verdict {
			if d.Batch == first {
				mine++
				if mine > 2*drainTurn {
					t.Error("the publisher carries on for ever")
					return core.Full
				}
				b.publish(&core.Batch{}, nil) // somebody else, as soon as one is gone
			}
			return core.Settled
		}), core.ConsumeOptions{})
		b.publish(first, nil)
		synctest.Wait()
		if n := b.queue.info().Messages; n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// The receiver that goes away while a goroutine drains ends the goroutine.
func TestReliefEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 4 * drainTurn {
			b.publish(&core.Batch{}, nil)
		}
		var c core.Consumer
		var n int
		stop := make(chan struct{})
		c = b.consume(receiver(func(core.Delivery) core.Verdict {
			if n++; n == drainTurn+10 {
				close(stop)
			}
			return core.Held
		}), core.ConsumeOptions{Paused: true})
		c.Resume(nil)
		<-stop
		c.Cancel(core.Return)
		synctest.Wait() // and the bubble ends only when no goroutine is left
		i := b.queue.info()
		if i.Messages != 4*drainTurn || i.Unsettled != 0 {
			t.Errorf("%d ready, %d out", i.Messages, i.Unsettled)
		}
	})
}

// The round of consumers stays whole while they come, go and fill up.
func TestPickAgainstPlainSearch(t *testing.T) {
	for seed := range uint64(30) {
		d := dice(seed)
		b := newBench(t)
		q := b.queue
		var all []*consumer
		for range 300 {
			q.mu.Lock()
			switch {
			case len(all) < 3 || d.IntN(6) == 0 && len(all) < 12:
				q.mu.Unlock()
				c := b.consume(receiver(settled), core.ConsumeOptions{Paused: true, Priority: d.IntN(3)}).(*consumer)
				all = append(all, c)
				continue
			case d.IntN(8) == 0:
				i := d.IntN(len(all))
				all[i].detach()
				all = append(all[:i], all[i+1:]...)
			default:
				all[d.IntN(len(all))].setFull(d.IntN(2) == 0)
			}
			wantPick(t, q, all)
			q.mu.Unlock()
		}
	}
}

// wantPick: one with room of the highest priority, and in turn.
func wantPick(t *testing.T, q *queue, all []*consumer) {
	t.Helper()
	free, highest := 0, -1
	for _, c := range all {
		if !c.full {
			free++
			highest = max(highest, c.opts.Priority)
		}
	}
	if q.free != free {
		t.Fatalf("%d have room, counted %d", free, q.free)
	}
	if free == 0 {
		return
	}
	round := map[*consumer]int{}
	equals := 0
	for _, c := range all {
		if !c.full && c.opts.Priority == highest {
			equals++
		}
	}
	for range 2 * equals {
		c := q.pick()
		if c.full || c.opts.Priority != highest {
			t.Fatalf("picked one that is full (%v) or of priority %d, highest %d", c.full, c.opts.Priority, highest)
		}
		round[c]++
	}
	for _, n := range round {
		if n != 2 {
			t.Fatalf("in two rounds one was picked %d times", n)
		}
	}
}

// The engine lock is free while a queue is busy: declares, binds and routes of
// others do not wait for a Deliver.
func TestTopologyIsFreeDuringDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		inside, leave := make(chan struct{}), make(chan struct{})
		b.consume(receiver(func(core.Delivery) core.Verdict {
			close(inside)
			<-leave
			return core.Settled
		}), core.ConsumeOptions{})
		var wg sync.WaitGroup
		wg.Go(func() { b.publish(&core.Batch{}, nil) })
		<-inside
		declare(t, b.engine, core.Named("other"))
		bindTo(t, b.engine, core.TopicExchange, "a", core.Named("other"), nil)
		routeOf(t, b.engine, "a")
		declare(t, b.engine, core.Named("q")) // its own lock is free, too
		b.engine.Stats()
		close(leave)
		wg.Wait()
	})
}

// When a consumer leaves, the turn stays whose it was.
func TestTurnAfterAConsumerLeaves(t *testing.T) {
	b := newBench(t)
	var order []int
	var consumers []core.Consumer
	for i := range 4 {
		consumers = append(consumers, b.consume(receiver(func(core.Delivery) core.Verdict {
			order = append(order, i)
			return core.Settled
		}), core.ConsumeOptions{}))
	}
	batch := &core.Batch{}
	b.publish(batch, nil)
	b.publish(batch, nil)
	consumers[0].Cancel(core.Requeue)
	b.publish(batch, nil)
	consumers[3].Cancel(core.Requeue)
	for range 3 {
		b.publish(batch, nil)
	}
	if want := []int{0, 1, 2, 1, 2, 1}; !slices.Equal(order, want) {
		t.Errorf("turns %v, want %v", order, want)
	}
}

// A declare, get or consumer at the last moment keeps the queue from going by
// x-expires.
func TestExpiryLosesToUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(s *core.QueueSpec) { s.Args.Expires = time.Minute })
		expire := func() error {
			_, err := b.engine.remove(b.queue, closing{idle: true})
			return err
		}
		time.Sleep(time.Minute - time.Millisecond)
		b.queue.used()
		if err := expire(); !errors.Is(err, core.ErrInUse) {
			t.Errorf("a queue that was declared again went: %v", err)
		}
		b.queue.unused() // as the timer would, had it fired just before
		c := b.consume(receiver(settled), core.ConsumeOptions{})
		time.Sleep(time.Hour)
		if err := expire(); !errors.Is(err, core.ErrInUse) {
			t.Errorf("a queue with a consumer went: %v", err)
		}
		c.Cancel(core.Requeue)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := b.engine.Stats().Queues; n != 0 {
			t.Errorf("%d queues, want none", n)
		}
	})
}
