package local

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"entrepot/core"
	"entrepot/core/store"
)

// One queue, as many publishes on their way as a busy front-end has, a consumer
// that acknowledges each.
func BenchmarkDurablePublish(b *testing.B) {
	for _, size := range []int{64, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchDurable(b, size) })
	}
}

func benchDurable(b *testing.B, size int) {
	st, err := store.Open(b.TempDir(), store.Options{ReserveBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	e, err := Open(slog.New(slog.DiscardHandler), st, "/")
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	if _, err := e.DeclareQueue(ctx, core.QueueSpec{Key: core.Named("q"), Durable: true}); err != nil {
		b.Fatal(err)
	}
	a, err := core.QueueAddress("q")
	if err != nil {
		b.Fatal(err)
	}
	c := &acker{out: make(chan uint64, 1000)}
	if c.consumer, err = e.Consume(ctx, core.Named("q"), core.ConsumeOptions{}, c); err != nil {
		b.Fatal(err)
	}
	end := make(chan struct{})
	go c.run(b.N, end)
	room := make(chan struct{}, 500)
	done := func(_ bool, err error) {
		if err != nil {
			b.Error(err)
		}
		<-room
	}
	batch := &core.Batch{}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	b.ResetTimer()
	for range b.N {
		m := core.NewMessage(size)
		m.Topic, m.Guarantee = a.Topic, core.Durable
		room <- struct{}{}
		e.Publish(batch, m, done)
		batch.Flush()
	}
	<-end
	b.StopTimer()
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

// acker acknowledges all that it gets, some at a time.
type acker struct {
	out      chan uint64
	consumer core.Consumer
}

func (c *acker) Deliver(d core.Delivery) core.Verdict {
	select {
	case c.out <- d.Seq:
		return core.Held
	default:
		return core.Full
	}
}

func (c *acker) run(n int, end chan struct{}) {
	defer close(end)
	seqs := make([]uint64, 0, 100)
	for n > 0 {
		seqs = append(seqs[:0], <-c.out)
		for more := true; more && len(seqs) < cap(seqs); {
			select {
			case seq := <-c.out:
				seqs = append(seqs, seq)
			default:
				more = false
			}
		}
		if err := c.consumer.Settle(nil, core.Ack, seqs...); err != nil {
			panic(err)
		}
		n -= len(seqs)
	}
}
