package local

import (
	"fmt"

	"entrepot/core"
	"entrepot/core/store"
)

// apply is one Apply on its way: first every queue promises room and every
// delivery is claimed, then all of it happens.
type apply struct {
	engine   *Engine
	routes   []*route // of the publishing ops, in order
	reserved []place
	claimed  []claim
	durable  bool // something of it goes to disk

	delayed []waiter // of the publishing ops, those for later

	// with adds what else is of it to the batch, after is told how that went;
	// nil: nothing.
	with  func(*store.Batch)
	after func(error)
}

// place is room promised by a queue.
type place struct {
	queue *queue
	bytes int64
	kept  bool // on disk
}

type claim struct {
	entry
	by      *consumer
	outcome core.Outcome
}

// Apply implements core.Engine.
func (e *Engine) Apply(b *core.Batch, ops []core.Op, done core.Done) {
	if e.disk != nil {
		e.disk.room(b)
	}
	a := &apply{engine: e}
	err := a.prepare(ops)
	switch {
	case err != nil:
		a.undo(b)
		finish(done, false, err)
	case a.durable:
		a.commitStored(b, ops, done)
	default:
		finish(done, a.commit(b, ops), nil)
	}
}

func (a *apply) prepare(ops []core.Op) error {
	for i := range ops {
		var err error
		switch {
		case ops[i].Message != nil && isDelayed(ops[i].Message):
			err = a.postpone(ops[i].Message)
		case ops[i].Message != nil:
			err = a.reserve(ops[i].Message)
		case ops[i].Note != nil:
			a.durable = a.durable || a.engine.disk != nil
		default:
			err = a.claim(&ops[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reserve finds the route and takes the places of a message.
func (a *apply) reserve(m *core.Message) error {
	r, err := a.engine.route(m)
	if err != nil {
		return err
	}
	a.routes = append(a.routes, r)
	return a.reserveIn(m, r)
}

// reserveIn takes a place in each queue of a route that may refuse.
func (a *apply) reserveIn(m *core.Message, r *route) error {
	p := place{bytes: int64(len(m.Payload))}
	for _, t := range r.targets {
		p.queue = t.queue
		if p.kept = t.queue.keeps(m, t); p.kept {
			if err := a.engine.disk.ready(); err != nil {
				return err
			}
			if err := t.queue.refuse(); err != nil {
				return err
			}
			a.durable = true
		}
		if !p.queue.refuses() {
			continue
		}
		if err := p.reserve(); err != nil {
			p.queue.refused(m, t)
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
	defer q.unlock()
	for q.busy == c && q.out == op.Seq {
		q.awaitDeliver() // the client was quicker than its Deliver
	}
	if q.dead {
		return nil // it went with its queue
	}
	e, ok := c.release(op.Seq)
	if !ok {
		return fmt.Errorf("%v: delivery %d: %w", q.key, op.Seq, core.ErrNotFound)
	}
	a.claimed = append(a.claimed, claim{e, c, op.Outcome})
	a.durable = a.durable || e.stored
	return nil
}

// undo gives back the room and the claimed deliveries.
func (a *apply) undo(b *core.Batch) {
	for _, p := range a.reserved {
		p.queue.mu.Lock()
		p.free()
		p.queue.unlock()
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
		if m == nil || isDelayed(m) {
			continue
		}
		r := a.routes[next]
		next++
		for _, t := range r.targets {
			t.queue.putReserved(b, m, t)
		}
		if len(r.targets) == 0 {
			a.unrouted(&ops[i])
			routed = false
		}
	}
	for i := range a.delayed {
		a.engine.delays.hold(a.delayed[i])
	}
	for i := range a.claimed {
		a.claimed[i].settle(b)
	}
	return routed
}

// delaysStored is told how the batch went that has the delayed ones.
func (a *apply) delaysStored(err error) {
	if err != nil {
		a.engine.delays.refused(a.delayed, err)
		return
	}
	for i := range a.delayed {
		a.engine.delays.stored(&a.delayed[i])
	}
}

// unrouted: no queue takes the message of op.
func (a *apply) unrouted(op *core.Op) {
	a.engine.unroutable.Add(1)
	if op.Unrouted != nil {
		op.Unrouted()
	}
}

// placed is a message's place in one queue, taken before its batch is written
// and made ready after.
type placed struct {
	entry
	queue   *queue
	epoch   uint64
	behind  bool        // it waits on disk only
	applied func(error) // of one that is written with the batch and waits on disk only
}

// commitStored does what prepare promised where something of it goes to disk:
// every message takes its place, one batch has all that is durable, and then
// all becomes visible. done is called when the batch is on the disk.
func (a *apply) commitStored(b *core.Batch, ops []core.Op, done core.Done) {
	var batch store.Batch
	places, routed := a.place(ops, &batch)
	ended := a.endStored(&batch)
	for i := range a.delayed {
		batch.Set(a.engine.delays.key(&a.delayed[i]), a.delayed[i].form)
	}
	if a.with != nil {
		a.with(&batch)
	}
	var applied []func(error)
	for i := range places {
		p := &places[i]
		switch {
		case p.applied != nil:
			applied = append(applied, p.applied)
		case p.stored:
			applied = append(applied, p.revoke)
		}
	}
	a.engine.disk.store.Commit(&batch, done != nil, func(err error) {
		for _, f := range applied {
			f(err)
		}
		if err != nil {
			takeBack(ended)
		}
		if a.after != nil {
			a.after(err)
		}
		a.delaysStored(err)
		finish(done, routed && err == nil, core.DiskError(err))
	})
	for i := range places {
		places[i].show()
	}
	for i := range places {
		places[i].queue.look(b)
	}
	for i := range a.claimed {
		a.claimed[i].settle(b)
	}
}

// endStored adds the removal of what is acknowledged to the batch, and returns
// that as it was.
func (a *apply) endStored(batch *store.Batch) (ended []claim) {
	for i := range a.claimed {
		c := &a.claimed[i]
		if c.stored && (c.outcome == core.Ack || c.outcome == core.Reject && c.by.queue.args.DeadLetter == nil) {
			ended = append(ended, *c)
			c.by.queue.shelf.spool.remove(batch, c.seq, c.attempts > 0)
			c.stored = false
		}
	}
	return ended
}

// takeBack puts deliveries back whose acknowledgement the disk did not take,
// as all else that came with it: the client is told that nothing was done.
func takeBack(ended []claim) {
	b := &core.Batch{}
	for i := range ended {
		q := ended[i].by.queue
		q.mu.Lock()
		if e := ended[i].entry; !q.dead && !q.shelf.wasRevoked(e.seq) {
			e.attempts++
			e.instant = false
			q.bytes += e.size()
			q.shelf.again(q, &e)
			q.giveBack(e)
			q.drain(b)
		}
		q.unlock()
	}
	b.Flush()
}

// place gives every message its places and adds what is durable to the batch.
func (a *apply) place(ops []core.Op, batch *store.Batch) (places []placed, routed bool) {
	routed = true
	next := 0
	for i := range ops {
		if n := ops[i].Note; n != nil {
			if n.Value == nil {
				batch.Delete(n.Key)
			} else {
				batch.Set(n.Key, n.Value)
			}
		}
		m := ops[i].Message
		if m == nil || isDelayed(m) {
			continue
		}
		r := a.routes[next]
		next++
		for _, t := range r.targets {
			if p, ok := t.queue.place(m, t, batch); ok {
				places = append(places, p)
			}
		}
		if len(r.targets) == 0 {
			a.unrouted(&ops[i])
			routed = false
		}
	}
	return places, routed
}

// place takes mu.
func (q *queue) place(m *core.Message, t *target, batch *store.Batch) (placed, bool) {
	q.mu.Lock()
	defer q.unlock()
	if q.refuses() {
		place{queue: q, bytes: int64(len(m.Payload))}.free()
	}
	e, ok := q.enter(m, t)
	if !ok {
		return placed{}, false
	}
	if e.instant && q.shelf.takes(q, e.seq) {
		q.drop(e, core.DropExpired)
		return placed{}, false
	}
	if e.stored = q.keeps(m, t); e.stored {
		q.shelf.spool.put(batch, &e, q.wall(&e), false)
	}
	p := placed{entry: e, queue: q, epoch: q.shelf.epoch, behind: q.shelf.takes(q, e.seq)}
	if p.behind {
		q.spill(e)
		if e.stored {
			q.shelf.open = append(q.shelf.open, e.seq)
			p.applied = q.whenApplied(&e)
		}
	} else {
		e.pending = true
		q.push(e)
	}
	return p, true
}

// revoke is told whether the disk has the message.
func (p *placed) revoke(err error) {
	if err != nil {
		p.queue.revoke(p.seq)
	}
}

// show makes a placed message ready. It takes mu.
func (p *placed) show() {
	q := p.queue
	q.mu.Lock()
	defer q.unlock()
	e := q.ready.find(p.seq)
	switch {
	case q.dead:
		if p.stored { // the queue was cleared before the batch came
			q.shelf.remove(p.seq, false)
		}
	case e != nil:
		e.pending = false
		if q.args.LastValueKey != "" && q.outdated(e) {
			q.cut(e.seq)
		}
	case p.stored && (!p.behind || q.shelf.epoch != p.epoch):
		q.shelf.remove(p.seq, false) // purged meanwhile
	}
}

// look hands over what was shown, and sees to the limits. It takes mu.
func (q *queue) look(b *core.Batch) {
	q.mu.Lock()
	defer q.unlock()
	q.drain(b)
}

// reserve promises a place; ErrFull when there is none. It takes mu.
func (p place) reserve() error {
	q := p.queue
	q.mu.Lock()
	defer q.unlock()
	// A queue that is being deleted takes nothing, which is no refusal.
	if !q.dead && (q.over(q.reserved+1, q.reservedBytes+p.bytes) || !p.kept && q.shelf.crammed(q)) {
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
	defer q.unlock()
	if q.refuses() {
		place{queue: q, bytes: int64(len(m.Payload))}.free()
	}
	q.putLocked(b, m, t)
}

// undo holds the delivery again, or returns it when its consumer went
// meanwhile.
func (c *claim) undo(b *core.Batch) {
	q := c.by.queue
	q.mu.Lock()
	defer q.unlock()
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
	defer q.unlock()
	if q.dead {
		return
	}
	q.settle(c.entry, c.outcome)
	q.forgetReturned(c.outcome)
	c.by.wake()
	q.drain(b)
}
