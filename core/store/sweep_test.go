package store

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What attempts left on a full disk goes before the next attempt, which would
// have less room than the one before; in a start too. What counts stays.
// It shows fault 71.
func TestFullDiskIsSwept(t *testing.T) {
	d := MemoryDisk()
	s, err := Open("data", Options{Disk: d, RetryEvery: time.Millisecond, memTable: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan error, 16)
	s.Watch(func(err error) { states <- err })
	l := &ledger{t: t, s: s}
	for range 200 { // some tables, some logs
		l.commit(2000)
	}
	until(t, "confirmed commits", func() bool { return l.sure() == 200 })
	// Tables are written behind the commits: before the manifest has the first,
	// nothing says that a log is of no use.
	until(t, "table in the manifest", func() bool { return flushed(t, d) })
	d.Fail("write", "", syscall.ENOSPC)
	_ = commit(s, true, "refused", "1")
	wait(t, states, "failure")
	litter(t, d)
	until(t, "swept directory", func() bool { return !littered(t, d) })
	d.Heal()
	wait(t, states, "recovery")
	l.check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	litter(t, d)
	d.Fail("write", "", syscall.ENOSPC)
	if _, err := Open("data", Options{Disk: d}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("start on a full disk: %v", err)
	}
	if littered(t, d) {
		t.Error("not swept by a start on a full disk")
	}
	d.Heal()
	s = openMem(t, d)
	defer s.Close()
	l.check(s)
}

// flushed tells whether the manifest has a table, and so the oldest log that
// counts.
func flushed(t *testing.T, d *Disk) bool {
	t.Helper()
	names, err := d.List("data")
	if err != nil {
		t.Fatal(err)
	}
	b, err := readFile(d.fs, d.fs.PathJoin("data", currentManifest(names)))
	if err != nil {
		t.Fatal(err)
	}
	m, _ := readManifest(b) // the last record may be on its way
	return len(m.tables) > 0 && m.oldest > 1
}

var leftovers = []string{"900000.sst", "000001.log"}

func litter(t *testing.T, d *Disk) {
	t.Helper()
	for _, name := range leftovers {
		f, err := d.mem.Create(d.fs.PathJoin("data", name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func littered(t *testing.T, d *Disk) bool {
	t.Helper()
	names, err := d.List("data")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(leftovers, func(name string) bool { return slices.Contains(names, name) })
}

// A full disk refuses a log that is used again, too.
func TestFaultsOfFilesThatAreUsedAgain(t *testing.T) {
	d := MemoryDisk()
	f, err := d.fs.Create("old.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := d.fs.ReuseForWrite("old.log", "new.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]bool{"": true, "new.log": true, "old.log": false} {
		d.Fail("write", part, syscall.ENOSPC)
		if _, err := again.Write([]byte("x")); errors.Is(err, syscall.ENOSPC) != want {
			t.Errorf("%q: %v", part, err)
		}
	}
	d.Heal()
	if _, err := again.Write([]byte("x")); err != nil {
		t.Error(err)
	}
}
