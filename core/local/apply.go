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
	reserved []*queue
	claimed  []claim
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
	for _, t := range r.targets {
		if !t.queue.refuses() {
			continue
		}
		if err := t.queue.reserve(m); err != nil {
			return err
		}
		a.reserved = append(a.reserved, t.queue)
	}
	return nil
}

func (a *apply) claim(op *core.Op) error {
	c, ok := op.Consumer.(*consumer)
	if !ok {
		return fmt.Errorf("delivery %d: %w", op.Seq, core.ErrInvalid)
	}
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.busy == c && q.out.seq == op.Seq {
		q.awaitDeliver() // the client was quicker than its Deliver
	}
	e, ok := q.release(c, op.Seq)
	if !ok {
		return fmt.Errorf("%v: delivery %d: %w", q.spec.Key, op.Seq, core.ErrNotFound)
	}
	a.claimed = append(a.claimed, claim{e, c, op.Outcome})
	return nil
}

// undo gives back the room and the claimed deliveries.
func (a *apply) undo(b *core.Batch) {
	for _, q := range a.reserved {
		q.mu.Lock()
		q.reserved--
		q.mu.Unlock()
	}
	for _, c := range a.claimed {
		c.by.queue.unclaim(b, c)
	}
}

// unclaim holds the entry again, or returns it when its consumer went meanwhile.
func (q *queue) unclaim(b *core.Batch, c claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.dead:
	case c.by.cancelled:
		q.settle(c.entry, core.Requeue)
		q.drain(b)
	default:
		q.hold(c.by, c.entry)
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
	for _, c := range a.claimed {
		c.by.queue.finish(b, c)
	}
	return routed
}

// reserve promises a place; ErrFull when there is none.
func (q *queue) reserve(m *core.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return nil // it takes no more, which is no refusal
	}
	if q.over(q.reserved+1, int64(len(m.Payload))) {
		return fmt.Errorf("%v: %w", q.spec.Key, core.ErrFull)
	}
	q.reserved++
	return nil
}

// putReserved is put into the promised place.
func (q *queue) putReserved(b *core.Batch, m *core.Message, t *target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuses() {
		q.reserved--
	}
	q.putLocked(b, m, t)
}

// finish settles a claimed delivery.
func (q *queue) finish(b *core.Batch, c claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return
	}
	q.settle(c.entry, c.outcome)
	c.by.wake()
	q.drain(b)
	q.trimBack(c.outcome)
}
