package store

import (
	"bytes"
	"container/heap"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// record is one write that was found.
type record struct {
	key   []byte
	seq   uint64
	kind  pebble.InternalKeyKind
	value []byte
}

// before is the order of a merge: by key, the newest first.
func (r *record) before(o *record) bool {
	if c := bytes.Compare(r.key, o.key); c != 0 {
		return c < 0
	}
	return r.seq > o.seq
}

// sets tells whether the write leaves a value.
func (r *record) sets() bool {
	return r.kind == pebble.InternalKeyKindSet || r.kind == pebble.InternalKeyKindSetWithDelete
}

// removal removed all older keys from first on and before end.
type removal struct {
	first, end []byte
	seq        uint64
}

// source is one sorted run of writes in a merge; a record is valid until the
// next.
type source struct {
	now  record
	next func() (record, bool)
	stop func()
}

type sources []*source

func (s sources) Len() int           { return len(s) }
func (s sources) Less(i, j int) bool { return s[i].now.before(&s[j].now) }
func (s sources) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sources) Push(x any)        { *s = append(*s, x.(*source)) }
func (s *sources) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// merge calls f for what is left of all runs when each key's newest write and
// the removals are taken into account, in order of keys, until it fails.
func merge(runs []iter.Seq[record], gone []removal, f func(key, value []byte) error) error {
	var from sources
	for _, run := range runs {
		s := &source{}
		s.next, s.stop = iter.Pull(run)
		defer s.stop()
		if r, ok := s.next(); ok {
			s.now = r
			from = append(from, s)
		}
	}
	heap.Init(&from)
	removed := sweep(gone)
	var last []byte
	for first := true; len(from) > 0; {
		r := &from[0].now
		if first || !bytes.Equal(r.key, last) {
			first, last = false, append(last[:0], r.key...)
			if r.sets() && !removed(r) {
				if err := f(r.key, r.value); err != nil {
					return err
				}
			}
		}
		if next, ok := from[0].next(); ok {
			from[0].now = next
			heap.Fix(&from, 0)
		} else {
			heap.Pop(&from)
		}
	}
	return nil
}

// sweep tells of records that come in order of keys whether a removal took
// them.
func sweep(gone []removal) func(*record) bool {
	slices.SortFunc(gone, func(a, b removal) int { return bytes.Compare(a.first, b.first) })
	var over []removal // those that began
	return func(r *record) bool {
		for len(gone) > 0 && bytes.Compare(gone[0].first, r.key) <= 0 {
			over = append(over, gone[0])
			gone = gone[1:]
		}
		over = slices.DeleteFunc(over, func(g removal) bool { return bytes.Compare(g.end, r.key) <= 0 })
		return slices.ContainsFunc(over, func(g removal) bool { return g.seq > r.seq })
	}
}
