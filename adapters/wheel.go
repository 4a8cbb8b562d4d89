package adapters

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tick is how exact the wheel is: an alarm comes up to this much late, and
	// as much as the machine is late besides.
	tick  = 100 * time.Millisecond
	slots = 512
	// maxGap is how far the wheel catches up in one step. A longer gap means
	// that the process stood still, and its clients are not to blame.
	maxGap = 5
)

// Wheel keeps the time-outs of many connections with one goroutine, which runs
// only while there are any. Resetting a time-out costs one store: an alarm
// that comes due looks when its connection was last heard and moves on.
type Wheel struct {
	now atomic.Int64 // ticks since start; stands still while nothing is set

	mu      sync.Mutex
	start   time.Time // in step with the ticker
	slots   [slots]*Alarm
	count   int
	running chan struct{} // closed when the goroutine ends; nil at rest
	done    chan struct{}
	closed  bool
}

// Alarm is one time-out. Its zero value is ready; it belongs to one wheel.
type Alarm struct {
	wheel      atomic.Pointer[Wheel]
	fire       func()
	heard      atomic.Int64
	after      int64 // ticks
	slot       int
	set        bool // in a slot
	due        bool // out of its slot, about to be fired
	prev, next *Alarm
}

// NewWheel returns a wheel at rest.
func NewWheel() *Wheel { return &Wheel{done: make(chan struct{})} }

// Close stops the wheel and waits for a fire that runs; none follows. Not to be
// called from a fire.
func (w *Wheel) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.done)
	}
	running := w.running
	w.mu.Unlock()
	if running != nil {
		<-running
	}
}

// Set arms a: fire is called, once, from the wheel's goroutine when a was not
// Heard for d; it must not block. Setting again replaces the older time-out.
func (w *Wheel) Set(a *Alarm, d time.Duration, fire func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlink(a)
	if w.closed {
		return
	}
	if w.running == nil {
		w.running = make(chan struct{})
		w.start = time.Now().Add(-time.Duration(w.now.Load()) * tick)
		go w.run(w.running, time.NewTicker(tick))
	}
	present := w.present()
	a.wheel.Store(w)
	a.fire, a.after = fire, max(1, int64((d+tick-1)/tick))
	a.heard.Store(present)
	w.link(a, present+a.after+1)
}

// Stop disarms a. When it returns, a does not fire unless it already began to.
func (w *Wheel) Stop(a *Alarm) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlink(a)
}

// Heard starts the time-out anew. Cheap; from any goroutine.
func (a *Alarm) Heard() {
	if w := a.wheel.Load(); w != nil {
		if now := w.now.Load(); now != a.heard.Load() {
			a.heard.Store(now)
		}
	}
}

func (w *Wheel) present() int64 { return int64(time.Since(w.start) / tick) }

// link puts a where it is looked at next. With mu held.
func (w *Wheel) link(a *Alarm, due int64) {
	// Farther than one turn: looked at after a turn, and moved on.
	due = min(due, w.now.Load()+slots-1)
	a.slot, a.set = int(due%slots), true
	a.prev, a.next = nil, w.slots[a.slot]
	if a.next != nil {
		a.next.prev = a
	}
	w.slots[a.slot] = a
	w.count++
}

// unlink takes a out of its slot, or out of those about to fire. With mu held.
func (w *Wheel) unlink(a *Alarm) {
	a.due = false
	if !a.set {
		return
	}
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		w.slots[a.slot] = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	a.prev, a.next, a.set = nil, nil, false
	w.count--
}

// run turns the wheel until nothing is set.
func (w *Wheel) run(ended chan struct{}, t *time.Ticker) {
	defer close(ended)
	defer t.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-t.C:
		}
		due := w.advance()
		for _, a := range due {
			if fire := w.begin(a); fire != nil {
				fire()
			}
		}
		if w.atRest() {
			return
		}
	}
}

// advance moves to the present and collects what came due.
func (w *Wheel) advance() []*Alarm {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now.Load()
	if gap := w.present() - now; gap > maxGap {
		w.start = w.start.Add(time.Duration(gap-maxGap) * tick)
	}
	var due []*Alarm
	for present := w.present(); now < present; {
		now++
		w.now.Store(now)
		for a := w.slots[now%slots]; a != nil; {
			next := a.next
			w.unlink(a)
			if at := a.heard.Load() + a.after + 1; at > now {
				w.link(a, at)
			} else {
				a.due = true
				due = append(due, a)
			}
			a = next
		}
	}
	return due
}

// begin returns what to call for a, nil when it was stopped or set anew since.
func (w *Wheel) begin(a *Alarm) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.due || w.closed {
		return nil
	}
	a.due = false
	return a.fire
}

// atRest tells whether nothing is set; the goroutine ends then.
func (w *Wheel) atRest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count > 0 {
		return false
	}
	w.running = nil
	return true
}
