package core

import "sync/atomic"

// DropReason says why a message was given up.
type DropReason uint8

const (
	DropOverflow      DropReason = iota // the queue was at its limit
	DropExpired                         // TTL
	DropOffline                         // at most once, and no consumer attached
	DropTooLarge                        // larger than this receiver accepts
	DropRejected                        // refused by a consumer, no dead-letter target
	DropNotAllowed                      // by rights, where the protocol has no answer
	DropUnroutable                      // no queue matched
	DropEnded                           // its session or queue ended
	DropDeliveryLimit                   // given back too often, no dead-letter target
	DropReplaced                        // a younger one of the same value came (x-last-value-key)
	DropCycle                           // a dead letter that went round its queues
	dropReasons
)

// String is the reason as a metric label.
func (r DropReason) String() string {
	return [...]string{"overflow", "expired", "offline", "too_large", "rejected",
		"not_allowed", "unroutable", "ended", "delivery_limit", "replaced", "dead_letter_cycle"}[r]
}

// Drops counts dropped messages by reason, for one protocol.
type Drops struct{ n [dropReasons]atomic.Uint64 }

// Add counts n more. Safe for concurrent use; a nil Drops counts nothing.
func (d *Drops) Add(r DropReason, n int) {
	if d != nil && n > 0 {
		d.n[r].Add(uint64(n))
	}
}

// Each calls f for every reason with its count.
func (d *Drops) Each(f func(DropReason, uint64)) {
	for r := range dropReasons {
		f(r, d.n[r].Load())
	}
}
