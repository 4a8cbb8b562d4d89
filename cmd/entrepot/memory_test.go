package main

import (
	"os"
	"testing"
	"testing/fstest"
	"time"
)

func TestResidentOwn(t *testing.T) {
	page := uint64(os.Getpagesize())
	for _, c := range []struct {
		title, statm string
		want         uint64
	}{
		{"as Linux writes it", "320123 4500 1500 800 0 90000 0\n", 3000 * page},
		{"more shared than resident", "9 1 2 0 0 0 0\n", 0},
		{"short", "9 1\n", 0},
		{"no numbers", "a b c\n", 0},
	} {
		root := fstest.MapFS{"proc/self/statm": {Data: []byte(c.statm)}}
		if got := residentOwn(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.title, got, c.want)
		}
	}
	if got := residentOwn(fstest.MapFS{}); got != 0 {
		t.Errorf("without a file: %d", got)
	}
}

// The meter asks for a collection when what is held is beyond the edge, and not
// all the time.
func TestMemoryMeter(t *testing.T) {
	collected := 0
	m := &memoryMeter{root: fstest.MapFS{}, collect: func() { collected++ }}
	if n := m.used(1 << 60); n == 0 || n > 1<<40 || collected > 0 {
		t.Errorf("%d bytes, %d collections far from the edge", n, collected)
	}
	m.used(1)
	m.used(1)
	if collected != 1 {
		t.Errorf("%d collections at the edge, want 1", collected)
	}
	m.last = time.Now().Add(-betweenCollects)
	m.used(1)
	if collected != 2 {
		t.Errorf("%d collections later, want 2", collected)
	}
}

// What is used counts what is reachable, and not garbage.
func TestMemoryMeterLeavesGarbageOut(t *testing.T) {
	m := newMemoryMeter()
	before := m.used(0)
	kept := make([]byte, 64<<20)
	for i := range kept {
		kept[i] = 1
	}
	m.last = time.Time{}
	with := m.used(0)
	if with < before+60<<20 {
		t.Errorf("%d MiB, with 64 MiB more %d MiB", before>>20, with>>20)
	}
	if kept[len(kept)-1] != 1 {
		t.Error("not there")
	}
	kept = nil
	m.last = time.Time{}
	if after := m.used(0); after > with-60<<20 {
		t.Errorf("%d MiB, and without 64 MiB of them %d MiB", with>>20, after>>20)
	}
}

func TestMemoryBase(t *testing.T) {
	if n := memoryBase(); n != 0 && n < 16<<20 {
		t.Errorf("%d bytes of memory", n)
	}
}
