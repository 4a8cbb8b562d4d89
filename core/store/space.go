package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Free is how many bytes the data directory's disk has left.
func (s *Store) Free() (uint64, error) {
	u, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return 0, fmt.Errorf("disk usage of %s: %w", s.dir, err)
	}
	return u.AvailBytes, nil
}

// Refuse makes Room return why, until Refuse(nil): the disk is nearly full.
// Commit goes on, as what frees space is committed too; those ask Room first
// who would fill it.
func (s *Store) Refuse(why error) {
	if why == nil {
		s.refusal.Store(nil)
		return
	}
	s.refusal.Store(&why)
}

// Room tells why nothing is to be written that can be left out: what Refuse was
// given, else Err; nil when there is room.
func (s *Store) Room() error {
	if why := s.refusal.Load(); why != nil {
		return *why
	}
	return s.Err()
}

// Used is how many bytes the data directory's files take.
func (s *Store) Used() (uint64, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", s.dir, err)
	}
	n := uint64(0)
	for _, name := range names {
		// One that went meanwhile takes nothing.
		if i, err := s.fs.Stat(s.fs.PathJoin(s.dir, name)); err == nil {
			n += uint64(i.Size())
		}
	}
	return n, nil
}

const (
	reserveName = "reserve"
	// reserveRoom is how many times its size has to be free for the reserve to
	// be made.
	reserveRoom  = 4
	reserveRetry = time.Minute
)

// keepReserve writes the reserve file as soon as there is room for it.
func (s *Store) keepReserve() {
	if s.opts.ReserveBytes < 0 {
		return
	}
	for !s.makeReserve() && s.waitOpen(reserveRetry) {
	}
}

// makeReserve tells whether the reserve is there.
func (s *Store) makeReserve() bool {
	name := s.fs.PathJoin(s.dir, reserveName)
	if i, err := s.fs.Stat(name); err == nil && i.Size() >= s.opts.ReserveBytes {
		return true
	}
	if free, err := s.Free(); err != nil || free < reserveRoom*uint64(s.opts.ReserveBytes) {
		return false
	}
	if err := s.writeReserve(name); err != nil {
		if s.freeReserve(); errors.Is(err, ErrClosed) {
			return false
		}
		s.opts.Log.Warn("store: no reserve for a full disk", "error", err)
		return false
	}
	return true
}

// writeReserve fills the file with what no file system makes smaller.
func (s *Store) writeReserve(name string) error {
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	noise := rand.NewChaCha8([32]byte{})
	for n := int64(0); n < s.opts.ReserveBytes && err == nil; n += int64(len(block)) {
		select {
		case <-s.closing:
			err = ErrClosed
		default:
			_, _ = noise.Read(block) // never an error
			_, err = f.Write(block)
		}
	}
	return errors.Join(err, f.Close())
}

func (s *Store) freeReserve() {
	// Not there is as good.
	_ = s.fs.Remove(s.fs.PathJoin(s.dir, reserveName))
}

// Checkpoint writes a consistent copy of the store into dir, which must not
// exist, on the same file system (files are linked where possible). What was
// committed before the call is in it.
func (s *Store) Checkpoint(dir string) error {
	if err := s.Sync(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.shut {
		return ErrClosed
	}
	h := s.db.Load()
	err := h.call(func() error { return h.db.Checkpoint(dir, pebble.WithFlushedWAL()) })
	if err != nil {
		return fmt.Errorf("checkpoint into %s: %w", dir, err)
	}
	return nil
}
