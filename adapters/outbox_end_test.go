package adapters

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
)

func TestOutboxTellsOnceThatItBroke(t *testing.T) {
	everyCarrier(t, 1<<20, func(t *testing.T, b *box) {
		_ = b.client.Close()
		rooms := atomic.Int32{}
		b.onRoom(func(*core.Batch) { rooms.Add(1) })
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				var batch core.Batch
				for b.broke.Load() == 0 {
					b.deliver(&batch, make([]byte, 20_000))
					b.answer(&batch, make([]byte, 10))
					b.EndLarge(&batch, b.BeginAnswer(), make([]byte, 9000), []byte{1})
					batch.Flush()
				}
			})
		}
		wg.Wait()
		if b.broke.Load() != 1 {
			t.Errorf("broken was called %d times", b.broke.Load())
		}
		if _, ok := b.BeginDelivery(); ok {
			t.Error("a broken outbox took a delivery")
		}
		soon(t, "the writer rests", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return !b.writing
		})
		if rooms.Load() > 0 || b.Unsent() > 0 {
			t.Errorf("%d calls for room, %d bytes unsent", rooms.Load(), b.Unsent())
		}
	})
}

func TestOutboxCloseSendsWhatIsLeft(t *testing.T) {
	everyCarrier(t, 1<<20, func(t *testing.T, b *box) {
		payload := make([]byte, 700_000)
		var batch core.Batch
		b.answer(&batch, []byte("first")) // flushed by nobody but close
		b.EndLarge(&batch, b.BeginAnswer(), payload, []byte("last"))
		got := make(chan int64)
		go func() {
			n, _ := io.CopyN(io.Discard, b.client, int64(5+len(payload)+4))
			got <- n
		}()
		if !b.close(20 * time.Second) {
			t.Error("close says that bytes were lost")
		}
		if n := <-got; n != int64(5+len(payload)+4) {
			t.Errorf("%d bytes came", n)
		}
		b.answer(&batch, []byte("late"))
		batch.Flush()
		if b.Unsent() != 0 || b.broke.Load() != 0 {
			t.Error("a closed outbox took an answer, or told that it broke")
		}
	})
}

func TestOutboxCloseDoesNotWaitForever(t *testing.T) {
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBox(t, carriers[0].pair, 4096)
			var batch core.Batch
			rooms := 0
			b.onRoom(func(*core.Batch) { rooms++ })
			for b.deliver(&batch, make([]byte, 100)) {
			}
			b.mu.Lock()
			b.refused = false
			b.mu.Unlock()
			batch.Flush()
			want := 3 * time.Second
			if reads {
				want = time.Second
			}
			go func() {
				time.Sleep(time.Second)
				if _, ok := b.BeginDelivery(); ok {
					t.Error("a closing outbox took a delivery")
				}
				if reads {
					_, _ = io.CopyN(io.Discard, b.client, int64(b.Unsent()))
				}
			}()
			start := time.Now()
			if sent := b.close(3 * time.Second); sent != reads || time.Since(start) != want {
				t.Errorf("closed after %v, all sent: %v", time.Since(start), sent)
			}
			if rooms > 0 || b.broke.Load() > 0 {
				t.Error("a closed outbox called for room, or told that it broke")
			}
		})
	}
}
