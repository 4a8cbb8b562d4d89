package local

import (
	"context"
	"fmt"
	"testing"

	"entrepot/core"
)

// BenchmarkLevels compares a queue with ten priorities with a plain one: put,
// handed over, acknowledged, with so many waiting.
func BenchmarkLevels(b *testing.B) {
	for _, backlog := range []int{0, 100, 100_000} {
		for _, most := range []int{0, 9} {
			b.Run(fmt.Sprintf("waiting=%d/levels=%d", backlog, most+1), func(b *testing.B) { benchLevels(b, backlog, most) })
		}
	}
}

func benchLevels(b *testing.B, backlog, most int) {
	e := New(quiet())
	ctx := context.Background()
	if _, err := e.DeclareQueue(ctx, core.QueueSpec{Key: core.Named("q"), Args: core.QueueArgs{MaxPriority: most}}); err != nil {
		b.Fatal(err)
	}
	a, err := core.QueueAddress("q")
	if err != nil {
		b.Fatal(err)
	}
	var msgs [10]*core.Message
	for p := range msgs {
		m := core.NewMessage(64)
		m.Topic, m.Guarantee = a.Topic, core.AtLeastOnce
		m.Props = &core.Properties{Priority: uint8(p)}
		msgs[p] = m
	}
	batch := &core.Batch{}
	for n := range backlog {
		e.Publish(batch, msgs[n*7%10], nil)
	}
	w := &window{}
	r := &credit{to: w}
	c, err := e.Consume(ctx, core.Named("q"), core.ConsumeOptions{}, r)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		e.Publish(batch, msgs[n*7%10], nil)
		if n%100 != 99 {
			continue
		}
		r.left = 100
		c.Resume(batch)
		if err := c.Settle(batch, core.Ack, w.seqs...); err != nil {
			b.Fatal(err)
		}
		w.seqs = w.seqs[:0]
	}
}
