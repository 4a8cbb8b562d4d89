package core

import "sync"

// Done reports the end of a Publish or Apply, once, and in order within its
// lane. routed is false when no queue took the message. It may be called
// before Publish returns or later from another goroutine; it must not block.
type Done func(routed bool, err error)

// Lane is one publisher's ordered stream: an MQTT, STOMP or WAMP connection,
// an AMQP channel. Publish and Apply on one lane come from one goroutine at a
// time. Messages of one lane reach each queue in the order of their Publish.
type Lane struct {
	// Batch collects the outboxes that this lane's publishes made dirty.
	// Lanes read by one goroutine share one.
	Batch *Batch

	mu       sync.Mutex
	tickets  []*ticket // in order of begin; [0] is the oldest
	settling bool
	free     *ticket
}

type ticket struct {
	lane   *Lane
	done   Done
	finish Done // bound once, so that a ticket is reused without allocation
	routed bool
	err    error
	ended  bool
	next   *ticket
}

// NewLane returns a lane whose deliveries are collected in b.
func NewLane(b *Batch) *Lane { return &Lane{Batch: b} }

// begin takes a place in the lane; the returned Done must be called once.
func (l *Lane) begin(done Done) Done {
	if done == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.free
	if t == nil {
		t = &ticket{lane: l}
		t.finish = t.end
	} else {
		l.free = t.next
	}
	t.done, t.ended, t.next = done, false, nil
	l.tickets = append(l.tickets, t)
	return t.finish
}

// end marks the ticket and calls every Done that has become due. One goroutine
// at a time calls them, so order holds when two ends meet.
func (t *ticket) end(routed bool, err error) {
	l := t.lane
	l.mu.Lock()
	t.routed, t.err, t.ended = routed, err, true
	if l.settling {
		l.mu.Unlock()
		return
	}
	l.settling = true
	for len(l.tickets) > 0 && l.tickets[0].ended {
		head := l.tickets[0]
		l.tickets[0] = nil
		l.tickets = l.tickets[1:]
		done, routed, err := head.done, head.routed, head.err
		head.done, head.err = nil, nil
		head.next, l.free = l.free, head
		l.mu.Unlock()
		done(routed, err)
		l.mu.Lock()
	}
	if len(l.tickets) == 0 {
		l.tickets = l.tickets[:0]
	}
	l.settling = false
	l.mu.Unlock()
}
