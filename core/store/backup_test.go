package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func openReal(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{ReserveBytes: -1, memTable: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// otherDisk is a directory on another file system than the tests' usual one,
// where there is one.
func otherDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "entrepot-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A backup under load, onto another file system, is a consistent point: all
// that was confirmed before, and all up to one group.
// It shows fault 95.
func TestBackupUnderLoad(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := openReal(t, data)
	l := &ledger{t: t, s: s}
	stop := make(chan struct{})
	wg := l.load(100, stop)
	until(t, "confirmed commits", func() bool { return l.sure() > 500 })
	sure := l.sure()
	backup := filepath.Join(otherDisk(t), "backup")
	if err := Backup(s, backup); err != nil {
		t.Fatal(err)
	}
	close(stop)
	wg.Wait()
	if left := globbed(t, data, checkpointName+"*"); len(left) > 0 {
		t.Fatalf("left: %q", left)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "again")
	if err := Restore(backup, again, quiet()); err != nil {
		t.Fatal(err)
	}
	s = openReal(t, again)
	defer s.Close()
	last := -1
	for i := range l.next {
		_, a, err := s.Get(ledgerKey(i))
		_, b, err2 := s.Get(append([]byte("z"), ledgerKey(i)...))
		if err != nil || err2 != nil || a != b {
			t.Fatalf("group %d is half there: %v, %v", i, err, err2)
		}
		if a && last != i-1 {
			t.Fatalf("group %d is there, an older one is not", i)
		}
		if a {
			last = i
		}
	}
	if last+1 < sure {
		t.Fatalf("%d groups were confirmed before the backup, %d are in it", sure, last+1)
	}
	if err := commit(s, true, "after", "1"); err != nil {
		t.Fatal(err)
	}
}

func TestBackupRefuses(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := openReal(t, data)
	defer s.Close()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Backup(s, full); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into a directory with something in it: %v", err)
	}
	link := filepath.Join(full, "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{data, filepath.Join(data, "b"), filepath.Join(data, "b", "c"), filepath.Join(link, "b")} {
		if err := Backup(s, inside); !errors.Is(err, ErrTarget) || !strings.Contains(err.Error(), "inside the data directory") {
			t.Errorf("into %s: %v", inside, err)
		}
	}
	if err := Backup(s, filepath.Join(full, "mine")); err == nil {
		t.Error("into a file")
	}
	s.backing.Lock()
	if err := Backup(s, filepath.Join(t.TempDir(), "b")); !errors.Is(err, ErrBusy) {
		t.Errorf("two at once: %v", err)
	}
	s.backing.Unlock()
	m := openMem(t, MemoryDisk())
	defer m.Close()
	if err := Backup(m, filepath.Join(t.TempDir(), "b")); err == nil {
		t.Error("of a store in memory")
	}
}

// What a crash in a backup leaves takes no room for long.
func TestCrashInBackup(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := openReal(t, data)
	if err := s.Checkpoint(filepath.Join(data, checkpointName+"1")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openReal(t, data)
	defer s.Close()
	if left := globbed(t, data, checkpointName+"*"); len(left) > 0 {
		t.Fatalf("left: %q", left)
	}
	if err := Backup(s, filepath.Join(t.TempDir(), "good")); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreRefuses shows fault 94.
func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	s := openReal(t, filepath.Join(dir, "data"))
	if err := commit(s, true, "a", "1"); err != nil {
		t.Fatal(err)
	}
	good, newer := filepath.Join(dir, "good"), filepath.Join(dir, "newer")
	if err := Backup(s, good); err != nil {
		t.Fatal(err)
	}
	if err := commit(s, true, string(formatKey), "\x00\x00\x00\x09"); err != nil {
		t.Fatal(err)
	}
	if err := Backup(s, newer); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	partial := filepath.Join(dir, "partial")
	if err := copyDir(good, partial); err != nil {
		t.Fatal(err)
	}
	for _, name := range globbed(t, partial, "marker.manifest.*") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	damaged := filepath.Join(dir, "damaged")
	if err := copyDir(good, damaged); err != nil {
		t.Fatal(err)
	}
	for _, name := range globbed(t, damaged, "MANIFEST-*") {
		if err := os.Truncate(name, 5); err != nil {
			t.Fatal(err)
		}
	}
	cut := filepath.Join(dir, "cut")
	if err := copyDir(good, cut); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cut, partName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cut, Options{}); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("opened what is not complete: %v", err)
	}
	running := filepath.Join(dir, "running")
	r := openReal(t, running)
	defer r.Close()
	for i, c := range []struct {
		backup, to string
		is         error
		says       string
	}{
		{good, good, nil, "not empty"},
		{filepath.Join(dir, "nowhere"), "", os.ErrNotExist, ""},
		{partial, "", nil, "no backup"},
		{cut, "", nil, "no backup"},
		{good, running, ErrInUse, "running"},
		{good, filepath.Join(good, "in"), ErrTarget, "inside the backup"},
		{newer, "", ErrFormat, "knows up to"},
		{damaged, "", ErrCorrupt, ""},
		{good, "", nil, ""},
	} {
		to := c.to
		if to == "" {
			to = filepath.Join(dir, fmt.Sprint("to", i))
		}
		err := Restore(c.backup, to, quiet())
		switch {
		case c.is == nil && c.says == "":
			if err != nil {
				t.Errorf("%s: %v", c.backup, err)
			}
		case err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v", c.backup, err)
		case c.to == "" && len(globbed(t, to, "*")) > 0:
			t.Errorf("%s: left %q", c.backup, globbed(t, to, "*"))
		}
	}
}

func globbed(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A store that is closed under its backup makes that fail or end well, and
// nobody hang.
func TestCloseUnderBackup(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		s := openReal(t, filepath.Join(dir, "data"))
		if err := commit(s, true, "a", strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := Backup(s, filepath.Join(dir, "backup")); err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("backup: %v", err)
			}
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
