package local

import (
	"fmt"

	"entrepot/core"
)

// closing are the conditions of a delete.
type closing struct {
	core.DeleteOptions
	idle bool // only when x-expires is over
}

// close checks the conditions and makes the queue take no more. It takes mu.
func (q *queue) close(o closing) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o.IfUnused && len(q.consumers) > 0 {
		return fmt.Errorf("%v has consumers: %w", q.key, core.ErrInUse)
	}
	if n := q.waiting() + q.letters.count(); o.IfEmpty && n > 0 {
		return fmt.Errorf("%v has messages: %w", q.key, core.NotEmpty{Messages: n})
	}
	if o.idle && q.idleFor() > 0 {
		return fmt.Errorf("%v was used: %w", q.key, core.ErrInUse)
	}
	q.dead = true
	return nil
}

// end drops everything and tells the consumers. No Deliver runs when it
// returns. It takes mu.
func (q *queue) end() int {
	q.mu.Lock()
	defer q.unlock()
	left := q.consumers
	q.consumers, q.active, q.free = nil, nil, 0
	for _, c := range left {
		c.cancelled, c.held = true, outstanding{}
	}
	for q.busy != nil {
		q.awaitDeliver()
	}
	n := q.purge()
	q.held, q.bytes = 0, 0
	if s := q.shelf; s != nil {
		s.settled.Reset()
		s.spool.clear(&s.settled)
	}
	if q.idle != nil {
		q.idle.Stop()
		q.idle = nil
	}
	q.tell(left)
	return n
}

// tell calls QueueGone where a receiver has it, on a goroutine of its own:
// the caller may hold locks that the receiver takes.
func (q *queue) tell(left []*consumer) {
	var gone []core.QueueGone
	for _, c := range left {
		if g, ok := c.recv.(core.QueueGone); ok {
			gone = append(gone, g)
		}
	}
	if len(gone) == 0 {
		return
	}
	go func() {
		for _, g := range gone {
			g.QueueGone()
		}
	}()
}
