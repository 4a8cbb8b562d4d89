package stomp

import (
	"context"
	"errors"

	"entrepot/core"
)

// target is where a SEND goes.
type target struct {
	name    string // of the queue
	address core.Address
	// declare: SEND makes sure that the queue is there; declared: it did.
	declare, declared bool
}

// targets remembers a connection's destinations, by their text in the frame; the last
// one is found without a look-up.
type targets struct {
	last     *target
	lastText string
	all      map[string]*target
}

// maxTargets bounds the memory, beyond it all are forgotten; of texts longer than
// maxRemembered only the last is kept.
const (
	maxTargets    = 256
	maxRemembered = 512
)

func (t *targets) find(text []byte) *target {
	if t.last != nil && string(text) == t.lastText {
		return t.last
	}
	to := t.all[string(text)]
	if to != nil {
		t.last, t.lastText = to, string(text)
	}
	return to
}

func (t *targets) add(text []byte, to *target) {
	t.last, t.lastText = to, string(text)
	if len(text) > maxRemembered {
		return
	}
	if t.all == nil || len(t.all) >= maxTargets {
		t.all = map[string]*target{}
	}
	t.all[t.lastText] = to
}

// plainSend are the headers of a SEND that need no properties.
const plainSend headerSet = 1<<destinationHeader | 1<<contentLengthHeader | 1<<receiptHeader | 1<<persistentHeader |
	1<<transactionHeader

// send publishes (STOMP 1.2, SEND).
func (c *conn) send(f *frame) error {
	text := f.value(destinationHeader)
	if text == nil {
		return malformed("SEND needs a destination header")
	}
	to := c.targets.find(text)
	if to == nil {
		var err error
		if to, err = c.newTarget(f); err != nil {
			return err
		}
		c.targets.add(text, to)
	}
	m := core.NewMessage(len(f.body))
	copy(m.Payload, f.body)
	m.Exchange, m.Topic = to.address.Exchange, to.address.Topic
	m.Guarantee = core.AtLeastOnce
	if f.has&^(1<<destinationHeader|1<<contentLengthHeader) != 0 {
		if err := c.describe(f, m, to); err != nil {
			return err
		}
	}
	if to.declare && !to.declared {
		if err := c.declare(f, to); err != nil {
			return err
		}
	}
	if f.has.holds(transactionHeader) {
		return c.enqueue(f, m)
	}
	if !to.declare && !f.has.holds(receiptHeader) {
		c.session.Publish(c.lane, m, c.sent)
		return nil
	}
	return c.publish(f, m, to)
}

// queueHeaders describe the queue of a SEND, besides the arguments.
const queueHeaders headerSet = 1<<durableHeader | 1<<autoDeleteHeader | 1<<exclusiveHeader

// newTarget looks a destination up for the first time.
func (c *conn) newTarget(f *frame) (*target, error) {
	p, err := parsePlace(f.text(destinationHeader))
	if err != nil {
		return nil, err
	}
	to := &target{name: p.name, declare: p.kind == queuePlace && !privateName(p.name)}
	to.address, err = c.addressOf(p)
	return to, err
}

// addressOf is where a place is reached; the queue behind a temporary one is made.
func (c *conn) addressOf(p place) (core.Address, error) {
	if p.kind != tempQueuePlace && p.kind != tempTopicPlace {
		return c.server.names.address(p)
	}
	name, err := c.temporary(p)
	if err != nil {
		return core.Address{}, err
	}
	return core.QueueAddress(name)
}

// declare makes sure that the queue of a SEND exists. One that exists otherwise is sent
// to as it is, unless the frame says how it should be; so is one that this client may
// not declare.
func (c *conn) declare(f *frame, to *target) error {
	args, err := sendArgs(f)
	if err != nil {
		return err
	}
	c.batch.Flush() // the disk may have to be waited for
	q := core.QueueSpec{Key: core.Named(to.name), Args: args.queue}
	queueFlags(f, &q)
	_, err = c.session.DeclareQueue(context.Background(), q)
	switch {
	case errors.Is(err, core.ErrLocked), errors.Is(err, core.ErrNotAllowed):
		err = nil
	case errors.Is(err, core.ErrConflict) && !args.given && !declares(f):
		err = nil
	}
	to.declared = err == nil
	return err
}

// publish is for a SEND whose end matters: a receipt, or a queue that may have gone
// since it was declared.
func (c *conn) publish(f *frame, m *core.Message, to *target) error {
	w := c.waiting.take(c)
	w.to, w.asked = to, f.has.holds(receiptHeader)
	w.receipt = append(w.receipt[:0], f.value(receiptHeader)...)
	w.state.Store(beingSent)
	c.session.Publish(c.lane, m, w.done)
	if w.state.CompareAndSwap(beingSent, wasSent) || w.state.Load() != wasMissed {
		return nil
	}
	// The queue went since it was declared, and nobody has the message.
	w.state.Store(wasSent)
	if err := c.declare(f, to); err != nil {
		return err
	}
	c.session.Publish(c.lane, m, w.done)
	return nil
}
