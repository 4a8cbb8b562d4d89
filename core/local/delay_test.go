package local

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// inTime makes a message one for a later time.
func inTime(m *core.Message, d time.Duration) *core.Message {
	m.Props = &core.Properties{Delay: d, Due: time.Now().Add(d)}
	return m
}

// Fault 83: what is confirmed and waits outlives a power cut, and what was due
// meanwhile comes at once, in order.
func TestDelayedOutliveACrash(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", core.QueueArgs{})
	due := time.Now().Add(time.Second)
	for id := range 10 {
		m := inTime(w.to("q", id), 0)
		m.Props.Due = due.Add(-time.Duration(id) * 10 * time.Millisecond)
		w.must(w.send(m))
	}
	for id := range 5 {
		w.must(w.send(inTime(w.to("q", 100+id), time.Hour)))
	}
	light := w.to("q", 200)
	light.Guarantee = core.AtLeastOnce
	w.must(w.send(inTime(light, time.Hour)))
	w = w.crash()
	w.await("q", 10)
	w.want("q", 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
	list, err := w.engine.Delayed("", 100)
	w.must(err)
	if len(list) != 5 || w.engine.Stats().Delayed != 5 { // what is not durable is kept until a restart
		t.Errorf("%d wait", len(list))
	}
	w.close()
}

// A disk that fails under what is due sends nothing twice and loses nothing.
func TestDiskFailsUnderDelayed(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", core.QueueArgs{})
	w.declare("broken", core.QueueArgs{})
	const n = 200
	for id := range n {
		w.must(w.send(inTime(w.to("q", id), 300*time.Millisecond)))
	}
	w.fail("sync", ".log", io.ErrUnexpectedEOF)
	w.heal()
	w.awaitThat("all are sent on", func() bool { return w.engine.Stats().Delayed == 0 })
	w.must(w.store.Sync())
	count := func(when string) {
		seen := map[int]bool{}
		for _, id := range w.rest("q") {
			if seen[id] {
				t.Errorf("%s: %d came twice", when, id)
			}
			seen[id] = true
		}
		if len(seen) != n {
			t.Errorf("%s: %d of %d", when, len(seen), n)
		}
	}
	count("in memory")
	w = w.crash()
	count("after a crash")
	w.close()
}

// A delayed message whose sending was refused may be written as sent
// nevertheless; it stays where it was, once.
func TestDelayedOutliveARefusal(t *testing.T) {
	for range 8 {
		w := openWorkshop(t, store.MemoryDisk())
		w.declare("q", core.QueueArgs{})
		for id := range 3 {
			w.must(w.send(inTime(w.to("q", id), time.Hour)))
		}
		fire := func() (refused bool) {
			list, err := w.engine.Delayed("", 10)
			w.must(err)
			w.disk.Fail("sync", ".log", io.ErrUnexpectedEOF)
			return w.engine.FireDelayed(list[0].ID) != nil
		}
		if !fire() {
			t.Fatal("a failing disk took it")
		}
		w.state(false)
		w.heal()
		for range 2 {
			// What is written anew is listed when that is done.
			w.awaitThat("each is in one place", func() bool {
				list, err := w.engine.Delayed("", 10)
				w.must(err)
				return len(list)+len(w.rest("q")) == 3 && w.engine.Stats().Delayed == len(list)
			})
			w.must(w.store.Sync())
			w = w.crash()
		}
		list, err := w.engine.Delayed("", 10)
		w.must(err)
		for i := range list {
			w.must(w.engine.FireDelayed(list[i].ID))
		}
		w.want("q", 0, 1, 2)
		w.close()
	}
}

// A delayed message that the disk refused does not come.
func TestRefusedDelayedDoesNotCome(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", core.QueueArgs{})
	w.disk.Fail("sync", ".log", io.ErrUnexpectedEOF)
	if err := w.send(inTime(w.to("q", 1), time.Millisecond)); err == nil {
		t.Fatal("a failing disk took it")
	}
	w.state(false)
	w.heal()
	w.must(w.send(inTime(w.to("q", 2), time.Millisecond)))
	w.await("q", 1)
	w.want("q", 2)
	w.must(w.store.Sync())
	w = w.crash()
	w.want("q", 2)
	if n := w.engine.Stats().Delayed; n != 0 {
		t.Errorf("%d wait", n)
	}
	w.close()
}

// Faults 82 and 83: after a jump of the clock what is due comes within a
// second, in order; a jump back sends nothing early.
func TestDelayedAfterAJumpOfTheClock(t *testing.T) {
	for _, open := range []func(*testing.T) *Engine{inMemory, onDisk} {
		synctest.Test(t, func(t *testing.T) {
			w := &workshop{T: t, engine: open(t)}
			w.declare("q", core.QueueArgs{})
			jump := time.Duration(0)
			d := w.engine.delays
			set := func(to time.Duration) {
				d.mu.Lock()
				defer d.mu.Unlock()
				jump = to
			}
			d.wall = func() time.Time { return time.Now().Add(jump) }
			for id, wait := range []time.Duration{2 * time.Hour, time.Hour, time.Hour, time.Minute} {
				w.must(w.send(inTime(w.to("q", id), wait)))
			}
			at := func(wait time.Duration, want ...int) {
				t.Helper()
				time.Sleep(wait)
				synctest.Wait()
				w.want("q", want...)
			}
			at(time.Second)
			set(time.Hour)
			at(time.Second, 3, 1, 2)
			set(-time.Hour)
			at(90*time.Minute, 3, 1, 2)
			set(0)
			at(31*time.Minute, 3, 1, 2, 0)
		})
	}
}

// What the broker would need to hold a million is not in memory.
func BenchmarkDelayedMillion(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		b.StopTimer()
		benchDelayed(b, fmt.Sprint(dir, "/", b.N), 1_000_000)
		b.StartTimer()
	}
}

func benchDelayed(b *testing.B, dir string, n int) {
	open := func() (*Engine, *store.Store) {
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		e, err := Open(quiet(), st, "/")
		if err != nil {
			b.Fatal(err)
		}
		return e, st
	}
	e, st := open()
	if _, err := e.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named("q"), Durable: true}); err != nil {
		b.Fatal(err)
	}
	a, err := core.QueueAddress("q")
	if err != nil {
		b.Fatal(err)
	}
	batch := &core.Batch{}
	began := time.Now()
	for i := range n {
		m := core.NewMessage(64)
		m.Topic, m.Guarantee = a.Topic, core.Durable
		inTime(m, time.Hour+time.Duration(i%1000)*time.Second)
		e.Publish(batch, m, nil)
	}
	if err := st.Sync(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "delayed/s")
	b.ReportMetric(float64(heap())/(1<<20), "MiB-heap")
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	began = time.Now()
	e, st = open()
	b.ReportMetric(time.Since(began).Seconds(), "s-restart")
	if e.Stats().Delayed != n {
		b.Fatalf("%d of %d", e.Stats().Delayed, n)
	}
	worst := benchFiring(b, e)
	b.ReportMetric(worst.Seconds(), "s-late")
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

// lateness notes how late messages come.
type lateness struct {
	due   map[string]time.Time
	worst time.Duration
	left  chan struct{}
}

func (l *lateness) Deliver(d core.Delivery) core.Verdict {
	l.worst = max(l.worst, time.Since(l.due[string(d.Payload)]))
	l.left <- struct{}{}
	return core.Settled
}

// benchFiring is how late the latest of a thousand comes, a message every
// millisecond, before a million others.
func benchFiring(b *testing.B, e *Engine) time.Duration {
	const n = 1000
	l := &lateness{due: map[string]time.Time{}, left: make(chan struct{}, n)}
	a, err := core.QueueAddress("q")
	if err != nil {
		b.Fatal(err)
	}
	batch := &core.Batch{}
	start := time.Now().Add(time.Second)
	for i := range n {
		name := fmt.Sprintf("%04d", i)
		m := core.NewMessage(4)
		copy(m.Payload, name)
		m.Topic, m.Guarantee = a.Topic, core.Durable
		m.Props = &core.Properties{Due: start.Add(time.Duration(i) * time.Millisecond)}
		l.due[name] = m.Props.Due
		e.Publish(batch, m, nil)
	}
	if _, err := e.Consume(context.Background(), core.Named("q"), core.ConsumeOptions{}, l); err != nil {
		b.Fatal(err)
	}
	for range n {
		<-l.left
	}
	return l.worst
}
