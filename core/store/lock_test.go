package store

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// locker is a file system with a fault in its locks.
type locker struct {
	vfs.FS
	err error
}

func (l *locker) Lock(name string) (io.Closer, error) { return nil, l.err }

// A directory whose lock cannot be opened, as it is another user's or read only,
// is not said to be in use, and one that is in use is.
func TestReasonsForNoLock(t *testing.T) {
	opening := func(why error) error { return &os.PathError{Op: "open", Path: "data/entrepot.lock", Err: why} }
	for _, c := range []struct {
		err   error
		inUse bool
	}{
		{syscall.EAGAIN, true},
		{syscall.EACCES, true}, // as some systems answer to fcntl
		{errors.New("lock held by current process"), true},
		{opening(syscall.EACCES), false},
		{opening(syscall.EROFS), false},
		{opening(syscall.ENOSPC), false},
	} {
		_, err := lockDir(&locker{vfs.NewMem(), c.err}, "data")
		if errors.Is(err, ErrInUse) != c.inUse || !strings.Contains(err.Error(), c.err.Error()) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// What lies on a disk that became read only is repaired: no broker runs there.
// It shows fault 71.
func TestRepairOfAReadOnlyDisk(t *testing.T) {
	d, _ := written(t, 3)
	s := openMem(t, d)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for why, ok := range map[error]bool{syscall.EROFS: true, syscall.EACCES: false} {
		d.fs = &locker{d.mem, &os.PathError{Op: "open", Path: "data/entrepot.lock", Err: why}}
		rep, err := repair(d, "data", MemoryDisk(), "saved", quiet())
		if ok != (err == nil) || ok != (rep.Keys > 0) {
			t.Errorf("%v: %+v, %v", why, rep, err)
		}
	}
}

// The reserve of a stopped broker is no data: a restore leaves it out.
func TestRestoreLeavesTheReserveOut(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := openReal(t, from).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(from+"/"+reserveName, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Restore(from, to, quiet()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(to + "/" + reserveName); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reserve: %v", err)
	}
}
