package mqtt

import (
	"slices"
	"sync"
	"sync/atomic"

	"entrepot/core"

	"github.com/mochi-mqtt/server/v2/packets"
)

// acks are the confirmations that the client waits for as a publisher. The
// lane calls published in the order of the publishes, so they need no
// identifier each: they are a row, confirmed from the front ([MQTT-4.6.0-2],
// [MQTT-4.6.0-3]).
type acks struct {
	mu   sync.Mutex
	row  []ack
	next int // the front of row
	open int // messages of this connection that the client's quota counts
	// out is confirmations on their way to the outbox. While the reader is at
	// work it takes them there, all at once, when its input is used up.
	out    []byte
	held   bool
	inUse  bool        // by the reader alone: something was published that is confirmed
	failed atomic.Bool // before MQTT 5 a refusal ends the connection
	why    fault       // set before failed
}

type ack struct {
	id    uint16
	first byte // the packet's first byte: PUBACK or PUBREC
	ended bool // confirmed already; waits for those before
	waits bool // for the same QoS 2 message, published on an older connection
	queue bool // it went to a queue
	code  reason
	text  string
}

// hold says that the reader is at work.
func (a *acks) hold() {
	if a.inUse {
		a.mu.Lock()
		a.held = true
		a.mu.Unlock()
	}
}

// expect adds a confirmation to the row. more tells that it counts against the
// client's quota, limit; false when it is used up.
func (c *conn) expect(k ack, more bool, limit int) bool {
	a := &c.publisher.acks
	a.mu.Lock()
	defer a.mu.Unlock()
	if more {
		if a.open >= limit {
			return false
		}
		a.open++
	}
	a.inUse, a.held = true, true
	a.row = append(a.row, k)
	c.confirm()
	return true
}

// close notes that a message is off the client's quota.
func (a *acks) close() {
	a.mu.Lock()
	if a.open > 0 {
		a.open--
	}
	a.mu.Unlock()
}

// published is the core's answer to the oldest publish that waits for one.
func (c *conn) published(routed bool, err error) {
	a := &c.publisher.acks
	a.mu.Lock()
	i := a.next
	for a.row[i].ended || a.row[i].waits {
		i++
	}
	k := &a.row[i]
	k.ended = true
	switch {
	case err != nil:
		k.code = publishReason(err)
		k.text = clipped(err.Error())
	case !routed:
		k.code = noMatch
		if k.queue {
			c.publisher.names.stale.Store(true)
		}
	}
	known := *k
	var others []*conn
	if known.first == packets.Pubrec<<4 {
		others = c.state.accepted(known.id, known.code)
	}
	c.confirm()
	a.mu.Unlock()
	for _, other := range others {
		other.publishedBefore(known)
	}
}

// publishedBefore is published for a connection that sent the message again
// while an older one waited for its outcome.
func (c *conn) publishedBefore(known ack) {
	a := &c.publisher.acks
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := a.next; i < len(a.row); i++ {
		if k := &a.row[i]; k.waits && !k.ended && k.id == known.id {
			k.code, k.text, k.ended = known.code, known.text, true
		}
	}
	c.confirm()
}

// confirm encodes what has ended at the front of the row. With acks.mu held.
func (c *conn) confirm() {
	a := &c.publisher.acks
	for a.next < len(a.row) && a.row[a.next].ended {
		c.encode(&a.row[a.next])
		a.row[a.next] = ack{}
		a.next++
	}
	switch {
	case a.next == len(a.row):
		if a.row, a.next = a.row[:0], 0; cap(a.row) > 256 {
			a.row = nil
		}
	case a.next > 1024:
		a.row, a.next = slices.Delete(a.row, 0, a.next), 0
	}
	if !a.held && len(a.out) > 0 {
		var b core.Batch
		c.handOver(&b)
		b.Flush()
	}
}

func (c *conn) encode(k *ack) {
	a := &c.publisher.acks
	if k.code >= unspecified && c.version < 5 {
		c.refused(k)
		return
	}
	if k.code >= unspecified {
		c.server.tell(k.code)
	}
	if k.first == packets.Puback<<4 || k.code >= unspecified {
		if a.open > 0 {
			a.open--
		}
	}
	text := k.text
	if !c.tells || k.code < unspecified || k.code == notAuthorized || len(text)+16 > int(c.maxOut) {
		text = ""
	}
	a.out = appendAck(a.out, k.first, c.version, k.id, k.code, text)
}

// refused ends a connection whose version has no answer for a refusal.
func (c *conn) refused(k *ack) {
	if !c.publisher.acks.failed.Load() {
		c.publisher.acks.why = fault{k.code, k.text}
		c.publisher.acks.failed.Store(true)
		c.net.Kick(c.publisher.acks.why)
	}
}

// handOver moves confirmations into the outbox. With acks.mu held, so that
// their order stays.
func (c *conn) handOver(b *core.Batch) {
	a := &c.publisher.acks
	c.out.End(b, append(c.out.BeginAnswer(), a.out...))
	if a.out = a.out[:0]; cap(a.out) > 1024 {
		a.out = nil
	}
}

// flushAcks ends hold.
func (c *conn) flushAcks() {
	if c.publisher == nil || !c.publisher.acks.inUse {
		return
	}
	a := &c.publisher.acks
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = false
	if len(a.out) > 0 {
		c.handOver(&c.batch)
	}
}

// settling collects the client's confirmations of deliveries, so that a queue
// is told of many at once. The reader's own.
type settling struct {
	from   *source
	seqs   []uint64
	hungry bool // places in the window came free
}

const maxSettling = 64

// acknowledged takes what the client says to a delivery, or PUBREL to its own
// message.
func (c *conn) acknowledged(kind byte, id uint16, code reason) error {
	switch kind {
	case packets.Puback:
		if done, ok := c.state.confirm(c, id, sent1); ok {
			c.settleLater(done, code)
		}
	case packets.Pubrec:
		c.pubrec(id, code)
	case packets.Pubrel:
		if c.gate != nil {
			c.pubrelKept(id)
			return nil
		}
		answer := idNotFound
		if c.state.forget(c, id) {
			if c.publisher != nil {
				c.publisher.acks.close()
			}
			answer = success
		}
		c.answerID(packets.Pubcomp<<4, id, answer) // [MQTT-4.3.3-11]
	case packets.Pubcomp:
		c.state.complete(c, id)
		c.settling.hungry = true
	}
	return nil
}

// pubrec goes on with a QoS 2 delivery ([MQTT-4.3.3-4]).
func (c *conn) pubrec(id uint16, code reason) {
	if c.gate != nil {
		c.pubrecKept(id, code)
		return
	}
	if code >= unspecified {
		if done, ok := c.state.confirm(c, id, sent2); ok {
			c.settleLater(done, code)
		}
		return
	}
	done, fresh, known := c.state.received(c, id)
	if !known {
		c.answerID(packets.Pubrel<<4|2, id, idNotFound)
		return
	}
	if fresh {
		c.settleLater(done, code)
	}
	c.answerID(packets.Pubrel<<4|2, id, success)
}

// settleLater settles a delivery; one that the client refused is given up.
func (c *conn) settleLater(done settled, code reason) {
	s := &c.settling
	s.hungry = true
	switch {
	case done.kept:
		if code >= unspecified {
			c.session.Drops().Add(core.DropRejected, 1)
		}
	case code >= unspecified:
		c.settle()
		c.tell(done.from, core.Reject, done.seq)
	default:
		if s.from != done.from || len(s.seqs) >= maxSettling {
			c.settle()
			s.from = done.from
		}
		s.seqs = append(s.seqs, done.seq)
	}
	if done.last {
		c.settle()
		done.from.consumer.Cancel(core.Requeue)
	}
}

// settle tells the queue what was collected.
func (c *conn) settle() {
	s := &c.settling
	if len(s.seqs) == 0 {
		return
	}
	c.tell(s.from, core.Ack, s.seqs...)
	s.from, s.seqs = nil, s.seqs[:0]
}

// tell settles. A queue that went, or that took a delivery back, does not know
// it any more, which is as good.
func (c *conn) tell(src *source, o core.Outcome, seqs ...uint64) {
	_ = src.consumer.Settle(&c.batch, o, seqs...)
}
