package local

import (
	"context"
	"slices"
	"testing"

	"entrepot/core"
	"entrepot/core/store"
	"entrepot/routing"
)

// A group's queue becomes durable with the first member that lasts, and stays
// so; what came before that is forgotten by a power cut.
func TestGroupBecomesDurable(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	ctx := context.Background()
	key := core.Key(core.GroupQueue, "g", "t")
	topic, err := routing.NewTopic("t")
	w.must(err)
	member := func(durable bool) {
		t.Helper()
		_, err := w.engine.DeclareQueue(ctx, core.QueueSpec{Key: key, Durable: durable})
		w.must(err)
		_, err = w.engine.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: topic.Filter()})
		w.must(err)
	}
	send := func(id int) {
		t.Helper()
		m := w.to("x", id)
		m.Exchange, m.Topic = core.TopicExchange, topic
		w.must(w.send(m))
	}
	member(false)
	send(1)
	member(true)
	send(2)
	member(false)
	send(3)
	w = w.crash()
	defer w.close()
	member(false)
	send(4)
	c, err := w.engine.Consume(ctx, key, core.ConsumeOptions{Pull: true}, nil)
	w.must(err)
	defer c.Cancel(core.Return)
	var got []uint64
	for d, ok := c.Get(); ok; d, ok = c.Get() {
		got = append(got, idOf(d.Message))
	}
	if !slices.Equal(got, []uint64{2, 3, 4}) {
		t.Errorf("got %v, want 2, 3, 4", got)
	}
}
