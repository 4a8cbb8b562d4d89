package local

import (
	"math/rand/v2"
	"slices"
	"testing"

	"entrepot/core"
)

func numbered(seq uint64) entry { return entry{seq: seq, msg: &core.Message{}} }

func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func ringSeqs(r *ring) []uint64 {
	var list []uint64
	for i := range r.len() {
		list = append(list, r.at(i).seq)
	}
	return list
}

// Random operations on a ring and on a plain list.
func TestRingAgainstList(t *testing.T) {
	for seed := range uint64(20) {
		d := dice(seed)
		var r ring
		var list []uint64
		for step := range 3000 {
			seq := uint64(step + 1)
			switch d.IntN(7) {
			case 0, 1, 2:
				r.pushBack(numbered(seq))
				list = append(list, seq)
			case 3:
				r.pushFront(numbered(seq))
				list = slices.Insert(list, 0, seq)
			case 4, 5:
				if len(list) == 0 {
					continue
				}
				if got := r.popFront().seq; got != list[0] {
					t.Fatalf("seed %d, step %d: popped %d, want %d", seed, step, got, list[0])
				}
				list = list[1:]
			case 6:
				m := uint64(d.IntN(4) + 2)
				r.keep(func(e *entry) bool { return e.seq%m != 0 })
				list = slices.DeleteFunc(list, func(s uint64) bool { return s%m == 0 })
			}
			if !slices.Equal(ringSeqs(&r), list) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, ringSeqs(&r), list)
			}
		}
	}
}

func TestRingForgetsWhatItHeld(t *testing.T) {
	var r ring
	for i := range uint64(20) {
		r.pushBack(numbered(i))
	}
	for range 10 {
		r.popFront()
	}
	r.keep(func(e *entry) bool { return e.seq >= 15 })
	held := 0
	for _, e := range r.buf {
		if e.msg != nil {
			held++
		}
	}
	if held != 5 {
		t.Errorf("%d messages are kept alive, want 5", held)
	}
}

func TestRingGivesMemoryBack(t *testing.T) {
	var r ring
	for i := range uint64(10_000) {
		r.pushBack(numbered(i))
	}
	for r.len() > 0 {
		r.popFront()
	}
	if len(r.buf) > ringKeep {
		t.Errorf("an empty ring has room for %d", len(r.buf))
	}
	for i := range uint64(10_000) {
		r.pushBack(numbered(i))
	}
	r.keep(func(*entry) bool { return false })
	if len(r.buf) > ringKeep {
		t.Errorf("a ring of which nothing was kept has room for %d", len(r.buf))
	}
}

// Whatever comes back in whatever order is taken by seq.
func TestReturnedAgainstSort(t *testing.T) {
	for seed := range uint64(50) {
		d := dice(seed)
		var h returned
		var list []uint64
		for range 300 {
			if len(list) > 0 && d.IntN(3) == 0 {
				slices.Sort(list)
				if got := h.pop().seq; got != list[0] {
					t.Fatalf("seed %d: popped %d, want %d", seed, got, list[0])
				}
				list = list[1:]
				continue
			}
			seq := d.Uint64N(1000)
			h.push(numbered(seq))
			list = append(list, seq)
		}
		h.keep(func(e *entry) bool { return e.seq%2 == 0 })
		list = slices.DeleteFunc(list, func(s uint64) bool { return s%2 == 1 })
		slices.Sort(list)
		for _, want := range list {
			if got := h.pop().seq; got != want {
				t.Fatalf("seed %d: after keep popped %d, want %d", seed, got, want)
			}
		}
		if len(h) != 0 {
			t.Fatalf("seed %d: %d too many", seed, len(h))
		}
	}
}

func TestReturnedGivesMemoryBack(t *testing.T) {
	var h returned
	for i := range uint64(1000) {
		h.push(numbered(i))
	}
	for len(h) > 0 {
		h.pop()
	}
	if cap(h) > ringKeep {
		t.Errorf("an empty heap has room for %d", cap(h))
	}
}

// Random operations on what a consumer holds and on a plain map: mostly in
// order, with redeliveries of older ones in between.
func TestOutstandingAgainstMap(t *testing.T) {
	for seed := range uint64(10) {
		d := dice(seed)
		var o outstanding
		model := map[uint64]bool{}
		last := uint64(0)
		for step := range 1000 {
			seq := d.Uint64N(last + 2)
			switch d.IntN(5) {
			case 0, 1:
				last += d.Uint64N(3) + 1
				o.add(numbered(last))
				model[last] = true
			case 2:
				if seq > 0 && seq < last && !model[seq] {
					o.add(numbered(seq))
					model[seq] = true
				}
			case 3:
				e, ok := o.remove(seq)
				if ok != model[seq] || ok && (e.seq != seq || e.msg == nil) {
					t.Fatalf("seed %d, step %d: removed %d: %v %v", seed, step, seq, e.seq, ok)
				}
				delete(model, seq)
			case 4: // the oldest, as most clients do
				for s := range last + 1 {
					if _, ok := o.remove(s); ok {
						delete(model, s)
						break
					}
				}
			}
			if o.len() != len(model) {
				t.Fatalf("seed %d, step %d: %d held, want %d", seed, step, o.len(), len(model))
			}
		}
		n := 0
		o.all(func(e entry) {
			if n++; !model[e.seq] || e.msg == nil {
				t.Fatalf("seed %d: holds %d", seed, e.seq)
			}
		})
		if n != len(model) {
			t.Fatalf("seed %d: %d of %d", seed, n, len(model))
		}
	}
}

// A client that settles all but its first delivery does not make the ring
// grow for ever.
func TestOutstandingClosesHoles(t *testing.T) {
	var o outstanding
	o.add(numbered(1))
	for seq := uint64(2); seq < 20_000; seq++ {
		o.add(numbered(seq))
		if _, ok := o.remove(seq); !ok {
			t.Fatalf("%d is not held", seq)
		}
	}
	if n := len(o.ring.buf); n > 256 {
		t.Errorf("room for %d to hold one", n)
	}
	if _, ok := o.remove(1); !ok || o.len() != 0 {
		t.Error("the first is lost")
	}
}
