package store

import (
	"fmt"

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

// Used is about how many bytes the data directory takes.
func (s *Store) Used() uint64 {
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.shut {
		return 0
	}
	return s.db.Load().db.Metrics().DiskSpaceUsage()
}

const reserveName = "reserve"

// makeReserve writes the reserve file if it is not there; without room for it
// the store works without.
func (s *Store) makeReserve() {
	if s.opts.ReserveBytes < 0 || s.opts.Disk.mem != nil {
		return
	}
	name := s.fs.PathJoin(s.dir, reserveName)
	if i, err := s.fs.Stat(name); err == nil && i.Size() >= s.opts.ReserveBytes {
		return
	}
	if err := s.writeReserve(name); err != nil {
		s.opts.Log.Warn("store: no reserve for a full disk", "error", err)
		s.freeReserve()
	}
}

func (s *Store) writeReserve(name string) error {
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for n := int64(0); n < s.opts.ReserveBytes && err == nil; n += int64(len(block)) {
		_, err = f.Write(block)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (s *Store) freeReserve() {
	// Not there is as good.
	_ = s.fs.Remove(s.fs.PathJoin(s.dir, reserveName))
}

// Checkpoint writes a consistent copy of the store into dir, which must not
// exist, on the same file system (files are linked where possible).
func (s *Store) Checkpoint(dir string) error {
	if err := s.Sync(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.shut {
		return ErrClosed
	}
	if err := s.db.Load().db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("checkpoint into %s: %w", dir, err)
	}
	return nil
}
