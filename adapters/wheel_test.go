package adapters

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// timed runs f in a bubble with a wheel and a function that says when an alarm
// of that name fired, 0 for not yet.
func timed(t *testing.T, f func(w *Wheel, fire func(string) func(), at func(string) time.Duration)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := NewWheel()
		start := time.Now()
		var mu sync.Mutex
		fired := map[string]time.Duration{}
		f(w, func(name string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				fired[name] = time.Since(start)
			}
		}, func(name string) time.Duration {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return fired[name]
		})
		w.Close()
	})
}

func between(t *testing.T, what string, got, from, to time.Duration) {
	t.Helper()
	if got < from || got > to {
		t.Errorf("%s after %v, want %v to %v", what, got, from, to)
	}
}

func TestWheelIsLateByATickAtMost(t *testing.T) {
	for _, d := range []time.Duration{
		0, 1, tick - 1, tick, tick + 1, time.Second, 7777 * time.Millisecond,
		(slots - 2) * tick, (slots - 1) * tick, slots * tick, (slots + 1) * tick, // a turn
		2*slots*tick + 50*time.Millisecond, time.Hour,
	} {
		for _, phase := range []time.Duration{0, 1, 30 * time.Millisecond, tick - 1} {
			timed(t, func(w *Wheel, fire func(string) func(), at func(string) time.Duration) {
				var first, a Alarm
				w.Set(&first, 48*time.Hour, fire("first"))
				time.Sleep(phase)
				w.Set(&a, d, fire("a"))
				time.Sleep(d + 3*tick)
				between(t, d.String(), at("a")-phase, d, max(d, 1)+2*tick)
				if at("first") != 0 {
					t.Error("another alarm came too early")
				}
				w.Stop(&first)
			})
		}
	}
}

func TestWheelHeard(t *testing.T) {
	timed(t, func(w *Wheel, fire func(string) func(), at func(string) time.Duration) {
		var a, never Alarm
		w.Set(&a, time.Second, fire("a"))
		for range 200 {
			time.Sleep(990 * time.Millisecond)
			a.Heard()
			never.Heard() // of an alarm that was never set: nothing
		}
		if at("a") != 0 {
			t.Fatalf("fired after %v although it was heard", at("a"))
		}
		heard := 200 * 990 * time.Millisecond
		time.Sleep(2 * time.Second)
		between(t, "after the last Heard", at("a")-heard, time.Second-tick, time.Second+2*tick)
	})
}

func TestWheelSetAnewAndStop(t *testing.T) {
	timed(t, func(w *Wheel, fire func(string) func(), at func(string) time.Duration) {
		var a, b, c Alarm
		w.Set(&a, time.Second, fire("first"))
		w.Set(&b, time.Second, fire("b"))
		w.Set(&c, time.Second, fire("c"))
		w.Set(&a, 3*time.Second, fire("second"))
		w.Stop(&b) // from the middle of its slot
		w.Stop(&b)
		time.Sleep(10 * time.Second)
		if at("first") != 0 || at("b") != 0 {
			t.Error("fired although replaced or stopped")
		}
		between(t, "c", at("c"), time.Second, time.Second+2*tick)
		between(t, "second", at("second"), 3*time.Second, 3*time.Second+2*tick)
	})
}

func TestWheelRestsAndStartsAgain(t *testing.T) {
	timed(t, func(w *Wheel, fire func(string) func(), at func(string) time.Duration) {
		var a Alarm
		for i, name := range []string{"1", "2", "3"} {
			begin := time.Duration(i) * (time.Hour + time.Second)
			w.Set(&a, 300*time.Millisecond, fire(name))
			time.Sleep(time.Second)
			between(t, name, at(name)-begin, 300*time.Millisecond, 500*time.Millisecond)
			w.mu.Lock()
			if w.running != nil {
				t.Error("runs although nothing is set")
			}
			w.mu.Unlock()
			time.Sleep(time.Hour)
		}
	})
}

func TestWheelFireMaySet(t *testing.T) {
	timed(t, func(w *Wheel, fire func(string) func(), at func(string) time.Duration) {
		var a Alarm
		w.Set(&a, time.Second, func() { w.Set(&a, time.Second, fire("a")) })
		time.Sleep(3 * time.Second)
		between(t, "second time", at("a"), 2*time.Second, 2*time.Second+4*tick)
	})
}

// A reader that logs in just as its alarm comes due must not be kicked.
func TestWheelStopWinsOverDue(t *testing.T) {
	for name, undo := range map[string]func(w *Wheel, a *Alarm){
		"stop":  func(w *Wheel, a *Alarm) { w.Stop(a) },
		"set":   func(w *Wheel, a *Alarm) { w.Set(a, time.Hour, func() {}) },
		"close": func(w *Wheel, _ *Alarm) { close(w.done); w.closed = true },
	} {
		w := NewWheel()
		w.running = make(chan struct{}) // turned by hand
		w.start = time.Now()
		var a Alarm
		w.Set(&a, tick, func() { t.Error(name, "lost") })
		w.start = w.start.Add(-3 * tick)
		due := w.advance()
		if len(due) != 1 {
			t.Fatalf("%d alarms due, want 1", len(due))
		}
		undo(w, &a)
		if fire := w.begin(due[0]); fire != nil {
			t.Errorf("%s: fires all the same", name)
		}
	}
}

// A process that stood still for a minute must not take its clients for silent.
func TestWheelForgivesAGap(t *testing.T) {
	w := NewWheel()
	w.running = make(chan struct{})
	w.start = time.Now()
	var short, long Alarm
	w.Set(&short, 200*time.Millisecond, nil)
	w.Set(&long, time.Second, nil)
	w.start = w.start.Add(-time.Minute)
	if due := w.advance(); len(due) != 1 || due[0] != &short {
		t.Errorf("%d alarms due, want the short one", len(due))
	}
	w.start = w.start.Add(-maxGap * tick)
	long.Heard()
	if due := w.advance(); len(due) != 0 {
		t.Error("an alarm that was heard came due")
	}
}

func TestWheelCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		var a, b Alarm
		began, over := make(chan struct{}), false
		w.Set(&a, tick, func() {
			close(began)
			time.Sleep(time.Second)
			over = true
		})
		<-began
		w.Close()
		if !over {
			t.Error("Close returned while an alarm was being fired")
		}
		w.Close()
		w.Set(&b, tick, func() { t.Error("fired after Close") })
		time.Sleep(time.Minute)
	})
}

func BenchmarkWheelHeard(b *testing.B) {
	w := NewWheel()
	defer w.Close()
	var a Alarm
	w.Set(&a, time.Hour, func() {})
	for b.Loop() {
		a.Heard()
	}
}

func BenchmarkWheelSet(b *testing.B) {
	w := NewWheel()
	defer w.Close()
	alarms := make([]Alarm, 1000)
	fire := func() {}
	for i := 0; b.Loop(); i++ {
		w.Set(&alarms[i%1000], time.Duration(i%100)*time.Second, fire)
	}
}
