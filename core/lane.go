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

	mu         sync.Mutex
	head, tail *ticket // in order of begin; head is the oldest
	settling   bool
	free       *ticket
	spare      int // tickets in free
}

// maxSpare bounds the tickets that a quiet lane keeps for reuse.
const maxSpare = 64

type ticket struct {
	lane   *Lane
	done   Done
	finish Done // bound once, so that a ticket is reused without allocation
	routed bool
	ended  bool
	err    error
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
		l.spare--
	}
	t.done, t.ended, t.next = done, false, nil
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
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
	for l.head != nil && l.head.ended {
		done, routed, err := l.retire()
		l.mu.Unlock()
		done(routed, err)
		l.mu.Lock()
	}
	l.settling = false
	l.mu.Unlock()
}

// retire takes the oldest ticket out and keeps it for reuse. With mu held.
func (l *Lane) retire() (Done, bool, error) {
	t := l.head
	if l.head = t.next; l.head == nil {
		l.tail = nil
	}
	done, routed, err := t.done, t.routed, t.err
	t.done, t.err, t.next = nil, nil, nil
	if l.spare < maxSpare {
		t.next, l.free = l.free, t
		l.spare++
	}
	return done, routed, err
}
