package local

import "entrepot/core"

// Handing over. A queue has one drainer at a time, the goroutine that set
// draining; others only add to the queue and wake consumers, and the drainer
// looks again, under mu, before it ends. So nothing is handed over twice,
// order holds, and no wake-up is lost.
//
// A drainer carries others' messages too. So that a publisher or an
// acknowledging client is not kept from its own work, after drainTurn messages
// a goroutine takes over; it ends when nothing can be handed over.

// drainTurn is how many messages a caller hands over before it is relieved.
const drainTurn = 256

// drain hands over what it can unless somebody does already. mu is given up
// while Deliver runs.
func (q *queue) drain(b *core.Batch) {
	if q.draining {
		return
	}
	q.draining = true
	q.goOn(b)
}

// goOn is drain for who has set draining.
func (q *queue) goOn(b *core.Batch) {
	if q.turn(b) {
		go q.relieve()
	}
}

// turn looks at up to drainTurn messages. When it returns false there is no
// more to do and draining is over.
func (q *queue) turn(b *core.Batch) (more bool) {
	for n := 0; !q.dead; {
		if q.late != nil {
			q.wakeLate()
		}
		if q.free == 0 || !q.hasNext() {
			if q.tidy(); q.fetchOver() {
				continue
			}
			break
		}
		if n == drainTurn {
			return true
		}
		if !q.step(b) && !q.fetch() {
			break
		}
		n++
	}
	q.draining = false
	q.settleDown()
	return false
}

// step hands over the next message; false when there is none to be had now.
func (q *queue) step(b *core.Batch) bool {
	if q.aside != nil {
		c, e, did := q.match()
		if did == matched {
			q.hand(b, c, e)
		}
		return did != nothing
	}
	e, ok := q.take()
	if ok {
		q.hand(b, q.pick(), e)
	}
	return ok
}

// hasNext tells whether there may be something that a consumer with room wants.
func (q *queue) hasNext() bool {
	return q.waiting() > q.setAside()+len(q.late) || len(q.replays) > 0 || q.aside != nil && q.aside.lag
}

// drainAlone is drain on a goroutine of its own. Without mu.
func (q *queue) drainAlone() {
	b := &core.Batch{}
	q.mu.Lock()
	q.drain(b)
	q.unlock()
	b.Flush()
}

// relieve is the goroutine that takes over. Without mu.
func (q *queue) relieve() {
	b := &core.Batch{}
	for more := true; more; {
		q.mu.Lock()
		more = q.turn(b)
		q.unlock()
		b.Flush()
	}
}

// pick is the next consumer in turn among those of the highest priority that
// have room. There is one: free is not zero.
func (q *queue) pick() *consumer {
	if q.next >= len(q.consumers) {
		q.next = 0
	}
	if c := q.consumers[q.next]; !c.full && c.opts.Priority == q.consumers[0].opts.Priority {
		q.next++
		return c
	}
	best := -1
	for i, c := range q.consumers {
		if c.full {
			continue
		}
		if best >= 0 && c.opts.Priority != q.consumers[best].opts.Priority {
			break
		}
		if best < 0 || i >= q.next {
			best = i
		}
		if i >= q.next {
			break
		}
	}
	q.next = best + 1
	return q.consumers[best]
}

// hand offers one entry to one consumer. mu is given up meanwhile.
func (q *queue) hand(b *core.Batch, c *consumer, e entry) {
	q.busy, q.out, q.settled, c.resumed = c, e.seq, false, false
	q.unlock()
	v := c.recv.Deliver(e.delivery(b))
	q.mu.Lock()
	q.busy = nil
	if q.waiters != nil {
		close(q.waiters)
		q.waiters = nil
	}
	if !q.dead {
		q.judge(c, e, v)
	}
}

// judge does what the receiver's verdict says.
func (q *queue) judge(c *consumer, e entry, v core.Verdict) {
	reason, dropped := v.Reason()
	switch {
	case v == core.Full:
		if !c.resumed {
			c.setFull(true)
		}
		q.giveBack(e)
	case dropped:
		q.drop(e, reason)
	case v == core.Settled || c.opts.NoAck:
		q.done(e)
	case q.settled:
		q.settle(e, q.early)
	default:
		c.hold(e)
	}
}

// awaitDeliver waits for the running Deliver, without mu meanwhile.
func (q *queue) awaitDeliver() {
	if q.waiters == nil {
		q.waiters = make(chan struct{})
	}
	w := q.waiters
	q.unlock()
	<-w
	q.mu.Lock()
}

// settle ends an entry that was out.
func (q *queue) settle(e entry, o core.Outcome) {
	e.instant = false
	switch o {
	case core.Ack:
		q.done(e)
	case core.Reject:
		q.drop(e, core.DropRejected)
	case core.Requeue:
		e.attempts++
		if q.limit >= 0 && int(e.attempts) > q.limit {
			q.drop(e, core.DropDeliveryLimit)
			return
		}
		if e.stored {
			q.shelf.tried(e.seq, e.attempts)
		}
		if wait := q.backOff(e.attempts); wait > 0 {
			q.putOff(e, wait)
			return
		}
		q.giveBack(e)
	default:
		e.started = q.key.Kind == core.SessionQueue
		q.giveBack(e)
	}
}
