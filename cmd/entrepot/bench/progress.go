package bench

import "sync/atomic"

// progress is what one reader tells one publisher: how far it has come. The
// reader stores after each read; the publisher looks only when its window is
// used up. It fills cache lines of its own.
type progress struct {
	seen   atomic.Uint64 // all sequence numbers below have come or been passed
	got    atomic.Uint64 // messages counted
	target atomic.Uint64 // the publisher sleeps until seen reaches this; 0: nobody sleeps
	wake   chan struct{}
	_      [128 - 4*8]byte
}

func newProgress() *progress { return &progress{wake: make(chan struct{}, 1)} }

// show stores how far the reader is and wakes the publisher when it waits for
// just that.
func (p *progress) show(seen, got uint64) {
	p.got.Store(got)
	p.seen.Store(seen)
	if t := p.target.Load(); t != 0 && seen >= t && p.target.CompareAndSwap(t, 0) {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}
