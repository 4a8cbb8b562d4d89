package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func openMem(t *testing.T, d *Disk) *Store {
	t.Helper()
	s, err := Open("data", Options{Disk: d, RetryEvery: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func commit(s *Store, sync bool, kv ...string) error {
	var b Batch
	for i := 0; i < len(kv); i += 2 {
		b.Set([]byte(kv[i]), []byte(kv[i+1]))
	}
	c := make(chan error, 1)
	s.Commit(&b, sync, func(err error) { c <- err })
	return <-c
}

func TestCommittedIsThereAfterReopen(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := commit(s, true, "a", "1", "b", "2"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{ReserveBytes: -1}); !errors.Is(err, ErrInUse) {
		t.Fatalf("second open of one directory: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := commit(s, true, "c", "3"); !errors.Is(err, ErrClosed) {
		t.Fatalf("commit after close: %v", err)
	}
	s, err = Open(dir, Options{ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got string
	if err := s.Scan([]byte("a"), []byte("z"), func(k, v []byte) bool { got += string(k) + string(v); return true }); err != nil || got != "a1b2" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// TestCrashKeepsConfirmedAndGroupsWhole shows fault 69.
func TestCrashKeepsConfirmedAndGroupsWhole(t *testing.T) {
	for seed := range uint64(40) {
		d := MemoryDisk()
		s := openMem(t, d)
		rng := rand.New(rand.NewPCG(seed, 1))
		n, confirmed := 50, rng.IntN(50)
		for i := range n {
			var b Batch
			b.Set(fmt.Appendf(nil, "x%03d", i), []byte("v"))
			b.Set(fmt.Appendf(nil, "y%03d", i), []byte("v"))
			s.Commit(&b, false, nil)
			if i == confirmed {
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		after := d.Crash(rng.IntN(101), seed)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openMem(t, after)
		last := -1
		for i := range n {
			_, x, _ := s.Get(fmt.Appendf(nil, "x%03d", i))
			_, y, _ := s.Get(fmt.Appendf(nil, "y%03d", i))
			if x != y {
				t.Fatalf("seed %d: group %d is half there", seed, i)
			}
			if x && last != i-1 {
				t.Fatalf("seed %d: group %d is there, an older one is not", seed, i)
			}
			if x {
				last = i
			}
		}
		if last < confirmed {
			t.Fatalf("seed %d: confirmed up to %d, there up to %d", seed, confirmed, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
