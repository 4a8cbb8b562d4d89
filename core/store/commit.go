package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// round is what one write to the log takes: the groups that gathered while the
// one before was on its way.
type round struct {
	batch *pebble.Batch
	bytes int64
	sync  bool
	done  []func(error)
	err   error // a group did not fit the batch
}

// maxRound is how many bytes gather in one round.
const maxRound = 4 << 20

// Commit writes the batch, as a whole, after all that was committed before it.
// done, which may be nil, is called from a goroutine of the store, in the order
// of Commit; it must not block. With sync the batch is on the disk by then;
// without, a power cut may still undo it, but never anything older. The batch
// is copied: the caller may reset it at once.
func (s *Store) Commit(b *Batch, sync bool, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.state(); err != nil {
		s.tell(err, done)
		return
	}
	r := s.gathering()
	if err := r.add(b); err != nil && r.err == nil {
		r.err = err
	}
	n := int64(len(b.data))
	r.bytes += n
	s.backlog.Add(n)
	r.sync = r.sync || sync
	if done != nil {
		r.done = append(r.done, done)
	}
	s.unsynced = !sync && (s.unsynced || b.Len() > 0)
}

// gathering is the round that takes the next group. With s.mu held.
func (s *Store) gathering() *round {
	if n := len(s.waiting); n > 0 && s.waiting[n-1].bytes < maxRound {
		return s.waiting[n-1]
	}
	r := s.spare
	s.spare = nil
	if r == nil {
		db := s.db.Load().db
		r = &round{batch: db.NewBatch(pebble.WithMaxRetainedSizeBytes(maxRound))}
	}
	if s.waiting = append(s.waiting, r); len(s.waiting) == 1 {
		s.wake.Signal()
	}
	return r
}

func (r *round) add(b *Batch) error {
	return b.each(func(kind opKind, key, value []byte) error {
		switch kind {
		case opSet:
			return r.batch.Set(key, value, nil)
		case opDelete:
			return r.batch.Delete(key, nil)
		case opDeleteOnce:
			return r.batch.SingleDelete(key, nil)
		default:
			return r.batch.DeleteRange(key, value, nil)
		}
	})
}

// maxBacklog is how many bytes may wait for the disk before the store is
// crowded.
const maxBacklog = 16 << 20

// Crowded tells that much waits for the disk. Commit takes more nevertheless,
// as those who free memory call it too; who brings more calls Ease before.
func (s *Store) Crowded() bool { return s.backlog.Load() > maxBacklog }

// Ease waits while the store is crowded.
func (s *Store) Ease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.Crowded() {
		s.eased.Wait()
	}
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
// at once, has the callbacks called, and looks again. When the disk fails in the
// middle this goroutine never comes back; another one goes on after the
// recovery.
func (s *Store) commitLoop(h *handle) {
	for {
		r := s.take(h)
		if r == nil {
			return
		}
		if err := s.write(h, r); err != nil {
			// No fault of the disk: the database refuses what it got.
			h.fence.fail(err)
		}
		if !s.written(h, r) {
			return
		}
	}
}

// take waits for a round; nil when the store is closed and nothing is left, or
// the handle is no longer the one in use.
func (s *Store) take(h *handle) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) == 0 && !s.closed && !h.fence.shut.Load() {
		s.wake.Wait()
	}
	if h.fence.shut.Load() {
		return nil
	}
	if len(s.waiting) == 0 {
		s.running = false
		s.wake.Broadcast()
		return nil
	}
	s.inFlight = s.waiting[0]
	rest := copy(s.waiting, s.waiting[1:])
	s.waiting[rest] = nil
	s.waiting = s.waiting[:rest]
	return s.inFlight
}

// write puts a round on the disk.
func (s *Store) write(h *handle, r *round) error {
	if r.err != nil {
		return fmt.Errorf("commit: %w", r.err)
	}
	opt := pebble.NoSync
	if r.sync && !s.opts.NoSync {
		opt = pebble.Sync
	}
	switch {
	case !r.batch.Empty():
		return h.db.Apply(r.batch, opt)
	case opt.Sync:
		return h.db.LogData(nil, opt)
	}
	return nil
}

// written has a round's callbacks called; false when a failure answered them
// meanwhile.
func (s *Store) written(h *handle, r *round) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight != r || h.fence.shut.Load() {
		return false
	}
	s.inFlight = nil
	s.backlog.Add(-r.bytes)
	s.eased.Broadcast()
	s.tell(nil, r.done...)
	r.batch.Reset()
	s.spare = &round{batch: r.batch}
	return true
}

// verdict is what callbacks are to be told.
type verdict struct {
	done []func(error)
	err  error
}

// tell leaves callbacks to tellLoop. With s.mu held.
func (s *Store) tell(err error, done ...func(error)) {
	v := verdict{done, err}
	if s.silent {
		go v.tell()
		return
	}
	if s.verdicts = append(s.verdicts, v); len(s.verdicts) == 1 {
		s.told.Signal()
	}
}

func (v verdict) tell() {
	for _, done := range v.done {
		if done != nil {
			done(v.err)
		}
	}
}

// tellLoop calls callbacks, one after the other in the order of tell, while the
// committer is at the next round.
func (s *Store) tellLoop() {
	defer close(s.ended)
	for {
		s.mu.Lock()
		for len(s.verdicts) == 0 && !s.silent {
			s.told.Wait()
		}
		due := s.verdicts
		s.verdicts = nil
		s.mu.Unlock()
		if due == nil {
			return
		}
		for _, v := range due {
			v.tell()
		}
	}
}
