package stomp

import (
	"strconv"
	"sync"

	"entrepot/core"
)

// ackMode is how a subscription's messages are settled (STOMP 1.2, SUBSCRIBE ack
// Header).
type ackMode uint8

const (
	autoAck   ackMode = iota // by handing them over
	clientAck                // by ACK, which counts for all earlier ones too
	eachAck                  // by ACK, one by one
)

// subscription receives what its queue holds and writes it to the client.
type subscription struct {
	conn     *conn
	id       string // as the client wrote it; the destination's text in 1.0 without id
	number   uint64
	mode     ackMode
	prefetch int
	implicit bool // made for a reply-to, not by SUBSCRIBE

	source   source
	consumer core.Consumer
	gone     bool // unsubscribed; under conn.mu

	// Deliver's own.
	selector *selector // drops what it does not choose; nil on queues, see source.accepts
	head     []byte    // a MESSAGE up to its message-id's last part
	ackHead  []byte    // the ack header likewise; nil where there is none
	fixed    []byte    // destination header; nil: the message's own
	last     core.Address
	lastTo   []byte
	known    map[core.Address][]byte
	next     uint64 // number of the last delivery

	mu   sync.Mutex // taken under the outbox's lock by Deliver: nothing is taken under it
	held held
}

// newSubscription reads a SUBSCRIBE.
func (c *conn) newSubscription(f *frame) (*subscription, error) {
	if !f.has.holds(idHeader) && f.version >= v11 {
		return nil, malformed("SUBSCRIBE needs an id header")
	}
	s := &subscription{conn: c, id: subscriptionID(f)}
	var err error
	if s.mode, err = ackModeOf(f); err != nil {
		return nil, err
	}
	if s.prefetch, err = c.prefetchOf(f); err != nil {
		return nil, err
	}
	if f.has.holds(selectorHeader) {
		if s.selector, err = parseSelector(f.text(selectorHeader)); err != nil {
			return nil, err
		}
	}
	if err := c.checkID(s.id); err != nil {
		return nil, err
	}
	s.writeHead(f.value(idHeader), f.has.holds(idHeader))
	return s, nil
}

// checkID refuses an id that is taken, and too many subscriptions.
func (c *conn) checkID(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.subs[id]; old != nil && !old.implicit {
		return bad("there is a subscription with that id already")
	}
	if len(c.subs) >= c.cfg.MaxSubscriptions {
		return bad("more than %d subscriptions", c.cfg.MaxSubscriptions)
	}
	return nil
}

// subscriptionID is what names a subscription in later frames, as it is written there.
func subscriptionID(f *frame) string {
	if f.has.holds(idHeader) {
		return string(f.value(idHeader))
	}
	return "\n" + string(f.value(destinationHeader)) // no id can hold a line end
}

// writeHead prepares what all messages of the subscription begin with.
func (s *subscription) writeHead(id []byte, named bool) {
	c := s.conn
	c.lastNumber++
	s.number = c.lastNumber
	s.head = append(s.head, "MESSAGE"...)
	if named {
		s.head = append(append(s.head, "\nsubscription:"...), id...)
	}
	name := strconv.AppendUint(nil, uint64(c.session.ID()), 10)
	name = strconv.AppendUint(append(name, '-'), s.number, 10)
	name = append(name, '-')
	s.head = append(append(s.head, "\nmessage-id:"...), name...)
	if s.mode != autoAck && c.frame.version == v12 {
		s.ackHead = append([]byte("\nack:"), name...)
	}
}

func ackModeOf(f *frame) (ackMode, error) {
	switch v := f.value(ackHeader); string(v) {
	case "", "auto":
		return autoAck, nil
	case "client":
		return clientAck, nil
	case "client-individual":
		return eachAck, nil
	default:
		return 0, malformed("ack must be auto, client or client-individual: %.40q", v)
	}
}

// prefetchOf reads how many messages may be out for ACK, in RabbitMQ's name or
// ActiveMQ's.
func (c *conn) prefetchOf(f *frame) (int, error) {
	for _, id := range [...]headerID{prefetchCountHeader, xPrefetchHeader, amqPrefetchHeader} {
		if !f.has.holds(id) {
			continue
		}
		n, ok := decimal(f.value(id))
		if !ok {
			return 0, malformed("prefetch-count is not a number: %.40q", f.value(id))
		}
		return n, nil
	}
	return c.cfg.Prefetch, nil
}

// QueueGone implements core.QueueGone: the queue was deleted by somebody else.
func (s *subscription) QueueGone() {
	s.conn.mu.Lock()
	gone := s.gone
	s.conn.mu.Unlock()
	if !gone {
		s.conn.fail(&fault{message: "subscription ended", detail: s.source.spec.Key.String() + " was deleted"}, nil)
	}
}
