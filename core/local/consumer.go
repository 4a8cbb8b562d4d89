package local

import (
	"context"
	"fmt"
	"slices"

	"entrepot/core"
)

// consumer is one receiver's hold on a queue. Fields after opts are under
// queue.mu, and methods in lower case expect it held.
type consumer struct {
	queue *queue
	recv  core.Receiver
	opts  core.ConsumeOptions

	held outstanding
	seen uint64 // with Accepts: what is aside was refused up to this seq
	full bool
	// standby: another is the single active consumer; room is what it will
	// have when its turn comes, and full is true until then.
	standby, room bool
	// resumed: a Resume came while Deliver ran; a Full then does not count.
	resumed   bool
	cancelled bool
	lost      core.Outcome // what Cancel said
}

// Consume implements core.Engine.
func (e *Engine) Consume(_ context.Context, k core.QueueKey, o core.ConsumeOptions, r core.Receiver) (core.Consumer, error) {
	q, err := e.find(k, o.By)
	if err != nil {
		return nil, err
	}
	if o.Accepts != nil && (o.Pull || k.Kind == core.SessionQueue) {
		return nil, fmt.Errorf("%v: a consumer that chooses its messages: %w", k, core.ErrUnsupported)
	}
	c := &consumer{queue: q, recv: r, opts: o, full: true}
	if err := q.attach(c); err != nil {
		return nil, err
	}
	if !o.Paused && !o.Pull {
		c.Resume(nil)
	}
	return c, nil
}

// attach takes mu.
func (q *queue) attach(c *consumer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return fmt.Errorf("%v: %w", q.key, core.ErrNotFound)
	}
	if c.opts.Pull {
		return nil
	}
	if len(q.consumers) > 0 && (q.consumers[0].opts.Exclusive || c.opts.Exclusive) {
		return fmt.Errorf("%v has an exclusive consumer, or others beside it: %w", q.key, core.ErrInUse)
	}
	if q.args.SingleActive && c.opts.Exclusive {
		return fmt.Errorf("%v has a single active consumer, so none is exclusive: %w", q.key, core.ErrNotAllowed)
	}
	if c.opts.Accepts != nil {
		q.selects()
	}
	at := len(q.consumers)
	for at > 0 && q.consumers[at-1].opts.Priority < c.opts.Priority {
		at--
	}
	q.consumers = slices.Insert(q.consumers, at, c)
	if at < q.next {
		q.next++
	}
	if q.args.SingleActive {
		c.standby = q.active != nil
		if !c.standby {
			q.active = c
		}
	}
	return nil
}

// activate is done when the single active consumer has gone: the next of the
// highest priority takes over, the longest there first.
func (q *queue) activate() {
	q.active = nil
	if len(q.consumers) == 0 {
		return
	}
	c := q.consumers[0]
	q.active, c.standby = c, false
	if c.room {
		c.wake()
	}
}

// detach takes the consumer out of the round.
func (c *consumer) detach() {
	q := c.queue
	c.setFull(true)
	c.cancelled = true
	i := slices.Index(q.consumers, c)
	if i < 0 {
		return
	}
	q.consumers = slices.Delete(q.consumers, i, i+1)
	if i < q.next {
		q.next--
	}
	if len(q.consumers) == 0 {
		q.consumers = nil
	}
	if q.active == c {
		q.activate()
	}
	if c.opts.Accepts != nil {
		q.selectsNot()
	}
}

// setFull notes whether the consumer has room.
func (c *consumer) setFull(full bool) {
	if c.standby {
		c.room = !full
		return
	}
	if c.full == full || c.cancelled || c.opts.Pull {
		return
	}
	c.full = full
	if full {
		c.queue.free--
	} else {
		c.queue.free++
		if a := c.queue.aside; a != nil {
			a.lag = true
		}
	}
}

func (c *consumer) hold(e entry) {
	c.held.add(e)
	c.queue.held++
}

// release takes out an entry that c holds.
func (c *consumer) release(seq uint64) (entry, bool) {
	if c.queue.dead {
		return entry{}, false
	}
	e, ok := c.held.remove(seq)
	if ok {
		c.queue.held--
	}
	return e, ok
}

// wake is the sticky part of Resume.
func (c *consumer) wake() {
	c.setFull(false)
	c.resumed = true
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
	q.unlock()
	if own {
		b.Flush()
	}
}

// Settle implements core.Consumer.
func (c *consumer) Settle(b *core.Batch, o core.Outcome, seqs ...uint64) error {
	if o > core.Reject {
		return fmt.Errorf("%v: settlement: %w", c.queue.key, core.ErrInvalid)
	}
	own := b == nil
	if own {
		b = &core.Batch{}
	}
	q := c.queue
	var missing error
	q.mu.Lock()
	for _, seq := range seqs {
		if !c.settleOne(seq, o) && missing == nil {
			missing = fmt.Errorf("%v: delivery %d: %w", q.key, seq, core.ErrNotFound)
		}
	}
	q.forgetReturned(o)
	c.wake()
	q.drain(b)
	q.unlock()
	if own {
		b.Flush()
	}
	return missing
}

// settleOne also meets a delivery whose Deliver has not returned yet: the
// client may be that quick.
func (c *consumer) settleOne(seq uint64, o core.Outcome) bool {
	q := c.queue
	if e, ok := c.release(seq); ok {
		q.settle(e, o)
		return true
	}
	if q.busy != c || q.out != seq || q.settled || q.dead || c.opts.NoAck {
		return false
	}
	q.early, q.settled = o, true
	return true
}

// forgetReturned is forget where something may have come back to a queue that
// nobody consumes any more.
func (q *queue) forgetReturned(o core.Outcome) {
	if o != core.Ack && o != core.Reject && !q.dead {
		q.forget()
	}
}

// Unsettled implements core.Consumer.
func (c *consumer) Unsettled() int {
	q := c.queue
	q.mu.Lock()
	defer q.unlock()
	return c.held.len()
}

// Get implements core.Consumer.
func (c *consumer) Get() (core.Delivery, bool) {
	q := c.queue
	q.mu.Lock()
	defer q.unlock()
	if c.cancelled || q.dead || !c.opts.Pull {
		return core.Delivery{}, false
	}
	q.lastUsed = q.engine.clock()
	q.wakeLate()
	e, ok := q.takeAnywhere()
	q.watch() // the next is the oldest now
	q.unblock()
	if !ok {
		return core.Delivery{}, false
	}
	if c.opts.NoAck {
		q.done(e)
	} else {
		c.hold(e)
	}
	d := e.delivery(&core.Batch{})
	d.Left = q.waiting()
	return d, true
}

// Cancel implements core.Consumer.
func (c *consumer) Cancel(o core.Outcome) {
	b := &core.Batch{}
	q := c.queue
	q.mu.Lock()
	first := !c.cancelled
	if first {
		c.detach()
	}
	c.lost = o
	for q.busy == c {
		q.awaitDeliver()
	}
	last := false
	if !q.dead {
		last = first && q.autoDelete && !c.opts.Pull && len(q.consumers) == 0
		c.letGo(b, o)
	}
	q.unlock()
	b.Flush()
	if last {
		// Gone already is as good; a consumer that came meanwhile keeps it.
		_, _ = q.engine.remove(q, closing{DeleteOptions: core.DeleteOptions{IfUnused: true}})
	}
}

// letGo returns what a cancelled consumer held, unless it is to keep that.
func (c *consumer) letGo(b *core.Batch, o core.Outcome) {
	q := c.queue
	if o != core.Keep {
		q.held -= c.held.len()
		c.held.all(func(e entry) { q.settle(e, o) })
		c.held = outstanding{}
	}
	q.lastUsed = q.engine.clock()
	q.forget()
	q.drain(b)
}
