package local

import (
	"fmt"

	"entrepot/core"
)

// apply is one Apply on its way: first every queue promises room and every
// delivery is claimed, then all of it happens.
type apply struct {
	engine   *Engine
	routes   []*route // of the publishing ops, in order
	reserved []place
	claimed  []claim
}

// place is room promised by a queue.
type place struct {
	queue *queue
	bytes int64
}

type claim struct {
	entry
	by      *consumer
	outcome core.Outcome
}

// Apply implements core.Engine.
func (e *Engine) Apply(b *core.Batch, ops []core.Op, done core.Done) {
	a := &apply{engine: e}
	routed := false
	err := a.prepare(ops)
	if err != nil {
		a.undo(b)
	} else {
		routed = a.commit(b, ops)
	}
	if done != nil {
		done(routed, err)
	}
}

func (a *apply) prepare(ops []core.Op) error {
	for i := range ops {
		var err error
		if ops[i].Message != nil {
			err = a.reserve(ops[i].Message)
		} else {
			err = a.claim(&ops[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reserve finds the route and takes a place in each queue that may refuse.
func (a *apply) reserve(m *core.Message) error {
	r, err := a.engine.route(m)
	if err != nil {
		return err
	}
	a.routes = append(a.routes, r)
	p := place{bytes: int64(len(m.Payload))}
	for _, t := range r.targets {
		p.queue = t.queue
		if !p.queue.refuses() {
			continue
		}
		if err := p.reserve(); err != nil {
			return err
		}
		a.reserved = append(a.reserved, p)
	}
	return nil
}

func (a *apply) claim(op *core.Op) error {
	c, ok := op.Consumer.(*consumer)
	if !ok || op.Outcome > core.Reject {
		return fmt.Errorf("settlement of delivery %d: %w", op.Seq, core.ErrInvalid)
	}
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.busy == c && q.out == op.Seq {
		q.awaitDeliver() // the client was quicker than its Deliver
	}
	e, ok := c.release(op.Seq)
	if !ok {
		return fmt.Errorf("%v: delivery %d: %w", q.key, op.Seq, core.ErrNotFound)
	}
	a.claimed = append(a.claimed, claim{e, c, op.Outcome})
	return nil
}

// undo gives back the room and the claimed deliveries.
func (a *apply) undo(b *core.Batch) {
	for _, p := range a.reserved {
		p.queue.mu.Lock()
		p.free()
		p.queue.mu.Unlock()
	}
	for i := range a.claimed {
		a.claimed[i].undo(b)
	}
}

func (a *apply) commit(b *core.Batch, ops []core.Op) (routed bool) {
	routed = true
	next := 0
	for i := range ops {
		m := ops[i].Message
		if m == nil {
			continue
		}
		r := a.routes[next]
		next++
		for _, t := range r.targets {
			t.queue.putReserved(b, m, t)
		}
		if len(r.targets) == 0 {
			a.engine.unroutable.Add(1)
			routed = false
		}
	}
	for i := range a.claimed {
		a.claimed[i].settle(b)
	}
	return routed
}

// reserve promises a place; ErrFull when there is none. It takes mu.
func (p place) reserve() error {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	// A queue that is being deleted takes nothing, which is no refusal.
	if !q.dead && q.over(q.reserved+1, q.reservedBytes+p.bytes) {
		return fmt.Errorf("%v: %w", q.key, core.ErrFull)
	}
	q.reserved++
	q.reservedBytes += p.bytes
	return nil
}

// free gives a promised place back. With the queue's mu held.
func (p place) free() {
	p.queue.reserved--
	p.queue.reservedBytes -= p.bytes
}

// putReserved is put, into the promised place where there is one. It takes mu.
func (q *queue) putReserved(b *core.Batch, m *core.Message, t *target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuses() {
		place{q, int64(len(m.Payload))}.free()
	}
	q.putLocked(b, m, t)
}

// undo holds the delivery again, or returns it when its consumer went
// meanwhile.
func (c *claim) undo(b *core.Batch) {
	q := c.by.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.dead:
	case c.by.cancelled && c.by.lost != core.Keep:
		q.settle(c.entry, c.by.lost)
		q.forgetReturned(c.by.lost)
		q.drain(b)
	default:
		c.by.hold(c.entry)
	}
}

// settle ends the claimed delivery.
func (c *claim) settle(b *core.Batch) {
	q := c.by.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return
	}
	q.settle(c.entry, c.outcome)
	q.forgetReturned(c.outcome)
	c.by.wake()
	q.drain(b)
}
