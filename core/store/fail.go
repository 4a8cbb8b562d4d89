package store

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// gate stands between one handle and the disk. Once shut, the handle writes
// nothing more, whatever its goroutines still try.
type gate struct{ shut atomic.Bool }

// wrap also makes the database's own lock a formality: the store holds one.
func (g *gate) wrap(fs vfs.FS) vfs.FS { return unlocked{errorfs.Wrap(fs, g)} }

// String implements errorfs.Injector.
func (g *gate) String() string { return "fence" }

// MaybeError implements errorfs.Injector.
func (g *gate) MaybeError(op errorfs.Op) error {
	if g.shut.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return ErrFailed
	}
	return nil
}

type unlocked struct{ vfs.FS }

func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// logger is what the database reports to.
type logger struct {
	store *Store
	fence *gate
}

// Infof implements pebble.Logger.
func (l *logger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (l *logger) Errorf(format string, args ...any) {
	if !l.fence.shut.Load() {
		l.store.opts.Log.Warn("store: " + fmt.Sprintf(format, args...))
	}
}

// Fatalf implements pebble.Logger: the database cannot go on after an error of
// its log or manifest, and must not return to its caller. The goroutine ends
// here; the handle is fenced and a new one is opened when the disk works.
func (l *logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if h := l.store.db.Load(); h != nil && h.fence == l.fence {
		l.store.fail(h, err)
	}
	l.park()
}

// park keeps the goroutine for ever, with whatever locks of the fenced handle
// it holds; ending it would run the database's deferred unlocks and let others
// of its goroutines go on in a broken state.
func (l *logger) park() {
	for {
		runtime.Gosched()
		select {}
	}
}

// fail marks the store failed, once a handle, answers everybody who waits and
// begins to try the disk.
func (s *Store) fail(h *handle, err error) {
	if h.fence.shut.Swap(true) {
		return
	}
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	s.mu.Lock()
	s.failed = err
	told := append(s.inFlight, s.waiting...)
	s.inFlight, s.waiting, s.running = nil, nil, false
	s.wake.Broadcast()
	closed := s.closed
	s.mu.Unlock()
	s.opts.Log.Error("store failed: durable messages are refused until the disk works", "error", err)
	if full(err) {
		s.freeReserve()
	}
	go func() {
		for _, g := range told {
			if g.done != nil {
				g.done(err)
			}
		}
		if s.opts.OnState != nil {
			s.opts.OnState(err)
		}
		if !closed {
			s.recover()
		}
	}()
}

// full tells an error of a full disk, also where only its text is left.
func full(err error) bool {
	return err != nil && strings.Contains(err.Error(), syscall.ENOSPC.Error())
}

// recover tries the disk until it works or the store is closed.
func (s *Store) recover() {
	for {
		time.Sleep(s.opts.RetryEvery)
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
		if s.probe() != nil {
			continue
		}
		h, err := s.openHandle()
		if err != nil {
			s.opts.Log.Warn("store: not yet", "error", err)
			continue
		}
		if s.goOn(h) {
			return
		}
	}
}

// probe writes and syncs a file.
func (s *Store) probe() error {
	name := s.fs.PathJoin(s.dir, "probe")
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if rerr := s.fs.Remove(name); err == nil {
		err = rerr
	}
	return err
}

// goOn starts a new committer on a new handle.
func (s *Store) goOn(h *handle) bool {
	if err := s.checkFormat(h.db); err != nil {
		// It is tried again with a new handle.
		h.fence.shut.Store(true)
		return false
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		h.fence.shut.Store(true)
		return true
	}
	s.db.Store(h)
	s.failed, s.running = nil, true
	go s.commitLoop()
	s.mu.Unlock()
	s.makeReserve()
	s.opts.Log.Info("store works again")
	if s.opts.OnState != nil {
		s.opts.OnState(nil)
	}
	return true
}
