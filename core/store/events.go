package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// listener is what one handle's database reports to.
type listener struct {
	store  *Store
	handle *handle
	pacer  *pacer
}

func (l *listener) events() *pebble.EventListener {
	return &pebble.EventListener{
		DataCorruption:  l.store.corrupted,
		BackgroundError: l.background,
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			l.store.opts.Log.Warn("store: writes wait, the disk does not keep up", "reason", i.Reason,
				"damaged", len(l.store.Damaged()))
		},
	}
}

// background is told of what failed with nobody waiting for it: reading for a
// compaction. Writes do not fail but stop at the fence.
func (l *listener) background(err error) {
	l.pacer.rest()
	l.store.opts.Log.Warn("store: tidying up failed", "error", plain(err))
}

// Infof implements pebble.Logger.
func (l *listener) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (l *listener) Errorf(format string, args ...any) {
	l.store.opts.Log.Warn("store: " + fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger: the database found that it cannot go on,
// and it must not return to its caller.
func (l *listener) Fatalf(format string, args ...any) {
	l.handle.fence.fail(fmt.Errorf(format, args...))
}
