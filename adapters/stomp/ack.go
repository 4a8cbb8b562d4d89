package stomp

import (
	"bytes"
	"sort"

	"entrepot/core"
)

// heldMessage is a delivery that waits for its ACK.
type heldMessage struct {
	number uint64 // last part of its message-id
	seq    uint64
	size   int
	state  heldState
}

type heldState uint8

const (
	isOut     heldState = iota
	isTaken             // by an open transaction
	isSettled           // only its place is left
)

// held is the deliveries of one subscription that wait for their ACK, in order of
// delivery; count and bytes are of those not settled.
type held struct {
	list  []heldMessage
	count int
	bytes int
}

// heldCost is what a delivery that is out costs beside its payload, about.
const heldCost = 100

// hold takes a delivery in; false when the credit is used up.
func (s *subscription) hold(d core.Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.held
	if s.prefetch > 0 && h.count >= s.prefetch || s.conn.unacked.Full() {
		return false
	}
	size := len(d.Payload) + heldCost
	h.list = append(h.list, heldMessage{number: s.next + 1, seq: d.Seq, size: size})
	h.count++
	h.bytes += size
	s.conn.unacked.Add(size)
	return true
}

// at is the place of a delivery in the list.
func (h *held) at(number uint64) (int, bool) {
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].number >= number })
	return i, i < len(h.list) && h.list[i].number == number
}

// reach is what an ACK of a delivery settles: that one, or all up to it.
func (h *held) reach(number uint64, cumulative bool) (from, to int, ok bool) {
	at, ok := h.at(number)
	if !ok || h.list[at].state != isOut {
		return 0, 0, false
	}
	if cumulative {
		return 0, at + 1, true
	}
	return at, at + 1, true
}

// take settles what an ACK reaches and appends the sequence numbers.
func (h *held) take(seqs []uint64, number uint64, cumulative bool) ([]uint64, bool) {
	from, to, ok := h.reach(number, cumulative)
	for i := from; i < to; i++ {
		if h.list[i].state == isOut {
			seqs = append(seqs, h.list[i].seq)
			h.settle(i)
		}
	}
	h.tidy()
	return seqs, ok
}

func (h *held) settle(i int) {
	h.list[i].state = isSettled
	h.count--
	h.bytes -= h.list[i].size
}

// tidy forgets settled places: at the front at once, elsewhere when they are the
// greater part.
func (h *held) tidy() {
	n := 0
	for n < len(h.list) && h.list[n].state == isSettled {
		n++
	}
	switch {
	case n == len(h.list):
		h.list = h.list[:0]
		if cap(h.list) > 1024 {
			h.list = nil
		}
	case n > 0 && n >= len(h.list)/2 || len(h.list) > 2*h.count+32:
		kept := h.list[:0]
		for _, m := range h.list {
			if m.state != isSettled {
				kept = append(kept, m)
			}
		}
		h.list = kept
	}
}

// setState changes what becomes of a delivery that a transaction took.
func (s *subscription) setState(number uint64, to heldState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.held.at(number); ok {
		s.held.list[i].state = to
	}
}

// forget settles a delivery that a transaction took, and returns its bytes.
func (s *subscription) forget(number uint64) (freed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.held.at(number); ok {
		freed = s.held.list[i].size
		s.held.settle(i)
		s.held.tidy()
	}
	return freed
}

// forgetAll forgets what a subscription that ended had out.
func (s *subscription) forgetAll() (freed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	freed = s.held.bytes
	s.held = held{}
	return freed
}

// free lets those deliver that waited for bytes which are not out any more.
func (c *conn) free(bytes int) {
	if c.unacked.Free(bytes) {
		c.resume(&c.batch)
	}
}

// notOut is the fault for an ACK or NACK that names nothing.
func notOut() error { return bad("no message is out for ACK under that id") }

// named finds the subscription and delivery that an ACK or NACK names: by id in 1.2,
// by message-id before.
func (c *conn) named(f *frame) (*subscription, uint64, error) {
	id, name := idHeader, "id"
	if f.version < v12 {
		id, name = messageIDHeader, "message-id"
	}
	if !f.has.holds(id) {
		return nil, 0, malformed("ACK and NACK need the header %s", name)
	}
	session, rest, _ := bytes.Cut(f.value(id), []byte{'-'})
	middle, last, _ := bytes.Cut(rest, []byte{'-'})
	own, ok1 := parseNumber(session)
	number, ok2 := parseNumber(middle)
	delivery, ok3 := parseNumber(last)
	if !ok1 || !ok2 || !ok3 || own != uint64(c.session.ID()) {
		return nil, 0, notOut()
	}
	c.mu.Lock()
	s := c.numbers[number]
	c.mu.Unlock()
	switch {
	case s == nil || s.mode == autoAck:
		return nil, 0, notOut()
	case f.version < v12 && f.has.holds(subscriptionHeader) && string(f.value(subscriptionHeader)) != s.id:
		return nil, 0, bad("the message is of another subscription")
	}
	return s, delivery, nil
}

// parseNumber reads up to 18 digits.
func parseNumber(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// ack settles what an ACK or NACK names.
func (c *conn) ack(f *frame, o core.Outcome) error {
	s, number, err := c.named(f)
	if err != nil {
		return err
	}
	if f.has.holds(transactionHeader) {
		return c.settleLater(f, s, number, o)
	}
	s.mu.Lock()
	before := s.held.bytes
	seqs, ok := s.held.take(c.seqs[:0], number, s.mode == clientAck)
	freed := before - s.held.bytes
	s.mu.Unlock()
	c.seqs = seqs
	if !ok {
		return notOut()
	}
	defer c.free(freed)
	if f.has.holds(receiptHeader) {
		c.settleForGood(f, s, o)
		return nil
	}
	return s.consumer.Settle(&c.batch, o, seqs...)
}

// settleForGood settles c.seqs and sends the receipt that f asks for when that is
// on disk, where the messages were: none returns after it.
func (c *conn) settleForGood(f *frame, s *subscription, o core.Outcome) {
	ops := make([]core.Op, len(c.seqs))
	for i, seq := range c.seqs {
		ops[i] = core.Op{Consumer: s.consumer, Seq: seq, Outcome: o}
	}
	id := bytes.Clone(f.value(receiptHeader))
	s.source.session.Apply(c.lane, ops, func(_ bool, err error) {
		if err != nil {
			c.fail(err, id)
			return
		}
		c.sendReceipt(id)
	})
}

// nack puts messages back into their place, or, with requeue:false, gives them up.
func (c *conn) nack(f *frame) error {
	if f.version == v10 {
		return malformed("STOMP 1.0 has no NACK")
	}
	if string(f.value(requeueHeader)) == "false" {
		return c.ack(f, core.Reject)
	}
	return c.ack(f, core.Requeue)
}
