package adapters

import "testing"

// What is out is bounded, one message may always be, and those that were refused
// are resumed once when there is room.
func TestUnacked(t *testing.T) {
	reached := 0
	u := NewUnacked(100, func() { reached++ })
	add, free := func(n int) func() bool { return func() bool { u.Add(n); return false } },
		func(n int) func() bool { return func() bool { return u.Free(n) } }
	for i, step := range []struct {
		do      func() bool
		want    bool
		reached int
		bytes   int64
	}{
		{u.Full, false, 0, 0},
		{add(1000), false, 0, 1000},
		{u.Full, true, 1, 1000},
		{u.Full, true, 1, 1000},
		{free(1000), true, 1, 0},
		{u.Full, false, 1, 0},
		{add(60), false, 1, 60},
		{add(60), false, 1, 120},
		{free(60), false, 1, 60}, // nobody waits
		{add(60), false, 1, 120},
		{u.Full, true, 2, 120},
		{free(10), false, 2, 110}, // not yet
		{free(50), true, 2, 60},
		{free(60), false, 2, 0},
	} {
		if got := step.do(); got != step.want || reached != step.reached || u.Bytes() != step.bytes {
			t.Errorf("step %d: %v, reached %d times, %d bytes", i, got, reached, u.Bytes())
		}
	}
}
