package mqtt

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"entrepot/core"

	"github.com/mochi-mqtt/server/v2/packets"
)

// gate is where deliveries wait, in their order, until the disk has the packet
// identifier of a QoS 2 message: only then it may go to a client whose session
// lasts, so that after a power cut it comes under the same identifier. What
// waits for the same flush shares one write. It is a core.Flusher.
//
// Its mutex comes before an outbox's and session.mu.
type gate struct {
	conn *conn

	mu    sync.Mutex
	row   []*gated
	fresh []*gated // of row: not yet given to the disk
	dirty bool     // in a batch
	full  bool     // refused a delivery

	broken atomic.Bool // the connection ends, see unkept
}

// gated is a delivery that waits.
type gated struct {
	d    core.Delivery
	o    offer
	from *source
	id   uint16
	dup  bool

	ready bool // goes when it is at the front
	gone  bool // does not go
}

// maxGated bounds the row.
const maxGated = 1024

// busy tells whether a delivery has to wait behind others.
func (g *gate) busy() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.row) > 0
}

// room tells whether one more may wait; otherwise src is resumed later.
func (g *gate) room(src *source) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.row) < maxGated {
		return true
	}
	g.full = true
	src.refused.Store(true)
	return false
}

// add lets a delivery wait; noted tells that the disk has to have its record.
func (g *gate) add(e *gated, b *core.Batch, noted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.d.Batch = nil
	e.ready = !noted
	g.row = append(g.row, e)
	if noted {
		g.fresh = append(g.fresh, e)
	}
	// One that is ready at the front goes with the flush as well.
	if !g.dirty {
		g.dirty = true
		b.Add(g)
	}
}

// Flush implements core.Flusher: it gives the disk what it has to have.
func (g *gate) Flush() {
	g.mu.Lock()
	fresh := g.fresh
	g.fresh, g.dirty = nil, false
	g.mu.Unlock()
	var own []*gated
	for _, e := range fresh {
		if e.from.kind == shared {
			g.takeOver(e)
		} else {
			own = append(own, e)
		}
	}
	if len(own) > 0 {
		g.record(own)
	}
	g.open()
}

// record writes (packet identifier, seq) of each.
func (g *gate) record(own []*gated) {
	notes := make([]core.Note, len(own))
	for i, e := range own {
		kind := byte(inQueue)
		if e.from.kind == work {
			kind = inWork
		}
		notes[i] = outgoing(e.id, kind, e.d.Seq)
	}
	// A connection that was taken over writes no more.
	_ = g.conn.state.keepFor(g.conn, func(err error) { g.recorded(own, err) }, notes...)
}

func (g *gate) recorded(own []*gated, err error) {
	if err != nil {
		g.conn.unkept(err)
		return
	}
	g.mu.Lock()
	for _, e := range own {
		e.ready = true
	}
	g.mu.Unlock()
	g.open()
}

// takeOver moves a group's message to the session, as one with its removal
// from the group (MQTT 5, 4.8.2).
func (g *gate) takeOver(e *gated) {
	order, ok := g.conn.state.orderOf(e.id)
	if !ok {
		g.taken(e, core.ErrClosed)
		return
	}
	n := outgoing(e.id, inNotes, order, appendKept(nil, e.from.sub.Load(), e.d.Message)...)
	ops := []core.Op{{Consumer: e.from.consumer, Seq: e.d.Seq, Outcome: core.Ack}, {Note: &n}}
	g.conn.session.Apply(nil, ops, func(_ bool, err error) { g.taken(e, err) })
}

// taken: the session has the message, or the group has it again.
func (g *gate) taken(e *gated, err error) {
	heir := g.conn.state.taken(e, err)
	g.mu.Lock()
	e.ready, e.gone = true, err != nil
	g.mu.Unlock()
	switch {
	case heir != nil:
		var b core.Batch
		heir.sendKept(&b)
		b.Flush()
	case err != nil && !errors.Is(err, core.ErrNotFound):
		g.conn.unkept(err)
	case err != nil:
		go g.conn.resumeHungry()
		g.open()
	default:
		g.open()
	}
}

// open sends what is ready, and has those resumed that found the row full.
func (g *gate) open() {
	var b core.Batch
	if g.pump(&b) {
		go g.conn.resumeRefused(nil)
	}
	b.Flush()
}

// pump sends what is ready; more tells that there is room again in a row that
// was full.
func (g *gate) pump(b *core.Batch) (more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for n < len(g.row) && g.row[n].ready && g.send(g.row[n], b) {
		n++
	}
	g.row = slices.Delete(g.row, 0, n)
	more = g.full && len(g.row) <= maxGated/2
	if more {
		g.full = false
	}
	return more
}

// send writes one; false when the outbox has no room, which calls pump when it
// has.
func (g *gate) send(e *gated, b *core.Batch) bool {
	if e.gone {
		return true
	}
	c := g.conn
	buf, ok := c.out.BeginDelivery()
	if !ok {
		return false
	}
	if e.id != 0 && !c.state.sent(c, e.id) {
		c.out.Cancel()
		return true
	}
	e.d.Batch = b
	if !c.write(buf, &e.d, &e.o, e.id, e.dup) && e.id != 0 {
		c.state.unsend(e.id) // it fitted when it came
	}
	return true
}

// resumeHungry is feedHungry for another goroutine than the reader's.
func (c *conn) resumeHungry() {
	for _, src := range c.state.hungry() {
		src.consumer.Resume(nil)
	}
}

// unkept ends the connection: the disk did not take what has to be there before
// the next packet.
func (c *conn) unkept(err error) {
	if errors.Is(err, core.ErrClosed) {
		return
	}
	if !c.gate.broken.Swap(true) {
		c.net.Kick(fault{publishReason(err), err.Error()})
	}
}

// pubrecKept goes on with a QoS 2 delivery to a session that lasts: PUBREL goes
// when the disk has, as one, the end of the message and the record that the
// client is to release it ([MQTT-4.3.3-4]).
func (c *conn) pubrecKept(id uint16, code reason) {
	p, order, at := c.state.releasing(c, id, code)
	switch at {
	case notOut:
		if code < unspecified {
			c.answerID(packets.Pubrel<<4|2, id, idNotFound)
		}
		return
	case onItsWay:
		return
	case wasReleased:
		// In the order of the PUBRECs ([MQTT-4.6.0-4]).
		c.session.Apply(c.releases(), nil, func(bool, error) { c.answerLater(packets.Pubrel<<4|2, id) })
		return
	}
	n := core.Note{Key: idKey(outNote, id)}
	outcome := core.Reject
	if code < unspecified {
		n, outcome = outgoing(id, inClient, order), core.Ack
	}
	ops := []core.Op{{Note: &n}}
	if p.msg == nil {
		ops = append(ops, core.Op{Consumer: p.from.consumer, Seq: p.seq, Outcome: outcome})
	} else if code >= unspecified {
		c.session.Drops().Add(core.DropRejected, 1)
	}
	c.session.Apply(c.releases(), ops, func(_ bool, err error) {
		if errors.Is(err, core.ErrNotFound) {
			// The queue went, or took the delivery back, which is as good.
			err = c.state.keepFor(c, func(err error) { c.released(&p, order, code, err) }, n)
			if err == nil {
				return
			}
		}
		c.released(&p, order, code, err)
	})
}

// releases is the lane of PUBRELs.
func (c *conn) releases() *core.Lane {
	if c.releaseLane == nil {
		c.releaseLane = core.NewLane(&c.batch)
	}
	return c.releaseLane
}

func (c *conn) released(p *parcel, order uint64, code reason, err error) {
	if err != nil {
		c.unkept(err)
		return
	}
	if to := c.state.release(c, p, order, code); to != nil {
		to.answerLater(packets.Pubrel<<4|2, p.id)
	}
}

// answerLater answers from another goroutine than the reader's.
func (c *conn) answerLater(first byte, id uint16) {
	var b core.Batch
	buf := c.out.BeginAnswer()
	c.out.End(&b, appendAck(buf, first, c.version, id, success, ""))
	b.Flush()
}

// pubrelKept takes PUBREL for a session that lasts: PUBCOMP goes when the
// disk has forgotten the identifier, so that it may be used again at once.
func (c *conn) pubrelKept(id uint16) {
	if !c.state.knows(id) {
		c.answerID(packets.Pubcomp<<4, id, idNotFound)
		return
	}
	publisher := c.publisher
	err := c.state.keepFor(c, func(err error) {
		if err != nil {
			c.unkept(err)
			return
		}
		if c.state.forget(c, id) {
			if publisher != nil {
				publisher.acks.close()
			}
			c.answerLater(packets.Pubcomp<<4, id)
		}
	}, core.Note{Key: idKey(inNote, id)})
	if err != nil {
		c.unkept(err)
	}
}
