package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// Refuse speaks to those who ask Room; what is committed goes on.
func TestRoom(t *testing.T) {
	d := MemoryDisk()
	s, err := Open("data", Options{Disk: d, RetryEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan error, 4)
	s.Watch(func(err error) { states <- err })
	want := func(when string, kind error) {
		t.Helper()
		if err := s.Room(); !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", when, err, kind)
		}
	}
	full := errors.New("nearly full")
	want("at first", nil)
	s.Refuse(full)
	want("refused", full)
	var b Batch
	b.Set([]byte("k"), []byte("v"))
	done := make(chan error, 1)
	s.Commit(&b, true, func(err error) { done <- err })
	if err := wait(t, done, "answer"); err != nil || s.Err() != nil {
		t.Errorf("committed while refused: %v, %v", err, s.Err())
	}
	d.Fail("sync", ".log", syscall.EIO)
	s.Commit(&b, true, func(err error) { done <- err })
	if err := wait(t, done, "answer"); !errors.Is(err, ErrFailed) {
		t.Errorf("a disk that fails: %v", err)
	}
	want("refused, and failed", full)
	s.Refuse(nil)
	want("failed", ErrFailed)
	wait(t, states, "failure")
	d.Heal()
	if err := wait(t, states, "recovery"); err != nil {
		t.Errorf("told %v", err)
	}
	want("at last", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want("closed", ErrClosed)
}

// All callbacks of the time before a failure have run when Restate is called,
// slow ones too.
func TestRestateComesAfterCallbacks(t *testing.T) {
	d := MemoryDisk()
	s, err := Open("data", Options{Disk: d, RetryEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var told []string // by one goroutine after the other
	restated := make(chan struct{})
	s.Restate(func(*Fresh) error {
		told = append(told, "restate")
		close(restated)
		return nil
	})
	release := make(chan struct{})
	var b Batch
	b.Set([]byte("k"), []byte("v"))
	s.Commit(&b, true, func(err error) {
		<-release
		told = append(told, fmt.Sprint("first ", err == nil))
	})
	if err := waitErr(s, d); err == nil {
		t.Fatal("the store does not fail")
	}
	s.Commit(&b, true, func(err error) { told = append(told, fmt.Sprint("refused ", err != nil)) })
	d.Heal()
	select {
	case <-restated:
		t.Error("restated before what was done is told")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	wait(t, restated, "restating")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) < 3 || told[0] != "first true" || told[len(told)-1] != "restate" {
		t.Errorf("in this order: %q", told)
	}
}

// waitErr has the disk fail and polls for the store's error.
func waitErr(s *Store, d *Disk) error {
	for end := time.Now().Add(20 * time.Second); !s.allSynced() && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	d.Fail("sync", ".log", syscall.EIO)
	var b Batch
	b.Set([]byte("x"), nil)
	s.Commit(&b, true, nil)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if err := s.Err(); err != nil {
			return err
		}
		<-time.After(time.Millisecond)
	}
	return nil
}

// SetBy is Set.
func TestBatchSetBy(t *testing.T) {
	var a, b Batch
	for i := range 3 {
		key, value := fmt.Sprint("key ", i), fmt.Sprint("value ", i*i*i*1000)
		a.Set([]byte(key), []byte(value))
		b.SetBy([]byte(key), func(v []byte) []byte { return append(append(v, value[:3]...), value[3:]...) })
		a.Delete([]byte(key))
		b.Delete([]byte(key))
	}
	list := func(b *Batch) (all []string) {
		_ = b.each(func(k opKind, key, value []byte) error {
			all = append(all, fmt.Sprint(k, " ", string(key), "=", string(value)))
			return nil
		})
		return all
	}
	if x, y := fmt.Sprint(list(&a)), fmt.Sprint(list(&b)); x != y || a.Size() != b.Size() || a.Len() != b.Len() {
		t.Errorf("%s, want %s", y, x)
	}
}
