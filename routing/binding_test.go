package routing

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// An owner keeps its bindings in order and finds each by its identity, with an index and without.
func TestOwner(t *testing.T) {
	seeded(t, 1000, 400, func(t *testing.T, d *dice) {
		x := &exchange[int]{kind: TopicKind}
		var o owner[int]
		var list []*binding[int]
		grow := 2 + d.roll(3)
		for !d.done() {
			f := Filter{text: fmt.Sprintf("a/%d", d.roll(50))}
			i := slices.IndexFunc(list, func(b *binding[int]) bool { return b.filter == f })
			found := o.find(identity[int]{source: x, filter: f})
			if (found != nil) != (i >= 0) || i >= 0 && found != list[i] {
				t.Fatalf("%s found at %d", f, i)
			}
			switch {
			case i < 0 && d.roll(5) < grow:
				b := &binding[int]{source: x, filter: f}
				o.add(b)
				list = append(list, b)
			case i >= 0:
				o.remove(found)
				list = slices.Delete(list, i, i+1)
			}
			if got := slices.Collect(o.all); !slices.Equal(got, list) {
				t.Fatalf("%d bindings, want %d, or in another order", len(got), len(list))
			}
		}
		for _, b := range list {
			o.remove(b)
		}
		if o.oldest != nil || o.index != nil {
			t.Errorf("left: %+v", o)
		}
	})
}

func TestOwnerStopsEarly(t *testing.T) {
	var o owner[int]
	for range 3 {
		o.add(&binding[int]{})
	}
	n := 0
	for range o.all {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Error(n)
	}
}

// An idle client is one queue with one binding: the budget is 300 bytes for the binding with its index, beside the text.
func TestBindingMemory(t *testing.T) {
	const n = 200_000
	filters := make([]Filter, n)
	queues := make([]*[16]byte, n)
	for i := range filters {
		filters[i] = parseFilter(t, fmt.Sprintf("site%d/dev%d/cmd/#", i%100, i))
		queues[i] = new([16]byte)
	}
	before := heap()
	r := NewRouter[*[16]byte]()
	_ = r.Declare("amq.topic", TopicKind, "")
	for i, f := range filters {
		if _, err := r.Bind(Binding[*[16]byte]{Source: "amq.topic", Queue: queues[i], Filter: f}); err != nil {
			t.Fatal(err)
		}
	}
	size := float64(heap()-before) / n
	t.Logf("%.0f bytes a binding", size)
	if size > 300 {
		t.Errorf("%.0f bytes a binding", size)
	}
	for _, q := range queues {
		r.RemoveQueue(q)
	}
	if left := int64(heap()) - int64(before); left > 1<<20 {
		t.Errorf("%d bytes left", left)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(filters)
}

// The cost of removing a queue is by its own bindings: others may share all of its filters.
func TestRemoveQueueCost(t *testing.T) {
	const n = 20_000
	r := NewRouter[int]()
	_ = r.Declare("x", TopicKind, "")
	_ = r.Declare("y", Fanout, "")
	news := parseFilter(t, "news/#")
	for q := range n {
		for _, b := range []Binding[int]{{Source: "x", Queue: q, Filter: news}, {Source: "y", Queue: q}} {
			if _, err := r.Bind(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for q := range n { // quadratic would be 800 million steps here
		if got := len(r.RemoveQueue(q)); got != 2 {
			t.Fatalf("queue %d had %d bindings", q, got)
		}
	}
	if r.InUse("x") || r.InUse("y") {
		t.Error("bindings are left")
	}
}

// One queue with many bindings: binding again and unbinding stay cheap.
func TestManyBindingsOfOneQueue(t *testing.T) {
	const n = 20_000
	r := NewRouter[int]()
	_ = r.Declare("x", TopicKind, "")
	b := func(i int) Binding[int] {
		return Binding[int]{Source: "x", Filter: parseFilter(t, fmt.Sprintf("a/%d/#", i)), Value: i}
	}
	for i := range n {
		if added, err := r.Bind(b(i)); !added || err != nil {
			t.Fatal(added, err)
		}
	}
	for i := range n {
		if added, err := r.Bind(b(i)); added || err != nil {
			t.Fatal(added, err)
		}
	}
	for i := range n {
		if !r.Unbind(b(i)) || i%1000 == 0 && r.Unbind(b(i)) {
			t.Fatal(i)
		}
	}
	if r.InUse("x") || r.queues.m != nil {
		t.Error("bindings are left")
	}
}
