package core

// Flusher is something with bytes waiting to be written, an outbox.
// Flush must not block.
type Flusher interface{ Flush() }

// Batch collects the outboxes that became dirty while one goroutine worked
// through its input, so that each is written once. The goroutine that owns the
// batch calls Flush when its input is used up. Not safe for concurrent use.
type Batch struct{ dirty []Flusher }

// Add notes that f has something to write. The caller makes sure that an
// outbox which is dirty already is not added again before its Flush.
func (b *Batch) Add(f Flusher) { b.dirty = append(b.dirty, f) }

// Flush writes out all that was added, in that order, and also what a Flush
// added on its way.
func (b *Batch) Flush() {
	for i := 0; i < len(b.dirty); i++ {
		b.dirty[i].Flush()
		b.dirty[i] = nil
	}
	if cap(b.dirty) > 1024 {
		b.dirty = nil
	}
	b.dirty = b.dirty[:0]
}
