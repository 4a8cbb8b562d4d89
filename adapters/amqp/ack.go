package amqp

import (
	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// ackMethod (AMQP 0-9-1, 1.8.3.13).
func (ch *channel) ackMethod(r *frame.Reader) error {
	tag, flags := r.LongLong(), r.Bits()
	if err := ended(r); err != nil {
		return err
	}
	return ch.settle(tag, flags&1 != 0, core.Ack)
}

// nackMethod is basic.reject with multiple (RabbitMQ).
func (ch *channel) nackMethod(r *frame.Reader) error {
	tag, flags := r.LongLong(), r.Bits()
	if err := ended(r); err != nil {
		return err
	}
	return ch.settle(tag, flags&1 != 0, refusal(flags&2 != 0))
}

// rejectMethod (AMQP 0-9-1, 1.8.3.14).
func (ch *channel) rejectMethod(r *frame.Reader) error {
	tag, flags := r.LongLong(), r.Bits()
	if err := ended(r); err != nil {
		return err
	}
	return ch.settle(tag, false, refusal(flags&1 != 0))
}

func refusal(requeue bool) core.Outcome {
	if requeue {
		return core.Requeue
	}
	return core.Reject
}

// settle ends what a delivery tag reaches, or gathers it in the transaction.
func (ch *channel) settle(tag uint64, multiple bool, o core.Outcome) error {
	c := ch.conn
	ch.mu.Lock()
	taken, ok := ch.held.take(c.scratch.taken[:0], tag, multiple)
	ch.mu.Unlock()
	c.scratch.taken = taken
	if !ok {
		return refuse(frame.PreconditionFailed, "unknown delivery tag %d", tag)
	}
	if ch.transaction != nil {
		return ch.settleLater(taken, o)
	}
	ch.finish(taken, o)
	return nil
}

// finish settles what was taken, and lets those deliver that waited for it.
func (ch *channel) finish(taken []heldMessage, o core.Outcome) {
	c := ch.conn
	ch.mu.Lock()
	freed, starved := ch.held.release(taken)
	ch.mu.Unlock()
	for len(taken) > 0 {
		from := taken[0].from
		seqs := c.scratch.seqs[:0]
		for len(taken) > 0 && taken[0].from == from {
			seqs = append(seqs, taken[0].seq)
			taken = taken[1:]
		}
		c.scratch.seqs = seqs
		// What is not held any more went with its queue.
		_ = from.queue.Settle(&c.batch, o, seqs...)
	}
	if len(ch.cancelled) > 0 {
		ch.prune()
	}
	ch.free(freed, starved)
}

// free lets those deliver that waited for what is not out any more.
func (ch *channel) free(bytes int, starved bool) {
	switch {
	case ch.conn.unacked.Free(bytes):
		ch.conn.resume(&ch.conn.batch)
	case starved:
		ch.resume()
	}
}

// prune lets go of cancelled consumers that hold nothing any more.
func (ch *channel) prune() {
	var done []*consumer
	ch.mu.Lock()
	kept := ch.cancelled[:0]
	for _, s := range ch.cancelled {
		if s.out > 0 {
			kept = append(kept, s)
		} else {
			done = append(done, s)
		}
	}
	clear(ch.cancelled[len(kept):])
	ch.cancelled = kept
	ch.mu.Unlock()
	for _, s := range done {
		s.queue.Cancel(core.Requeue)
	}
}

// recoverMethod puts all that is out back into its queue (AMQP 0-9-1,
// 1.8.3.16).
func (ch *channel) recoverMethod(r *frame.Reader) error {
	requeue := r.Bits()&1 != 0
	m := ch.conn.method
	if err := ended(r); err != nil {
		return err
	}
	if !requeue {
		return refuse(frame.NotImplemented, "requeue=false")
	}
	ch.mu.Lock()
	taken, _ := ch.held.take(nil, 0, true)
	ch.mu.Unlock()
	if m == frame.BasicRecover {
		ch.conn.reply(ch, frame.BasicRecoverOK, nil)
	}
	ch.finish(taken, core.Requeue)
	return nil
}
