package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// wait fails the test when nothing comes in time.
func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

// outage is one way in which a disk fails.
type outage struct {
	what, part string
	err        error
}

func outages() []outage {
	return []outage{
		{"sync", ".log", syscall.EIO},
		{"sync", ".log", io.ErrUnexpectedEOF},
		{"write", ".log", syscall.ENOSPC},
		{"write", "", syscall.EIO},
		{"write", "", syscall.EROFS},
		{"sync", "", syscall.EIO},
		{"create", ".log", syscall.ENOSPC},
		{"create", ".log", syscall.EMFILE},
		{"write", ".sst", syscall.ENOSPC},
		{"sync", ".sst", syscall.EIO},
		{"create", ".sst", syscall.ENOSPC},
		{"write", "MANIFEST", syscall.EIO},
		{"sync", "MANIFEST", syscall.EIO},
		{"write", "MANIFEST", syscall.ENOSPC},
	}
}

func (o outage) String() string { return fmt.Sprintf("%s %s %v", o.what, o.part, o.err) }

// openSmall opens a store that changes its log and writes its table every few
// hundred commits.
func openSmall(t *testing.T, d *Disk) *Store {
	t.Helper()
	s, err := Open("data", Options{Disk: d, RetryEvery: 5 * time.Millisecond, memTable: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ledger commits on its own until told to stop and keeps what was answered.
type ledger struct {
	t *testing.T
	s *Store

	mu        sync.Mutex
	next      int // of commits
	heard     int // callbacks came up to here
	confirmed []int
	refused   int
}

func ledgerKey(i int) []byte { return fmt.Appendf(nil, "k%07d", i) }

// commit sends one group of two keys.
func (l *ledger) commit(size int) {
	var b Batch
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.next
	l.next++
	b.Set(ledgerKey(i), bytes.Repeat([]byte{byte(i)}, size))
	b.Set(append([]byte("z"), ledgerKey(i)...), nil)
	l.s.Commit(&b, true, func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.heard != i {
			l.t.Errorf("commit %d was answered in the place of %d", i, l.heard)
		}
		l.heard++
		switch {
		case err == nil:
			l.confirmed = append(l.confirmed, i)
		case errors.Is(err, ErrFailed):
			l.refused++
		default:
			l.t.Errorf("commit %d: %v", i, err)
		}
	})
}

// load commits from several goroutines until stop is closed, never far ahead.
func (l *ledger) load(size int, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				for l.s.Err() == nil && l.ahead() < 32 {
					l.commit(size)
				}
				select {
				case <-stop:
					return
				case <-tick.C:
					l.commit(size)
				}
			}
		})
	}
	return &wg
}

// ahead is the number of commits that wait for an answer.
func (l *ledger) ahead() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - l.heard
}

// sure is the number of confirmed commits.
func (l *ledger) sure() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.confirmed)
}

// check compares a store with the answers.
func (l *ledger) check(s *Store) {
	l.t.Helper()
	for _, i := range l.confirmed {
		v, ok, err := s.Get(ledgerKey(i))
		if !ok || err != nil || len(v) == 0 || v[0] != byte(i) {
			l.t.Fatalf("%d of %d was confirmed and is gone: %v", i, l.next, err)
		}
	}
	for i := range l.next {
		_, a, _ := s.Get(ledgerKey(i))
		_, b, _ := s.Get(append([]byte("z"), ledgerKey(i)...))
		if a != b {
			l.t.Fatalf("group %d is half there", i)
		}
	}
}

// Whatever fails while many commits are on their way: each is answered once and
// in order, none falsely, what is there can be read meanwhile, and the store
// goes on by itself when the disk does. Twice, as a second failure meets the
// remains of the first.
// It shows fault 71.
func TestDiskFailsUnderLoadAndRecovers(t *testing.T) {
	for _, o := range outages() {
		t.Run(o.String(), func(t *testing.T) {
			d := MemoryDisk()
			s := openSmall(t, d)
			states := make(chan error, 16)
			s.Watch(func(err error) { states <- err })
			l := &ledger{t: t, s: s}
			stop := make(chan struct{})
			wg := l.load(100, stop)
			for round := range 2 {
				until(t, "confirmed commit", func() bool { return l.sure() > 10*round })
				d.Fail(o.what, o.part, o.err)
				err := wait(t, states, "failure")
				if !errors.Is(err, ErrFailed) || !errors.Is(err, o.err) {
					t.Errorf("state %v", err)
				}
				if _, _, err := s.Get(ledgerKey(0)); err != nil {
					t.Errorf("read of a failed store: %v", err)
				}
				d.Heal()
				if err := wait(t, states, "recovery"); err != nil {
					t.Fatalf("state after healing: %v", err)
				}
			}
			close(stop)
			wg.Wait()
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			after := d.Crash(0, 1)
			l.check(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if l.heard != l.next || len(l.confirmed) == 0 {
				t.Fatalf("%d commits, %d answered, %d confirmed", l.next, l.heard, len(l.confirmed))
			}
			s = openMem(t, after)
			defer s.Close()
			l.check(s)
		})
	}
}

// A failed store closes at once, whatever of it hangs at the fence.
func TestCloseOfAFailedStore(t *testing.T) {
	for _, o := range outages() {
		t.Run(o.String(), func(t *testing.T) {
			d := MemoryDisk()
			s := openSmall(t, d)
			states := make(chan error, 16)
			s.Watch(func(err error) { states <- err })
			l := &ledger{t: t, s: s}
			stop := make(chan struct{})
			wg := l.load(100, stop)
			d.Fail(o.what, o.part, o.err)
			wait(t, states, "failure")
			close(stop)
			wg.Wait()
			done := make(chan error, 1)
			go func() { done <- s.Close() }()
			if err := wait(t, done, "end of Close"); err != nil {
				t.Fatal(err)
			}
			if l.heard != l.next {
				t.Fatalf("%d commits, %d answered", l.next, l.heard)
			}
			d.Heal()
			s = openMem(t, d.Crash(100, 1))
			defer s.Close()
			l.check(s)
		})
	}
}

// A disk that fails while the store is closed makes Close fail, not hang; what
// was confirmed is in the log.
func TestDiskFailsInClose(t *testing.T) {
	for _, o := range []outage{{"write", ".sst", syscall.ENOSPC}, {"sync", ".sst", syscall.EIO},
		{"write", "MANIFEST", syscall.EIO}, {"write", ".log", syscall.EIO}, {"sync", ".log", syscall.EIO}} {
		t.Run(o.String(), func(t *testing.T) {
			d := MemoryDisk()
			s := openMem(t, d)
			if err := commit(s, true, "a", "1"); err != nil {
				t.Fatal(err)
			}
			d.Fail(o.what, o.part, o.err)
			done := make(chan error, 1)
			go func() { done <- s.Close() }()
			if err := wait(t, done, "end of Close"); !errors.Is(err, o.err) {
				t.Fatalf("Close: %v", err)
			}
			s = openMem(t, d.Crash(0, 1))
			defer s.Close()
			if _, ok, err := s.Get([]byte("a")); !ok || err != nil {
				t.Fatalf("confirmed and gone: %v", err)
			}
		})
	}
}

// A disk that fails while the store is opened is an error, no hang, and leaves
// the directory to the next one.
func TestDiskFailsInOpen(t *testing.T) {
	for _, o := range []outage{{"create", "MANIFEST", syscall.ENOSPC}, {"write", "MANIFEST", syscall.EIO},
		{"sync", "MANIFEST", syscall.EIO}, {"create", ".log", syscall.EMFILE}, {"write", "dbtmp", syscall.ENOSPC},
		{"create", ".sst", syscall.ENOSPC}, {"read", ".log", syscall.EIO}, {"read", "MANIFEST", syscall.EIO}} {
		t.Run(o.String(), func(t *testing.T) {
			first := MemoryDisk()
			s := openMem(t, first)
			if err := commit(s, true, "a", "1"); err != nil {
				t.Fatal(err)
			}
			d := first.Crash(0, 1)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			d.Fail(o.what, o.part, o.err)
			done := make(chan error, 1)
			go func() {
				_, err := Open("data", Options{Disk: d})
				done <- err
			}()
			err := wait(t, done, "end of Open")
			if !errors.Is(err, o.err) || errors.Is(err, ErrCorrupt) {
				t.Fatalf("Open: %v", err)
			}
			d.Heal()
			s = openMem(t, d)
			defer s.Close()
			if _, ok, err := s.Get([]byte("a")); !ok || err != nil {
				t.Fatalf("confirmed and gone: %v", err)
			}
		})
	}
}

// A disk that fails again during the recovery is waited for.
func TestDiskFailsInRecovery(t *testing.T) {
	for _, o := range []outage{{"create", "MANIFEST", syscall.ENOSPC}, {"sync", "MANIFEST", syscall.EIO},
		{"create", ".sst", syscall.ENOSPC}, {"read", ".log", syscall.EIO}, {"write", "dbtmp", syscall.ENOSPC},
		{"write", "probe", syscall.ENOSPC}} {
		t.Run(o.String(), func(t *testing.T) {
			d := MemoryDisk()
			s := openMem(t, d)
			defer s.Close()
			states := make(chan error, 16)
			s.Watch(func(err error) { states <- err })
			tried := make(chan struct{}, 100)
			s.Restate(func(*Fresh) error { return nil })
			if err := commit(s, true, "a", "1"); err != nil {
				t.Fatal(err)
			}
			d.Fail("sync", ".log", syscall.EIO)
			if err := commit(s, true, "b", "1"); !errors.Is(err, ErrFailed) {
				t.Fatalf("commit: %v", err)
			}
			wait(t, states, "failure")
			d.onFault(func() { tried <- struct{}{} })
			d.Fail(o.what, o.part, o.err)
			wait(t, tried, "attempt")
			d.Heal()
			if err := wait(t, states, "recovery"); err != nil {
				t.Fatal(err)
			}
			if err := commit(s, true, "c", "1"); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := s.Get([]byte("a")); !ok || err != nil {
				t.Fatalf("confirmed and gone: %v", err)
			}
		})
	}
}

// Once a handle failed it writes and removes nothing more.
// It shows fault 71.
func TestFencedHandleIsOut(t *testing.T) {
	d := MemoryDisk()
	s := openMem(t, d)
	defer s.Close()
	states := make(chan error, 16)
	s.Watch(func(err error) { states <- err })
	old := s.db.Load().fence
	kept, err := old.Create(s.fs.PathJoin("data", "kept"), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	d.Fail("sync", ".log", syscall.EIO)
	if err := commit(s, true, "a", "1"); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	d.Heal()
	wait(t, states, "failure")
	wait(t, states, "recovery")
	came := make(chan string, 16)
	for what, f := range map[string]func(){
		"create": func() { _, _ = old.Create(s.fs.PathJoin("data", "new"), vfs.WriteCategoryUnspecified) },
		"write":  func() { _, _ = kept.Write([]byte("x")) },
		"sync":   func() { _ = kept.Sync() },
		"remove": func() { _ = old.Remove(s.fs.PathJoin("data", "kept")) },
		"rename": func() { _ = old.Rename(s.fs.PathJoin("data", "kept"), s.fs.PathJoin("data", "other")) },
		"link":   func() { _ = old.Link(s.fs.PathJoin("data", "kept"), s.fs.PathJoin("data", "other")) },
	} {
		go func() {
			f()
			came <- what
		}()
	}
	// The new handle's work gives them the time to do harm.
	for range 50 {
		if err := commit(s, true, "b", "2"); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case what := <-came:
		t.Fatalf("%s went through a shut fence", what)
	default:
	}
	names, err := d.List("data")
	if err != nil {
		t.Fatal(err)
	}
	if !contains(names, "kept") || contains(names, "new") || contains(names, "other") {
		t.Fatalf("files %q", names)
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// What memory has and the disk lost is written before anybody else writes.
func TestRestateComesFirst(t *testing.T) {
	d := MemoryDisk()
	s := openMem(t, d)
	defer s.Close()
	states := make(chan error, 16)
	s.Watch(func(err error) { states <- err })
	s.Restate(func(f *Fresh) error {
		if err := s.Sync(); !errors.Is(err, ErrFailed) {
			t.Errorf("Sync while restating: %v", err)
		}
		var b Batch
		b.Set([]byte("queue"), []byte("1"))
		return f.Put(&b)
	})
	d.Fail("sync", ".log", syscall.EIO)
	var b Batch
	b.Set([]byte("queue"), []byte("1"))
	s.Commit(&b, false, nil)
	if err := s.Sync(); !errors.Is(err, ErrFailed) {
		t.Fatalf("Sync: %v", err)
	}
	d.Heal()
	wait(t, states, "failure")
	wait(t, states, "recovery")
	s2 := openMem(t, d.Crash(0, 1))
	defer s2.Close()
	if _, ok, err := s2.Get([]byte("queue")); !ok || err != nil {
		t.Fatalf("not restated: %v", err)
	}
}

// The reserve goes when the disk is full and comes back when there is room.
// It shows fault 71.
func TestReserve(t *testing.T) {
	d := MemoryDisk()
	d.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 31, UsedBytes: 1 << 30})
	s, err := Open("data", Options{Disk: d, ReserveBytes: 1 << 20, RetryEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	states := make(chan error, 16)
	s.Watch(func(err error) { states <- err })
	reserve := func() bool {
		n, err := d.Size(s.fs.PathJoin("data", reserveName))
		return err == nil && n == 1<<20
	}
	until(t, "reserve", reserve)
	d.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 10, TotalBytes: 1 << 31, UsedBytes: 1 << 30})
	d.Fail("write", ".log", syscall.ENOSPC)
	if err := commit(s, true, "a", "1"); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	wait(t, states, "failure")
	until(t, "freed reserve", func() bool {
		_, err := d.Size(s.fs.PathJoin("data", reserveName))
		return errors.Is(err, os.ErrNotExist)
	})
	d.Heal()
	wait(t, states, "recovery")
	if s.makeReserve() {
		t.Fatal("the last room went into the reserve")
	}
	d.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 31, UsedBytes: 1 << 30})
	if !s.makeReserve() || !reserve() {
		t.Fatal("no reserve though there is room")
	}
}

// until polls for something that another goroutine does.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !f(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}
