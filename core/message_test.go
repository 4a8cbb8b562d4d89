package core

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

// NewMessage gives exactly n bytes, and up to 1 KiB in one allocation.
func TestNewMessage(t *testing.T) {
	for _, n := range []int{0, 1, 64, 65, 160, 161, 400, 401, 1024, 1025, 100_000} {
		m := NewMessage(n)
		if len(m.Payload) != n || cap(m.Payload) > max(n, 0) {
			t.Errorf("%d bytes: length %d, room %d", n, len(m.Payload), cap(m.Payload))
		}
		want := 1.0
		if n > 1024 {
			want = 2
		}
		var sink *Message
		if got := testing.AllocsPerRun(100, func() { sink = NewMessage(n) }); got > want {
			t.Errorf("%d bytes: %.0f allocations, want %.0f", n, got, want)
		}
		_ = sink
	}
}

func TestAddress(t *testing.T) {
	for _, name := range []string{"q", "a/b", "$x", "+", "%00", " ", strings.Repeat("x", 255)} {
		a, err := QueueAddress(name)
		if err != nil || a.IsZero() {
			t.Fatalf("%q: %v", name, err)
		}
		if got, ok := a.QueueName(); !ok || got != name {
			t.Errorf("%q became %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 256)} {
		if _, err := QueueAddress(name); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if !(Address{}).IsZero() {
		t.Error("no address is one")
	}
	a, _ := QueueAddress("q")
	a.Exchange = "x"
	if _, ok := a.QueueName(); ok {
		t.Error("a topic of another exchange names a queue")
	}
}

func TestVerdict(t *testing.T) {
	for r := range dropReasons {
		if got, ok := Dropped(r).Reason(); !ok || got != r {
			t.Errorf("%v became %v, %v", r, got, ok)
		}
	}
	for _, v := range []Verdict{Full, Held, Settled} {
		if _, ok := v.Reason(); ok {
			t.Errorf("verdict %d has a reason", v)
		}
	}
}

// Every reason, guarantee and key has a name for logs and metrics.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range dropReasons {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("reason %d is %q", r, r)
		}
		seen[r.String()] = true
	}
	for g := AtMostOnce; g <= Once; g++ {
		if g.String() == "" || seen[g.String()] {
			t.Errorf("guarantee %d is %q", g, g)
		}
		seen[g.String()] = true
	}
	for k, want := range map[QueueKey]string{
		Named("q"):                       `queue "q"`,
		Key(SessionQueue, "c"):           `session queue "c"`,
		Key(GroupQueue, "g", "a/#"):      `group queue "g a/#"`,
		Key(TopicQueue, "7", "sub", "x"): `subscription queue "7 sub x"`,
	} {
		if got := k.String(); got != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func TestDrops(t *testing.T) {
	var none *Drops
	none.Add(DropExpired, 5)
	d := &Drops{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				d.Add(DropExpired, 1)
				d.Add(DropOverflow, 2)
			}
		})
	}
	wg.Wait()
	d.Add(DropEnded, 0)
	d.Add(DropEnded, -1)
	got := map[DropReason]uint64{}
	d.Each(func(r DropReason, n uint64) { got[r] = n })
	if len(got) != int(dropReasons) || got[DropExpired] != 4000 || got[DropOverflow] != 8000 || got[DropEnded] != 0 {
		t.Errorf("counted %v", got)
	}
}
