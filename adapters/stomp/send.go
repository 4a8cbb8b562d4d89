package stomp

import (
	"context"
	"errors"
	"fmt"

	"entrepot/core"
)

// target is where a SEND goes.
type target struct {
	place   place
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

// maxTargets bounds the memory; beyond it all are forgotten.
const maxTargets = 256

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
	if t.all == nil || len(t.all) >= maxTargets {
		t.all = map[string]*target{}
	}
	key := string(text)
	t.all[key] = to
	t.last, t.lastText = to, key
}

// plainSend are the headers of a SEND that need no properties.
var plainSend = headerSetOf(destinationHeader, contentLengthHeader, receiptHeader, persistentHeader, transactionHeader)

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
	if f.has&^(destinationHeader.set()|contentLengthHeader.set()) != 0 {
		if err := c.describe(f, m); err != nil {
			return err
		}
	}
	if to.declare && !to.declared {
		if err := c.declare(to); err != nil {
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
	c.publish(f, m, to)
	return nil
}

// newTarget looks a destination up for the first time.
func (c *conn) newTarget(f *frame) (*target, error) {
	p, err := parsePlace(f.text(destinationHeader))
	if err != nil {
		return nil, err
	}
	to := &target{place: p}
	if to.address, err = c.server.names.address(p); err != nil {
		return nil, err
	}
	to.declare = p.kind == queuePlace && !privateName(p.name)
	return to, nil
}

// declare makes sure that the queue of a SEND exists. One that exists otherwise, or
// that this client may not declare, is sent to as it is.
func (c *conn) declare(to *target) error {
	_, err := c.session.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(to.place.name), Durable: true})
	if err != nil && !errors.Is(err, core.ErrConflict) && !errors.Is(err, core.ErrLocked) && !errors.Is(err, core.ErrNotAllowed) {
		return err
	}
	to.declared = true
	return nil
}

// publish is for a SEND whose end matters: a receipt, or a queue that may have gone
// since it was declared.
func (c *conn) publish(f *frame, m *core.Message, to *target) {
	var receipt string
	asked := f.has.holds(receiptHeader)
	if asked {
		receipt = string(f.value(receiptHeader))
	}
	for range 2 {
		again, here := false, true
		c.session.Publish(c.lane, m, func(routed bool, err error) {
			switch {
			case err != nil:
				c.fail(err, receiptOf(asked, receipt))
			case !routed && to.declare && here:
				again = true
			case !routed && to.declare:
				// Too late to send it again in its place.
				c.fail(fmt.Errorf("queue %q was deleted meanwhile: %w", to.place.name, core.ErrNotFound), receiptOf(asked, receipt))
			case asked:
				c.sendReceipt(receipt)
			}
		})
		here = false
		if !again {
			return
		}
		if err := c.declare(to); err != nil {
			c.fail(err, receiptOf(asked, receipt))
			return
		}
	}
}

func receiptOf(asked bool, receipt string) []byte {
	if !asked {
		return nil
	}
	return []byte(receipt)
}
