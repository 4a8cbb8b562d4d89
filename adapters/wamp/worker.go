package wamp

import (
	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
)

// worker is the client's hold on a work queue: each message is an INVOCATION, YIELD
// acknowledges it, ERROR gives it back or up. What a lost worker held goes back.
type worker struct {
	conn     *conn
	id       uint64
	prefetch int
	consumer core.Consumer

	out int // under conn.mu
}

// workerIDs begin where the ids of registrations do not come.
const workerIDs = 1 << 48

// work makes the client a worker of a queue.
func (c *conn) work(id uint64, options dict, queue string) error {
	w := &worker{conn: c, prefetch: c.cfg.Prefetch}
	if v := options.get("x_prefetch"); v != nil {
		n, ok := whole(v)
		if !ok || n == 0 || n > 1_000_000 {
			return refuse(errArgument, "x_prefetch is a number from 1 to 1000000")
		}
		w.prefetch = int(n)
	}
	priority := 0
	if v, ok := options.get("x_priority").(int64); ok {
		priority = int(max(min(v, 1<<30), -1<<30))
	}
	if err := c.needQueue(queue); err != nil {
		return err
	}
	var err error
	w.consumer, err = c.session.Consume(background(), core.Named(queue), core.ConsumeOptions{Priority: priority, Paused: true}, w)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.lastWorker++
	w.id = workerIDs + c.lastWorker
	if c.workers == nil {
		c.workers = map[uint64]*worker{}
	}
	c.workers[w.id] = w
	c.mu.Unlock()
	c.done(wamp.REGISTERED, id, w.id)
	w.consumer.Resume(&c.batch)
	return nil
}

// Deliver implements core.Receiver.
func (w *worker) Deliver(d core.Delivery) core.Verdict {
	c := w.conn
	buf, ok := c.conn.Outbox.BeginDelivery()
	if !ok {
		return core.Full
	}
	var id uint64
	if ok = !c.ended; ok {
		id, ok = w.hold(d)
	}
	if !ok {
		c.conn.Outbox.Cancel()
		return core.Full
	}
	at := len(buf)
	buf = c.open(buf, wamp.INVOCATION, 4+argumentsCount(d.Message))
	buf = c.uint(c.uint(buf, id), w.id)
	buf = c.details(buf, w.details(d))
	buf = c.appendArguments(buf, d.Message)
	c.session.Traffic.CountOut(len(d.Payload))
	c.conn.Outbox.End(d.Batch, c.seal(buf, at))
	return core.Held
}

// heldCost is what a message that is out costs beside its payload, about.
const heldCost = 100

// hold counts one more that is out; not ok at the prefetch, or when too many bytes
// are out.
func (w *worker) hold(d core.Delivery) (id uint64, ok bool) {
	c := w.conn
	c.mu.Lock()
	if w.out >= w.prefetch {
		c.mu.Unlock()
		return 0, false
	}
	if c.unacked.Full() {
		c.mu.Unlock()
		return 0, false
	}
	w.out++
	c.mu.Unlock()
	i := invocation{worker: w, seq: d.Seq, size: len(d.Payload) + heldCost}
	c.unacked.Add(i.size)
	return c.hold(i), true
}

func (w *worker) details(d core.Delivery) (all dict) {
	if d.Attempts > 0 {
		all = append(all, member{"x_attempts", int64(d.Attempts)})
	}
	if name, _ := d.Address().QueueName(); name == "" {
		all = append(all, member{"x_topic", printAddress(d.Address())})
	}
	return w.conn.receivedDetails(all, d.Message)
}

// settle ends a message; progress says nothing of its end.
func (c *conn) settle(i invocation, o core.Outcome, progress bool) {
	if progress {
		return
	}
	c.mu.Lock()
	i.worker.out--
	c.mu.Unlock()
	// A queue that is gone settled it.
	_ = i.worker.consumer.Settle(&c.batch, o, i.seq)
	if c.unacked.Free(i.size) {
		c.resume(&c.batch)
	}
}

// forget lets go of what a worker that ended had out: its answers are of no interest.
// It tells whether others waited for that.
func (c *conn) forget(w *worker) bool {
	freed := 0
	c.mu.Lock()
	for id, i := range c.held {
		if i.worker == w {
			delete(c.held, id)
			freed += i.size
		}
	}
	c.mu.Unlock()
	return c.unacked.Free(freed)
}

// nackOf is what an ERROR says of a message: it is refused for good (dead-lettered
// where the queue has a target), or goes back when the worker asks for that or gave
// it up before its end.
func nackOf(uri string, details dict) core.Outcome {
	if v, ok := details.get("x_requeue").(bool); ok && v || !ok && uri == string(wamp.ErrCanceled) {
		return core.Requeue
	}
	return core.Reject
}
