package store

import (
	"bytes"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Range is a range of keys, End excluded unless it is a single key.
type Range struct{ First, End []byte }

// damage collects the key ranges whose blocks were found damaged.
type damage struct {
	mu     sync.Mutex
	ranges []Range
}

// corrupted is the database's report of a damaged block.
func (s *Store) corrupted(info pebble.DataCorruptionInfo) {
	r := Range{bytes.Clone(info.Bounds.Start), bytes.Clone(info.Bounds.End.Key)}
	s.damage.mu.Lock()
	known := false
	for _, have := range s.damage.ranges {
		known = known || bytes.Equal(have.First, r.First) && bytes.Equal(have.End, r.End)
	}
	if !known {
		s.damage.ranges = append(s.damage.ranges, r)
	}
	s.damage.mu.Unlock()
	if !known {
		s.opts.Log.Error("store: damaged block; what lies in its range is not served, the rest is",
			"file", info.Path, "error", plain(info.Details))
	}
}

// Damaged lists the key ranges that were found damaged since Open.
func (s *Store) Damaged() []Range {
	s.damage.mu.Lock()
	defer s.damage.mu.Unlock()
	return append([]Range(nil), s.damage.ranges...)
}
