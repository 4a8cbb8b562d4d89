package local

import (
	"context"
	"fmt"
	"slices"

	"entrepot/core"
)

// consumer is one receiver's hold on a queue. Its fields are under queue.mu.
type consumer struct {
	queue *queue
	recv  core.Receiver
	opts  core.ConsumeOptions
	full  bool
	// resumed: a Resume came while Deliver ran; a Full then does not count.
	resumed   bool
	cancelled bool
}

// Consume implements core.Engine.
func (e *Engine) Consume(_ context.Context, k core.QueueKey, o core.ConsumeOptions, r core.Receiver) (core.Consumer, error) {
	q, err := e.find(k, o.By)
	if err != nil {
		return nil, err
	}
	c := &consumer{queue: q, recv: r, opts: o, full: o.Paused}
	if err := q.attach(c); err != nil {
		return nil, err
	}
	if !o.Paused && !o.Pull {
		c.Resume(nil)
	}
	return c, nil
}

func (q *queue) attach(c *consumer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return fmt.Errorf("%v: %w", q.spec.Key, core.ErrNotFound)
	}
	for _, other := range q.consumers {
		if other.opts.Exclusive || c.opts.Exclusive && !other.opts.Pull {
			return fmt.Errorf("%v has an exclusive consumer, or others beside it: %w", q.spec.Key, core.ErrInUse)
		}
	}
	q.consumers = append(q.consumers, c)
	return nil
}

// pick is the next consumer in turn that has room.
func (q *queue) pick() *consumer {
	for range q.consumers {
		if q.next >= len(q.consumers) {
			q.next = 0
		}
		c := q.consumers[q.next]
		q.next++
		if !c.full && !c.opts.Pull {
			return c
		}
	}
	return nil
}

// drain hands over what it can unless somebody does already; that one looks
// again before it ends. With mu held, which it gives up while Deliver runs.
func (q *queue) drain(b *core.Batch) {
	if q.draining {
		return
	}
	q.draining = true
	q.handAll(b)
}

func (q *queue) handAll(b *core.Batch) {
	for {
		c := q.pick()
		if c == nil {
			break
		}
		e, ok := q.take()
		if !ok {
			q.next-- // it keeps its turn
			break
		}
		q.hand(b, c, e)
	}
	q.draining = false
	if q.waiting() > 0 {
		q.watch()
	}
}

// hand offers one entry to one consumer. With mu held, given up meanwhile.
func (q *queue) hand(b *core.Batch, c *consumer, e entry) {
	q.busy, q.out, q.early, c.resumed = c, e, nil, false
	d := core.Delivery{Message: e.msg, Seq: e.seq, Attempts: e.attempts, Replayed: e.replayed,
		Matched: e.to.matched, Batch: b}
	q.mu.Unlock()
	v := c.recv.Deliver(d)
	q.mu.Lock()
	q.busy, q.out = nil, entry{}
	if q.waiters != nil {
		close(q.waiters)
		q.waiters = nil
	}
	q.judge(c, e, v)
}

// judge does what the receiver's verdict says.
func (q *queue) judge(c *consumer, e entry, v core.Verdict) {
	reason, dropped := v.Reason()
	switch {
	case q.dead:
	case v == core.Full:
		c.full = !c.resumed
		q.giveBack(e)
	case dropped:
		q.drop(e, reason)
	case v == core.Settled || c.opts.NoAck:
		q.bytes -= e.size()
	case q.early != nil:
		q.settle(e, *q.early)
	default:
		q.hold(c, e)
	}
}

func (q *queue) hold(c *consumer, e entry) {
	if q.held == nil {
		q.held = map[uint64]heldEntry{}
	}
	q.held[e.seq] = heldEntry{e, c}
	q.heldBytes += e.size()
}

// release takes an entry that c holds out of held.
func (q *queue) release(c *consumer, seq uint64) (entry, bool) {
	h, ok := q.held[seq]
	if !ok || h.by != c {
		return entry{}, false
	}
	delete(q.held, seq)
	q.heldBytes -= h.size()
	return h.entry, true
}

// settle ends an entry that was out.
func (q *queue) settle(e entry, o core.Outcome) {
	switch o {
	case core.Ack:
		q.bytes -= e.size()
	case core.Reject:
		q.drop(e, core.DropRejected)
	case core.Requeue:
		e.attempts++
		q.back.push(e)
	default:
		e.started = true
		q.back.push(e)
	}
}

// emptied: nobody consumes a subscription queue any more, so it forgets what
// was taken as AtMostOnce.
func (q *queue) emptied() {
	if len(q.consumers) > 0 || q.spec.Key.Kind == core.NamedQueue {
		return
	}
	good := func(e *entry) bool {
		if e.transient {
			q.drop(*e, core.DropOffline)
		}
		return !e.transient
	}
	q.ready.keep(good)
	q.back.keep(good)
}

// Resume implements core.Consumer.
func (c *consumer) Resume(b *core.Batch) {
	own := b == nil
	if own {
		b = &core.Batch{}
	}
	q := c.queue
	q.mu.Lock()
	c.wake()
	q.drain(b)
	q.mu.Unlock()
	if own {
		b.Flush()
	}
}

// wake is the sticky part of Resume.
func (c *consumer) wake() {
	c.full, c.resumed = false, true
}

// Settle implements core.Consumer.
func (c *consumer) Settle(b *core.Batch, o core.Outcome, seqs ...uint64) error {
	own := b == nil
	if own {
		b = &core.Batch{}
	}
	q := c.queue
	var missing error
	q.mu.Lock()
	for _, seq := range seqs {
		if !c.settleOne(seq, o) && missing == nil {
			missing = fmt.Errorf("%v: delivery %d: %w", q.spec.Key, seq, core.ErrNotFound)
		}
	}
	c.wake()
	if !q.dead {
		q.drain(b)
		q.trimBack(o)
	}
	q.mu.Unlock()
	if own {
		b.Flush()
	}
	return missing
}

// trimBack applies the limits to what came back.
func (q *queue) trimBack(o core.Outcome) {
	if o == core.Requeue || o == core.Return {
		q.trim()
		q.watch()
	}
}

// settleOne also meets a delivery whose Deliver has not returned yet: the
// client may be that quick.
func (c *consumer) settleOne(seq uint64, o core.Outcome) bool {
	q := c.queue
	if e, ok := q.release(c, seq); ok {
		q.settle(e, o)
		return true
	}
	if q.busy == c && q.out.seq == seq && q.early == nil {
		q.early = &o
		return true
	}
	return false
}

// Get implements core.Consumer.
func (c *consumer) Get() (core.Delivery, bool) {
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastUsed = q.engine.clock()
	if c.cancelled || q.dead || !c.opts.Pull {
		return core.Delivery{}, false
	}
	e, ok := q.take()
	if !ok {
		return core.Delivery{}, false
	}
	if c.opts.NoAck {
		q.bytes -= e.size()
	} else {
		q.hold(c, e)
	}
	return core.Delivery{Message: e.msg, Seq: e.seq, Attempts: e.attempts, Replayed: e.replayed,
		Matched: e.to.matched, Batch: &core.Batch{}}, true
}

// Cancel implements core.Consumer.
func (c *consumer) Cancel(o core.Outcome) {
	b := &core.Batch{}
	q := c.queue
	q.mu.Lock()
	if c.cancelled {
		q.mu.Unlock()
		return
	}
	c.cancelled = true
	if i := slices.Index(q.consumers, c); i >= 0 {
		q.consumers = slices.Delete(q.consumers, i, i+1)
	}
	for q.busy == c {
		q.awaitDeliver()
	}
	q.takeBack(c, o)
	q.lastUsed = q.engine.clock()
	last := q.spec.AutoDelete && !c.opts.Pull && len(q.consumers) == 0 && !q.dead
	if !q.dead {
		q.emptied()
		q.drain(b)
		q.trimBack(o)
	}
	q.mu.Unlock()
	b.Flush()
	if last {
		// Gone already is as good; a consumer that came meanwhile keeps it.
		_, _ = q.engine.remove(q, core.DeleteOptions{IfUnused: true})
	}
}

// awaitDeliver waits for the running Deliver, without mu meanwhile.
func (q *queue) awaitDeliver() {
	if q.waiters == nil {
		q.waiters = make(chan struct{})
	}
	w := q.waiters
	q.mu.Unlock()
	<-w
	q.mu.Lock()
}

// takeBack returns what a consumer held.
func (q *queue) takeBack(c *consumer, o core.Outcome) {
	for seq := range q.held {
		if e, ok := q.release(c, seq); ok {
			q.settle(e, o)
		}
	}
}
