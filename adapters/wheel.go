package adapters

import (
	"sync"
	"sync/atomic"
	"time"
)

// tick is how exact the wheel is: a time-out comes up to this much late.
const tick = 100 * time.Millisecond

const slots = 512

// Wheel keeps the time-outs of many connections with one goroutine, which runs
// only while there are any. Resetting a time-out costs one store: an alarm
// that comes due looks when its connection was last heard and moves on.
type Wheel struct {
	start time.Time
	now   atomic.Int64 // ticks since start; stands still while nothing is set

	mu      sync.Mutex
	slots   [slots]*Alarm
	count   int
	running bool
	done    chan struct{}
	closed  bool
}

// Alarm is one time-out. Its zero value is ready; it belongs to one wheel.
type Alarm struct {
	wheel      *Wheel
	fire       func()
	heard      atomic.Int64
	after      int64 // ticks
	slot       int
	set        bool
	prev, next *Alarm
}

// NewWheel returns a wheel at rest.
func NewWheel() *Wheel { return &Wheel{start: time.Now(), done: make(chan struct{})} }

// Close stops the wheel; no alarm fires afterwards.
func (w *Wheel) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.done)
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
	if !w.running {
		w.running = true
		w.now.Store(int64(time.Since(w.start) / tick))
		go w.run()
	}
	a.wheel, a.fire, a.after = w, fire, max(1, int64((d+tick-1)/tick))
	a.heard.Store(w.now.Load())
	w.link(a, a.heard.Load()+a.after+1)
}

// Stop disarms a.
func (w *Wheel) Stop(a *Alarm) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlink(a)
}

// Heard starts the time-out anew. Cheap; from any goroutine after Set.
func (a *Alarm) Heard() {
	if w := a.wheel; w != nil {
		a.heard.Store(w.now.Load())
	}
}

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

func (w *Wheel) unlink(a *Alarm) {
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

func (w *Wheel) run() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-t.C:
		}
		due, more := w.advance()
		for _, fire := range due {
			fire()
		}
		if !more {
			return
		}
	}
}

// advance moves to the present and collects what came due.
func (w *Wheel) advance() (due []func(), more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	present := int64(time.Since(w.start) / tick)
	for now := w.now.Load(); now < present; {
		now++
		w.now.Store(now)
		for a := w.slots[now%slots]; a != nil; {
			next := a.next
			w.unlink(a)
			if at := a.heard.Load() + a.after + 1; at > now {
				w.link(a, at)
			} else {
				due = append(due, a.fire)
			}
			a = next
		}
	}
	w.running = w.count > 0
	return due, w.running
}
