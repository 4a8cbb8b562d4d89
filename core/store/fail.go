package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Watch calls f, from the goroutine that calls the callbacks of Commit and in
// order with them, when the store failed, with the reason, and when it works
// again, with nil. f must not block. Call it before the first Commit.
func (s *Store) Watch(f func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, f)
}

// Restate calls f when the disk works again and before anybody else may write:
// for those who keep in memory what the disk may have lost, as it was committed
// without a sync or refused. All callbacks of the time before have run by then.
// Call Restate before the first Commit.
func (s *Store) Restate(f func(*Fresh) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restates = append(s.restates, f)
}

// Fresh is a store that works again and that nobody else writes to yet. Both
// methods are to be called with no lock held.
type Fresh struct {
	store  *Store
	handle *handle
}

// Put writes a batch; it is on the disk before others may write.
func (f *Fresh) Put(b *Batch) error {
	r := &round{batch: f.handle.db.NewBatch()}
	if err := r.add(b); err != nil {
		return err
	}
	return f.store.write(f.handle, r)
}

// Scan is Store.Scan of what the disk has.
func (f *Fresh) Scan(first, end []byte, do func(key, value []byte) bool) error {
	return f.handle.scan(first, end, do)
}

// fail is called once for a handle whose disk failed: everybody who waits is
// answered, and the disk is tried until it works. One that is not in use yet
// is its opener's to give up.
func (s *Store) fail(h *handle, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db.Load() != h {
		return
	}
	why := err
	err = fmt.Errorf("%w: %w", ErrFailed, pathless(why))
	s.failed, s.running = err, false
	lost := s.waiting
	if s.inFlight != nil {
		lost = append([]*round{s.inFlight}, lost...)
	}
	s.inFlight, s.waiting, s.spare, s.unsynced = nil, nil, nil, false
	for _, r := range lost {
		s.backlog.Add(-r.bytes)
		s.tell(err, r.done...)
	}
	s.tell(err, s.watchers...)
	s.works.Store(false)
	s.wake.Broadcast()
	s.eased.Broadcast()
	s.opts.Log.Error("store failed: durable messages are refused until the disk works", "error", plain(why))
	if !s.closed {
		s.others.Go(func() { s.recover(h, err) })
	}
}

// pathless is an error as clients may see it: where the broker's files are is
// none of their business.
func pathless(err error) error {
	if e := syscall.Errno(0); errors.As(err, &e) {
		return e
	}
	return err
}

// full tells an error of a full disk.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), syscall.ENOSPC.Error())
}

// maxRetry is the longest pause between two attempts on a disk that fails again
// and again.
const maxRetry = time.Minute

// recover tries the disk until it works or the store is closed. Attempts that
// got as far as the database cost memory (see fence), so they become rarer.
func (s *Store) recover(h *handle, why error) {
	if !s.waitQuiet(h) || !s.waitTold() {
		return
	}
	if full(why) {
		s.freeReserve()
	}
	pause := s.opts.RetryEvery
	if since := time.Since(s.worksSince); since < maxRetry {
		pause = max(pause, min(2*s.lastPause, maxRetry))
	}
	s.lastPause = pause
	for s.waitOpen(pause) {
		s.sweep()
		if s.probe() != nil {
			continue
		}
		h, err := s.openHandle()
		if err == nil {
			err = s.restate(h)
		}
		if err == nil && s.use(h) {
			return
		}
		if err != nil {
			s.opts.Log.Warn("store: not yet", "error", plain(err))
		}
		pause = min(2*pause, maxRetry)
	}
}

// waitQuiet waits until nothing of a failed handle writes any more, which a
// disk that hangs may not let happen; false when the store is closed.
func (s *Store) waitQuiet(h *handle) bool {
	quiet := make(chan struct{})
	go func() {
		h.fence.quiet()
		close(quiet)
	}()
	select {
	case <-quiet:
		return true
	case <-s.closing:
		return false
	}
}

// waitTold waits until all callbacks have run that are due, so that who restates
// knows what was done; false when the store is closed.
func (s *Store) waitTold() bool {
	told := make(chan struct{})
	s.mu.Lock()
	s.tell(nil, func(error) { close(told) })
	s.mu.Unlock()
	select {
	case <-told:
		return true
	case <-s.closing:
		return false
	}
}

// waitOpen waits; false when the store is closed.
func (s *Store) waitOpen(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
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
	return errors.Join(err, f.Close(), s.fs.Remove(name))
}

// restate writes what must be there before others write, and syncs it.
func (s *Store) restate(h *handle) error {
	s.mu.Lock()
	restates := s.restates
	s.mu.Unlock()
	err := h.call(func() error {
		for _, f := range restates {
			if err := f(&Fresh{s, h}); err != nil {
				return err
			}
		}
		return s.write(h, &round{batch: h.db.NewBatch(), sync: true})
	})
	if err != nil {
		h.fence.close(nil)
	}
	return err
}

// use makes a handle the one in use; false when it failed meanwhile. A store
// that was closed meanwhile leaves the handle to the end of the process.
func (s *Store) use(h *handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		h.fence.close(nil)
		return true
	}
	if h.fence.shut.Load() {
		return false
	}
	s.db.Store(h)
	s.works.Store(true)
	s.failed, s.running, s.worksSince = nil, true, time.Now()
	s.tell(nil, s.watchers...)
	go s.commitLoop(h)
	s.others.Go(s.keepReserve)
	s.opts.Log.Info("store works again")
	return true
}
