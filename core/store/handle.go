package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// handle is one opening of the database.
type handle struct {
	db    *pebble.DB
	fence *fence
}

// openHandle opens the database behind a fence of its own. When the disk fails
// meanwhile the error is ErrFailed.
func (s *Store) openHandle() (*handle, error) {
	h := &handle{}
	h.fence = newFence(s.fs, s.dir, func(err error) { s.fail(h, err) })
	l := &listener{store: s, handle: h, pacer: newPacer()}
	o := &pebble.Options{
		FS:                          h.fence,
		Cache:                       s.cache,
		MemTableSize:                s.opts.memTable,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       128,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      l,
		EventListener:               l.events(),
	}
	o.Experimental.CompactionScheduler = l.pacer
	err := h.call(func() error {
		db, err := pebble.Open(s.dir, o)
		if err != nil {
			return openError(err)
		}
		h.db = db
		return s.checkFormat(db)
	})
	if err == nil {
		return h, nil
	}
	if !h.fence.shut.Load() && h.db != nil {
		// The format is what is wrong.
		_ = h.call(h.db.Close)
	}
	h.fence.close(nil)
	return nil, fmt.Errorf("data directory %s: %w", s.dir, err)
}

// openError names the way out of damage.
func openError(err error) error {
	var errno syscall.Errno
	switch {
	case strings.Contains(err.Error(), "format major version"):
		return fmt.Errorf("%w: %s", ErrFormat, plain(err))
	case errors.As(err, &errno) && !errors.Is(err, fs.ErrNotExist) && !pebble.IsCorruptionError(err):
		return err
	}
	return damaged(err)
}

// damaged is for what stands in the way of a start.
func damaged(err error) error {
	return fmt.Errorf("%w: %s; \"entrepot repair NEW-DIR\" saves what can be saved of it into a new directory", ErrCorrupt, plain(err))
}

// plain is an error's text on one line, without the mark that the database's own
// have.
func plain(err error) string {
	text := strings.ReplaceAll(err.Error(), "<corruption detail carrier>", "")
	return strings.Join(strings.Fields(text), " ")
}

// call runs what may write. It returns when that ends or the disk fails under
// it, and then f never returns. A panic of the database, which it has for what
// it cannot repair, is an error here.
func (h *handle) call(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- damaged(fmt.Errorf("database: %v", r))
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-h.fence.broken:
		return fmt.Errorf("%w: %w", ErrFailed, h.fence.err)
	}
}
