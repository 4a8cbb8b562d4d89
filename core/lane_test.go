package core

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// Whatever the order in which an engine ends publishes, Done comes in the
// order of publishing, each once and with its own result.
func TestLaneOrder(t *testing.T) {
	for seed := range uint64(50) {
		d := rand.New(rand.NewPCG(seed, 1))
		l := NewLane(&Batch{})
		var pending []func()
		var order []int
		failed := errors.New("refused")
		begun := 0
		for len(order) < 200 {
			if begun < 200 && (len(pending) == 0 || d.IntN(2) == 0) {
				n := begun
				begun++
				done := l.begin(func(routed bool, err error) {
					if routed != (n%3 == 0) || (err != nil) != (n%5 == 0) {
						t.Errorf("seed %d: message %d got another's result", seed, n)
					}
					order = append(order, n)
				})
				pending = append(pending, func() {
					var err error
					if n%5 == 0 {
						err = failed
					}
					done(n%3 == 0, err)
				})
				continue
			}
			if len(pending) == 0 {
				break
			}
			i := d.IntN(len(pending))
			end := pending[i]
			pending = slices.Delete(pending, i, i+1)
			end()
		}
		if !slices.IsSorted(order) || len(order) != 200 {
			t.Fatalf("seed %d: %d told, in order %v", seed, len(order), slices.IsSorted(order))
		}
	}
}

// Ends come from many goroutines at once; one at a time calls Done.
func TestLaneOrderUnderConcurrency(t *testing.T) {
	l := NewLane(&Batch{})
	const n = 5000
	var order []int // under no lock: that Done runs once at a time is the point
	ends := make(chan Done, 64)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for end := range ends {
				end(true, nil)
			}
		})
	}
	for i := range n {
		ends <- l.begin(func(bool, error) { order = append(order, i) })
	}
	close(ends)
	wg.Wait()
	if len(order) != n || !slices.IsSorted(order) {
		t.Fatalf("%d told, in order %v", len(order), slices.IsSorted(order))
	}
}

// Done may publish on its own lane.
func TestLaneDoneMayBegin(t *testing.T) {
	l := NewLane(&Batch{})
	var order []string
	second := func() {
		l.begin(func(bool, error) { order = append(order, "second") })(true, nil)
	}
	l.begin(func(bool, error) {
		order = append(order, "first")
		second()
	})(true, nil)
	if !slices.Equal(order, []string{"first", "second"}) {
		t.Errorf("told %v", order)
	}
}

func TestLaneWithoutDone(t *testing.T) {
	if NewLane(&Batch{}).begin(nil) != nil {
		t.Error("a place for nobody")
	}
}

// A lane does not allocate for a publish whose predecessors are done.
func TestLaneDoesNotAllocate(t *testing.T) {
	l := NewLane(&Batch{})
	n := 0
	done := Done(func(bool, error) { n++ })
	ends := make([]Done, 0, 8)
	if a := testing.AllocsPerRun(1000, func() {
		ends = ends[:0]
		for range 8 {
			ends = append(ends, l.begin(done))
		}
		for _, end := range ends {
			end(true, nil)
		}
	}); a != 0 {
		t.Errorf("%.1f allocations for 8 publishes", a)
	}
}

// After a burst a quiet lane keeps few tickets.
func TestLaneGivesTicketsBack(t *testing.T) {
	l := NewLane(&Batch{})
	var ends []Done
	for range 10_000 {
		ends = append(ends, l.begin(func(bool, error) {}))
	}
	for _, end := range ends {
		end(true, nil)
	}
	n := 0
	for t := l.free; t != nil; t = t.next {
		n++
	}
	if n > maxSpare || n != l.spare || l.head != nil || l.tail != nil {
		t.Errorf("%d tickets kept (counted %d), bound %d", n, l.spare, maxSpare)
	}
}

// A Batch flushes in order, also what a Flush adds, and forgets.
func TestBatch(t *testing.T) {
	b := &Batch{}
	var order []string
	late := flushFunc(func() { order = append(order, "late") })
	b.Add(flushFunc(func() {
		order = append(order, "first")
		b.Add(late)
	}))
	b.Add(flushFunc(func() { order = append(order, "second") }))
	b.Flush()
	b.Flush()
	if !slices.Equal(order, []string{"first", "second", "late"}) {
		t.Errorf("flushed %v", order)
	}
	for range 5000 {
		b.Add(late)
	}
	b.Flush()
	if cap(b.dirty) > 1024 {
		t.Errorf("an empty batch has room for %d", cap(b.dirty))
	}
}

type flushFunc func()

func (f flushFunc) Flush() { f() }
