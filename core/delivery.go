package core

// Delivery is one message on its way to one receiver.
type Delivery struct {
	*Message
	// Seq is the message's place in its queue, the same at every redelivery and
	// after a restart. It names the delivery in Consumer.Settle.
	Seq uint64
	// Attempts counts earlier deliveries that were given back by a nack or by
	// the loss of a consumer; 0 the first time. A resumed session's hand-over
	// does not count.
	Attempts uint32
	// Replayed: a retained message, delivered because of a Bind.
	Replayed bool
	// Left, from Get alone: how many ready messages are left in the queue.
	Left int
	// Matched holds the values of the bindings that matched, in no order; nil
	// where the engine does not keep them. Receivers do not change it.
	Matched []any
	// Batch is never nil: receivers that wrote something add their Flusher.
	Batch *Batch
}

// Verdict is a receiver's answer to Deliver.
type Verdict uint8

const (
	// Full: not taken; stays in the queue in its place until Resume.
	Full Verdict = iota
	// Held: taken, to be settled later by Consumer.Settle.
	Held
	// Settled: taken and done (QoS 0, no-ack, auto).
	Settled
	dropped Verdict = 16
)

// Dropped is the verdict of a receiver that cannot take this message at all
// (too large for the client, say): settled, and counted under its reason.
func Dropped(r DropReason) Verdict { return dropped + Verdict(r) }

// Reason returns the reason of a Dropped verdict.
func (v Verdict) Reason() (DropReason, bool) {
	if v < dropped {
		return 0, false
	}
	return DropReason(v - dropped), true
}

// Receiver takes deliveries of one consumer. Deliver must not block and must
// not call back into the session, the consumer or the engine; it is never
// called by two goroutines at once for one consumer.
type Receiver interface {
	Deliver(Delivery) Verdict
}

// Outcome says how a delivery ended.
type Outcome uint8

const (
	// Ack: done, the message leaves the queue.
	Ack Outcome = iota
	// Requeue: back to its place in the queue, Attempts one higher.
	Requeue
	// Return: back to its place as if it had never been handed over.
	Return
	// Reject: refused for good; dead-lettered where the queue has a target.
	Reject
	// Keep, for Cancel only: what the consumer holds stays out and may still
	// be settled; a Cancel with another outcome lets go of it.
	Keep
)

// Consumer is one receiver's hold on a queue, from Session.Consume.
type Consumer interface {
	// Resume says that there is room again after Full. It is sticky: one that
	// comes while the queue still acts on a Full counts. Deliveries that it
	// causes are added to b, with a nil b they are flushed before it returns;
	// a long backlog may be handed over later, by the engine and flushed by
	// it. Hold no lock that Deliver takes.
	Resume(b *Batch)
	// Settle ends held deliveries and resumes the consumer; seqs is not kept.
	// Unknown or already settled numbers make it return ErrNotFound after the
	// rest was settled.
	Settle(b *Batch, o Outcome, seqs ...uint64) error
	// Get takes the next message at once, without Deliver; ok is false when
	// there is none. Only for consumers opened with Pull. With NoAck it is
	// settled.
	Get() (d Delivery, ok bool)
	// Unsettled is how many deliveries the consumer holds.
	Unsettled() int
	// Cancel ends the consumer. Held deliveries go back to their places, with
	// o saying how: Requeue or Return; with Keep they stay. When it returns no
	// Deliver is running and none will. A second Cancel does nothing, except
	// after Keep.
	Cancel(o Outcome)
}
