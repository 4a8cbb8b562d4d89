package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// graveArgs send dead letters to the queue "dead".
func graveArgs() core.QueueArgs {
	return core.QueueArgs{DeadLetter: &core.DeadLetter{Key: "dead", HasKey: true}}
}

// reject takes all that waits and rejects it.
func (w *workshop) reject(queue string) {
	w.Helper()
	c := w.pull(queue)
	defer c.Cancel(core.Return)
	for {
		d, ok := c.Get()
		if !ok {
			return
		}
		w.must(c.Settle(nil, core.Reject, d.Seq))
	}
}

// await waits until a queue has so many messages.
func (w *workshop) await(queue string, n int) {
	w.Helper()
	w.awaitThat(fmt.Sprintf("%d messages in %s", n, queue), func() bool { return w.info(queue).Messages == n })
}

func (w *workshop) info(queue string) core.QueueInfo {
	w.Helper()
	i, err := w.engine.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(queue), Passive: true})
	w.must(err)
	return i
}

func (w *workshop) awaitThat(what string, f func() bool) {
	w.Helper()
	deadline := time.After(20 * time.Second)
	for !f() {
		select {
		case <-deadline:
			w.Fatalf("never: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// Fault 81: what waits for its dead-letter queue is a message of the source
// after a power cut.
func TestWaitingDeadLettersOutliveACrash(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", graveArgs())
	for id := range 10 {
		w.must(w.send(w.to("q", id)))
	}
	w.reject("q")
	w.awaitThat("ten wait", func() bool { return w.info("q").DeadLetters == 10 })
	w = w.crash()
	w.want("q", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	w.declare("dead", core.QueueArgs{})
	w.reject("q")
	w.await("dead", 10)
	w.must(w.store.Sync())
	w = w.crash()
	w.want("q")
	w.want("dead", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	w.close()
}

// A dead letter is counted by its source until its target has it, also those
// that a round has in hand.
func TestDeadLettersAreCountedUntilTheyArrive(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", graveArgs())
	w.declare("dead", core.QueueArgs{})
	const n = 2000
	for id := range n {
		w.must(w.send(w.transient("q", id)))
	}
	w.reject("q")
	w.awaitThat("all are dead letters", func() bool {
		i := w.info("q")
		if there := w.info("dead").Messages; i.Messages+i.DeadLetters+there < n {
			t.Fatalf("%d wait, %d are on their way, %d are there", i.Messages, i.DeadLetters, there)
		}
		return i.DeadLetters == 0
	})
	w.close()
}

// A queue whose dead letters wait is not empty.
func TestWaitingDeadLettersKeepAQueue(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", graveArgs())
	w.must(w.send(w.to("q", 1)))
	w.reject("q")
	w.awaitThat("one waits", func() bool { return w.info("q").DeadLetters == 1 && w.info("q").Messages == 0 })
	_, err := w.engine.DeleteQueue(context.Background(), core.Named("q"), core.DeleteOptions{IfEmpty: true})
	if !errors.As(err, &core.NotEmpty{}) {
		t.Errorf("delete: %v", err)
	}
	w.close()
}

// Dead letters that wait do not fill the memory: those on disk are read again.
func TestManyLargeDeadLettersWaitOnDisk(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", graveArgs())
	const n = 12
	for id := range n {
		m := w.to("q", id)
		m.Payload = append(m.Payload, make([]byte, 1<<20)...)
		w.must(w.send(m))
	}
	w.reject("q")
	w.awaitThat("all wait", func() bool { return w.info("q").DeadLetters == n })
	q := w.engine.queues[core.Named("q")]
	q.mu.Lock()
	held := q.letters.bytes
	q.mu.Unlock()
	if held > lettersInMem {
		t.Errorf("%d bytes in memory", held)
	}
	w.declare("dead", core.QueueArgs{})
	w.await("dead", n)
	w.want("dead", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	if i := w.info("q"); i.Bytes != 0 || i.DeadLetters != 0 {
		t.Errorf("left: %+v", i)
	}
	w.close()
}

// Fault 71 with 81: a disk that fails under dead letters loses none, in memory
// or after a crash.
func TestDiskFailsUnderDeadLetters(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	w.declare("q", graveArgs())
	w.declare("dead", core.QueueArgs{})
	w.declare("broken", core.QueueArgs{})
	for id := range 20 {
		w.must(w.send(w.to("q", id)))
	}
	w.fail("sync", ".log", io.ErrUnexpectedEOF)
	w.reject("q")
	w.heal()
	have := func() []int {
		ids := append(w.rest("dead"), w.rest("q")...)
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	w.awaitThat("all are dead letters", func() bool { return w.info("q").DeadLetters == 0 && w.info("q").Messages == 0 })
	w.must(w.store.Sync())
	if got := have(); len(got) != 20 {
		t.Errorf("in memory: %v", got)
	}
	w = w.crash()
	if got := have(); len(got) != 20 {
		t.Errorf("after a crash: %v", got)
	}
	w.close()
}

// A closed store ends the tries.
func TestDeadLettersEndWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := store.Open("data", store.Options{Disk: store.MemoryDisk()})
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(slog.New(slog.DiscardHandler), st, "/")
		if err != nil {
			t.Fatal(err)
		}
		w := &workshop{T: t, store: st, engine: e}
		w.declare("q", graveArgs())
		w.declare("dead", core.QueueArgs{})
		w.must(w.send(w.to("q", 1)))
		w.must(st.Close())
		w.reject("q")
		time.Sleep(time.Hour)
		synctest.Wait()
		q := e.queues[core.Named("q")]
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.letters.busy && q.letters.timer != nil {
			t.Error("a timer goes on")
		}
	})
}
