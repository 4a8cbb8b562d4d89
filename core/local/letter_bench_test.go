package local

import (
	"context"
	"testing"

	"entrepot/core"
)

// BenchmarkDeadLetters puts messages into a queue that has room for none, whose
// dead letters go to another.
func BenchmarkDeadLetters(b *testing.B) {
	e := New(quiet())
	ctx := context.Background()
	full := graveArgs()
	full.HasMaxLength = true
	for name, args := range map[string]core.QueueArgs{"q": full, "dead": {}} {
		if _, err := e.DeclareQueue(ctx, core.QueueSpec{Key: core.Named(name), Args: args}); err != nil {
			b.Fatal(err)
		}
	}
	left := make(chan struct{}, 1)
	c := &counting{want: b.N, done: left}
	if _, err := e.Consume(ctx, core.Named("dead"), core.ConsumeOptions{}, c); err != nil {
		b.Fatal(err)
	}
	a, err := core.QueueAddress("q")
	if err != nil {
		b.Fatal(err)
	}
	batch := &core.Batch{}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		m := core.NewMessage(64)
		m.Topic, m.Guarantee = a.Topic, core.AtLeastOnce
		e.Publish(batch, m, nil)
	}
	<-left
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "dead-letters/s")
}

// counting says when so many have come.
type counting struct {
	want int
	done chan struct{}
}

func (c *counting) Deliver(core.Delivery) core.Verdict {
	if c.want--; c.want == 0 {
		c.done <- struct{}{}
	}
	return core.Settled
}
