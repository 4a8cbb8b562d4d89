package local

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"entrepot/core"
	"entrepot/core/store"
)

// ruled is a workshop whose queues have the arguments, after a clean end of
// the one before, which may be nil.
func ruled(t *testing.T, before *workshop, args map[string]any) *workshop {
	t.Helper()
	d := store.MemoryDisk()
	if before != nil {
		d = before.disk
		before.close()
	}
	var options []Option
	if args != nil {
		p, err := core.NewPolicies(core.PolicyConfigs{{Name: "rule", Pattern: "^q", Arguments: args}})
		if err != nil {
			t.Fatal(err)
		}
		options = append(options, WithPolicies(p))
	}
	st, err := store.Open("data", store.Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(slog.New(slog.DiscardHandler), st, "/", options...)
	if err != nil {
		t.Fatal(err)
	}
	e.window = windowSize{count: 4, bytes: 1 << 20}
	return &workshop{t, d, st, e, make(chan error, 16)}
}

func (w *workshop) fill(queue string, from, to int) {
	w.Helper()
	for id := from; id < to; id++ {
		w.must(w.send(w.to(queue, id)))
	}
}

// A policy counts for the queues that are there already, and declaring them
// again as they were made is no conflict whatever the policy says.
func TestPolicyChangesOverRestarts(t *testing.T) {
	made := core.QueueArgs{MaxLength: 50, HasMaxLength: true}
	w := ruled(t, nil, nil)
	w.declare("q", made)
	w.declare("other", made)
	w.fill("q", 0, 20)
	w.fill("other", 0, 20)

	w = ruled(t, w, map[string]any{"x-max-length": int64(10), "x-delivery-limit": int64(3)})
	w.await("q", 10) // at once, not with the next message
	w.declare("q", made)
	if i := w.info("q"); i.Policy != "rule" {
		t.Errorf("policy %q", i.Policy)
	}
	if i := w.info("other"); i.Policy != "" || i.Messages != 20 {
		t.Errorf("the other queue: %+v", i)
	}
	w.want("q", 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	as := core.QueueSpec{Key: core.Named("q"), Durable: true, Args: core.QueueArgs{MaxLength: 10, HasMaxLength: true}}
	if _, err := w.engine.DeclareQueue(context.Background(), as); !errors.Is(err, core.ErrConflict) {
		t.Errorf("as the policy says, not as it was made: %v", err)
	}

	w = ruled(t, w, nil)
	w.declare("q", made)
	w.fill("q", 20, 70)
	w.await("q", 50)
	if i := w.info("q"); i.Policy != "" {
		t.Errorf("policy %q", i.Policy)
	}
	w.close()
}

// Dead letters by a policy alone.
func TestPolicyDeadLetters(t *testing.T) {
	w := ruled(t, nil, map[string]any{"x-max-length": int64(2), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
	w.declare("dead", core.QueueArgs{})
	w.declare("q", core.QueueArgs{})
	w.fill("q", 0, 5)
	w.await("dead", 3)
	w.want("q", 3, 4)
	w.want("dead", 0, 1, 2)
	w.close()
}

// Priorities say where messages stand on disk: a queue keeps those that it was
// made with until a start finds it empty.
func TestPolicyOfPriorities(t *testing.T) {
	rank := func(w *workshop, id int, priority uint8) {
		m := w.to("q", id)
		m.Props = &core.Properties{Priority: priority}
		w.must(w.send(m))
	}
	three := func(w *workshop, first int) {
		for i := range 8 {
			rank(w, first+i, uint8(i%4))
		}
	}
	ranked := map[string]any{"x-max-priority": int64(3)}
	w := ruled(t, nil, ranked)
	w.declare("q", core.QueueArgs{})
	three(w, 0)
	for _, args := range []map[string]any{ranked, {"x-max-priority": int64(1)}, {"x-last-value-key": "k"}, nil, ranked} {
		w = ruled(t, w, args)
		w.declare("q", core.QueueArgs{})
		w.want("q", 3, 7, 2, 6, 1, 5, 0, 4)
	}
	_, err := w.engine.PurgeQueue(context.Background(), core.Named("q"), 0)
	w.must(err)
	for range 2 {
		w = ruled(t, w, nil)
		w.declare("q", core.QueueArgs{})
	}
	three(w, 0)
	w.want("q", 0, 1, 2, 3, 4, 5, 6, 7)
	w = ruled(t, w, ranked)
	w.want("q", 0, 1, 2, 3, 4, 5, 6, 7)
	_, err = w.engine.PurgeQueue(context.Background(), core.Named("q"), 0)
	w.must(err)
	w = ruled(t, w, ranked)
	three(w, 0)
	w = ruled(t, w, ranked)
	w.want("q", 3, 7, 2, 6, 1, 5, 0, 4)
	w.close()
}
