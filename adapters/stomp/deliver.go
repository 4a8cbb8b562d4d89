package stomp

import (
	"strconv"

	"entrepot/core"
)

// frameEnd follows a body.
var frameEnd = []byte{0}

// Deliver implements core.Receiver: it writes a MESSAGE into the outbox. It runs on
// the publisher's goroutine.
func (s *subscription) Deliver(d core.Delivery) core.Verdict {
	c := s.conn
	if s.selector != nil && !s.selector.chooses(d.Message) {
		return core.Settled
	}
	buf, ok := c.conn.Outbox.BeginDelivery()
	if !ok {
		return core.Full
	}
	if c.ended || s.mode != autoAck && !s.hold(d) {
		c.conn.Outbox.Cancel()
		return core.Full
	}
	m := d.Message
	s.next++
	buf = append(buf, s.head...)
	buf = strconv.AppendUint(buf, s.next, 10)
	if s.ackHead != nil {
		buf = append(buf, s.ackHead...)
		buf = strconv.AppendUint(buf, s.next, 10)
	}
	if s.fixed != nil {
		buf = append(buf, s.fixed...)
	} else {
		buf = append(buf, s.destination(m)...)
	}
	if s.fixed != nil && m.Exchange != core.DefaultExchange {
		buf = append(append(buf, "\nx-topic:"...), s.destination(m)[len("\ndestination:"):]...)
	}
	if d.Attempts > 0 {
		buf = append(buf, "\nredelivered:true"...)
	}
	if d.Replayed {
		buf = append(buf, "\nretained:true"...)
	}
	buf = c.appendProperties(buf, m)
	buf = append(buf, "\ncontent-length:"...)
	buf = appendInt(buf, len(m.Payload))
	buf = append(buf, "\n\n"...)
	c.writes++
	c.session.Traffic.CountOut(len(m.Payload))
	c.conn.Outbox.EndLarge(d.Batch, buf, m.Payload, frameEnd)
	if s.mode == autoAck {
		return core.Settled
	}
	return core.Held
}

// maxKnown bounds the printed destinations that a subscription remembers.
const maxKnown = 64

// destination is the header line for where m was sent to, printed once for each.
func (s *subscription) destination(m *core.Message) []byte {
	a := m.Address()
	if a == s.last {
		return s.lastTo
	}
	line, ok := s.known[a]
	if !ok {
		line = s.conn.destinationHeader(s.conn.server.names.print(a))
		if s.known == nil || len(s.known) >= maxKnown {
			s.known = map[core.Address][]byte{}
		}
		if len(line) <= maxRemembered {
			s.known[a] = line
		}
	}
	s.last, s.lastTo = a, line
	return line
}

// destinationHeader is the header line with the line end before it.
func (c *conn) destinationHeader(text string) []byte {
	return c.frame.version.appendHeader(nil, "destination", text)
}
