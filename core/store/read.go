package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Get returns a copy of a key's value; ok is false when it is not there.
// Errors: ErrCorrupt, ErrFailed. It sees what was committed, also before its
// callback.
func (s *Store) Get(key []byte) (value []byte, ok bool, err error) {
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.shut {
		return nil, false, ErrClosed
	}
	h := s.db.Load()
	v, closer, err := h.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, readError(key, err)
	}
	value = append([]byte(nil), v...)
	return value, true, errors.Join(closer.Close())
}

func readError(key []byte, err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("read %x: %w: %s", key, ErrCorrupt, plain(err))
	}
	return fmt.Errorf("read %x: %w", key, err)
}

// Scan calls f for every key from first on and before end, in order, until f
// returns false. key and value are valid during the call only; f calls nothing
// of the store but Commit. Committed batches that wait in memory are not seen; use
// it after Sync, or for keys whose callback ran.
func (s *Store) Scan(first, end []byte, f func(key, value []byte) bool) error {
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.shut {
		return ErrClosed
	}
	return s.db.Load().scan(first, end, f)
}

func (h *handle) scan(first, end []byte, f func(key, value []byte) bool) error {
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: first, UpperBound: end})
	if err != nil {
		return readError(first, err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			key := append([]byte(nil), it.Key()...)
			_ = it.Close() // the read's error is told
			return readError(key, err)
		}
		if !f(it.Key(), v) {
			break
		}
	}
	if err := it.Error(); err != nil {
		_ = it.Close()
		return readError(first, err)
	}
	if err := it.Close(); err != nil {
		return readError(first, err)
	}
	return nil
}
