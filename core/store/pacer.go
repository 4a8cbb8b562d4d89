package store

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// pacer lets the database do one compaction at a time, and none for a while
// after one that failed: by itself it would try the same again without a pause.
// It implements pebble.CompactionScheduler and is its own grant. Its lock comes
// after the database's, which is not called with it held.
type pacer struct {
	mu      sync.Mutex
	running bool
	ended   bool
	until   time.Time // it rests

	wake, stop chan struct{}
	stopped    sync.WaitGroup
}

// restAfterFailure is how long no compaction begins after one that failed.
const restAfterFailure = 10 * time.Second

func newPacer() *pacer {
	return &pacer{wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// rest lets none begin for a while.
func (p *pacer) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(restAfterFailure)
}

// Register implements pebble.CompactionScheduler.
func (p *pacer) Register(_ int, db pebble.DBForCompaction) {
	p.stopped.Go(func() { p.grant(db) })
}

// Unregister implements pebble.CompactionScheduler.
func (p *pacer) Unregister() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.stop)
	p.stopped.Wait()
}

// begin takes the one place; wait is how long to rest when that is why not.
func (p *pacer) begin() (ok bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.running {
		return false, 0
	}
	if wait = time.Until(p.until); wait > 0 {
		return false, wait
	}
	p.running = true
	return true, 0
}

// TrySchedule implements pebble.CompactionScheduler.
func (p *pacer) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	ok, wait := p.begin()
	if wait > 0 {
		p.poke() // grant sets its timer
	}
	return ok, p
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (p *pacer) UpdateGetAllowedWithoutPermission() {}

// Started implements pebble.CompactionGrantHandle.
func (p *pacer) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (p *pacer) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (p *pacer) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (p *pacer) Done() {
	p.mu.Lock()
	p.running = false
	p.mu.Unlock()
	p.poke()
}

func (p *pacer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// grant starts what waits when the one before is done or the rest is over.
func (p *pacer) grant(db pebble.DBForCompaction) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-p.wake:
		case <-rest.C:
		}
		if waiting, _ := db.GetWaitingCompaction(); !waiting {
			continue
		}
		ok, wait := p.begin()
		if wait > 0 {
			rest.Reset(wait)
		}
		if ok && !db.Schedule(p) {
			p.mu.Lock()
			p.running = false
			p.mu.Unlock()
		}
	}
}
