package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// group is one Commit that waits.
type group struct {
	batch Batch
	sync  bool
	done  func(error)
}

// maxGroup bounds the bytes of one write to the log.
const maxGroup = 4 << 20

// Commit writes the batch, as a whole, after all that was committed before it.
// done, which may be nil, is called from a goroutine of the store, in the order
// of Commit; it must not block. With sync the batch is on the disk by then;
// without, a power cut may still undo it, but never anything older. The batch
// is copied: the caller may reset it at once.
func (s *Store) Commit(b *Batch, sync bool, done func(error)) {
	s.mu.Lock()
	if err := s.state(); err != nil {
		s.mu.Unlock()
		if done != nil {
			go done(err)
		}
		return
	}
	g := s.newGroup()
	g.batch.ops = append(g.batch.ops, b.ops...)
	g.batch.data = append(g.batch.data, b.data...)
	g.sync, g.done = sync, done
	s.unsynced = !sync && (s.unsynced || b.Len() > 0)
	s.waiting = append(s.waiting, g)
	if len(s.waiting) == 1 {
		s.wake.Signal()
	}
	s.mu.Unlock()
}

func (s *Store) newGroup() *group {
	if n := len(s.free); n > 0 {
		g := s.free[n-1]
		s.free = s.free[:n-1]
		return g
	}
	return &group{}
}

// Sync waits until all that was committed before is on the disk.
func (s *Store) Sync() error {
	if s.allSynced() {
		return nil
	}
	c := make(chan error, 1)
	s.Commit(&Batch{}, true, func(err error) { c <- err })
	return <-c
}

// allSynced tells that nothing was committed since the last sync ended well.
func (s *Store) allSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unsynced && len(s.waiting) == 0 && s.inFlight == nil && s.state() == nil
}

// commitLoop is the committer: it takes all that gathered, writes and syncs it
// at once, calls back, and looks again. A failure in the middle leaves this
// goroutine behind (see logger); another one goes on after the recovery.
func (s *Store) commitLoop() {
	for {
		groups, h := s.takeWaiting()
		if groups == nil {
			return
		}
		if err := s.write(h, groups); err != nil {
			s.fail(h, err)
			return
		}
		if !s.written() {
			return
		}
		for _, g := range groups {
			if g.done != nil {
				g.done(nil)
			}
		}
		s.recycle(groups)
	}
}

// written tells that the groups in flight are done; false when a failure has
// answered them meanwhile.
func (s *Store) written() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.inFlight != nil
	s.inFlight = nil
	return mine
}

// takeWaiting waits for work; nil when the store is closed and nothing is left.
func (s *Store) takeWaiting() ([]*group, *handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) == 0 && !s.closed && s.failed == nil {
		s.wake.Wait()
	}
	if s.failed != nil {
		return nil, nil
	}
	if len(s.waiting) == 0 {
		s.running = false
		s.wake.Broadcast()
		return nil, nil
	}
	n, bytes := 0, 0
	for n < len(s.waiting) && (n == 0 || bytes < maxGroup) {
		bytes += len(s.waiting[n].batch.data)
		n++
	}
	s.inFlight = append([]*group(nil), s.waiting[:n]...)
	rest := copy(s.waiting, s.waiting[n:])
	clear(s.waiting[rest:])
	s.waiting = s.waiting[:rest]
	return s.inFlight, s.db.Load()
}

func (s *Store) recycle(groups []*group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range groups {
		g.done = nil
		g.batch.Reset()
		if len(s.free) < 4096 {
			s.free = append(s.free, g)
		}
	}
}

// write puts groups into one atomic write.
func (s *Store) write(h *handle, groups []*group) error {
	pb := h.db.NewBatch()
	defer pb.Close()
	sync := false
	for _, g := range groups {
		sync = sync || g.sync
		err := g.batch.each(func(kind opKind, key, value []byte) error {
			switch kind {
			case opSet:
				return pb.Set(key, value, nil)
			case opDelete:
				return pb.Delete(key, nil)
			default:
				return pb.DeleteRange(key, value, nil)
			}
		})
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	if pb.Empty() {
		if !sync || s.opts.NoSync {
			return nil
		}
		return h.db.LogData(nil, pebble.Sync)
	}
	opt := pebble.NoSync
	if sync && !s.opts.NoSync {
		opt = pebble.Sync
	}
	if err := h.db.Apply(pb, opt); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
