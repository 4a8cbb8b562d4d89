package amqp

import (
	"encoding/binary"
	"strconv"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/routing"
)

// Deliver implements core.Receiver: it writes a basic.deliver and its content
// into the outbox. It runs on the publisher's goroutine.
func (s *consumer) Deliver(d core.Delivery) core.Verdict {
	ch := s.channel
	c := ch.conn
	buf, ok := c.conn.Outbox.BeginDelivery()
	if !ok {
		return core.Full
	}
	tag, ok := uint64(0), !c.ended && !ch.shut
	if ok {
		tag, ok = ch.hold(s, d)
	}
	if !ok {
		c.conn.Outbox.Cancel()
		return core.Full
	}
	at := c.printed.find(d.Address())
	start := len(buf)
	buf = append(buf, s.head...)
	buf = binary.BigEndian.AppendUint64(buf, tag)
	buf = frame.AppendBit(buf, d.Attempts > 0)
	buf = append(buf, at.wire...)
	buf = c.appendContent(frame.End(buf, start), ch.id, d.Message, at.long)
	c.writes++
	c.session.Traffic.CountOut(len(d.Payload))
	c.conn.Outbox.End(d.Batch, buf)
	if s.noAck {
		return core.Settled
	}
	return core.Held
}

// appendContent writes the header and body of m (AMQP 0-9-1, 4.2.6), the body in
// as many frames as it needs. Between BeginDelivery or BeginAnswer and End.
func (c *conn) appendContent(buf []byte, channel uint16, m *core.Message, long bool) []byte {
	start := len(buf)
	buf = c.appendHeader(buf, channel, m, long, true)
	if len(buf)-start > c.frameMax {
		buf = c.appendHeader(buf[:start], channel, m, false, false)
	}
	most := c.frameMax - frame.Overhead
	for body := m.Payload; len(body) > 0; {
		part := body[:min(len(body), most)]
		body = body[len(part):]
		buf = frame.BeginBody(buf, channel, len(part))
		buf = frame.EndBody(c.conn.Outbox.AppendLarge(buf, part))
	}
	return buf
}

// appendHeader writes the content header. One that with the application's
// headers is larger than a frame goes without them: it cannot be parted.
func (c *conn) appendHeader(buf []byte, channel uint16, m *core.Message, long, headers bool) []byte {
	start := len(buf)
	buf = frame.BeginHeader(buf, channel, len(m.Payload), 0)
	at := len(buf) - 2
	flags := uint16(0)
	if m.Props == nil && !long && !c.cfg.OriginHeader {
		buf, flags = appendMode(buf, m)
	} else {
		buf, flags = c.appendProperties(buf, m, long, headers)
	}
	if o := m.Origin; o != nil && o.User != "" && len(o.User) <= frame.MaxShortText {
		buf, flags = c.appendLast(buf, flags, m)
	} else if p := m.Props; p != nil {
		buf, flags = appendText(buf, flags, frame.AppID, p.AppID)
	}
	binary.BigEndian.PutUint16(buf[at:], flags)
	return frame.End(buf, start)
}

// appendLast writes the properties from the user-id on.
func (c *conn) appendLast(buf []byte, flags uint16, m *core.Message) ([]byte, uint16) {
	buf, flags = appendText(buf, flags, frame.UserID, m.Origin.User)
	if m.Props != nil {
		buf, flags = appendText(buf, flags, frame.AppID, m.Props.AppID)
	}
	return buf, flags
}

func appendMode(buf []byte, m *core.Message) ([]byte, uint16) {
	switch {
	case m.Guarantee >= core.Durable:
		return append(buf, 2), frame.DeliveryMode
	case m.Transient:
		return append(buf, 1), frame.DeliveryMode
	}
	return buf, 0
}

// appendText writes a property that is a text, where there is one that fits.
func appendText(buf []byte, flags, flag uint16, text string) ([]byte, uint16) {
	if text == "" || len(text) > frame.MaxShortText {
		return buf, flags
	}
	return frame.AppendShortText(buf, text), flags | flag
}

// appendProperties writes the properties up to the type, in their order.
func (c *conn) appendProperties(buf []byte, m *core.Message, long, headers bool) ([]byte, uint16) {
	p := m.Props
	if p == nil {
		p = &core.Properties{}
	}
	flags := uint16(0)
	buf, flags = appendText(buf, flags, frame.ContentType, p.ContentType)
	buf, flags = appendText(buf, flags, frame.ContentEncoding, p.ContentEncoding)
	if list := c.headers(m, long); headers && list != nil {
		buf, flags = frame.AppendTable(buf, list), flags|frame.HeaderTable
	}
	buf, mode := appendMode(buf, m)
	flags |= mode
	if p.HasPriority {
		buf, flags = append(buf, p.Priority), flags|frame.Priority
	}
	if p.Correlation != nil && len(p.Correlation) <= frame.MaxShortText {
		buf, flags = frame.AppendShortText(buf, string(p.Correlation)), flags|frame.CorrelationID
	}
	if !p.ReplyTo.IsZero() {
		if text, ok := printReply(p.ReplyTo); ok {
			buf, flags = frame.AppendShortText(buf, text), flags|frame.ReplyTo
		}
	}
	if p.HasTTL {
		buf, flags = appendText(buf, flags, frame.Expiration, strconv.FormatInt(p.TTL.Milliseconds(), 10))
	}
	buf, flags = appendText(buf, flags, frame.MessageID, p.MessageID)
	if !p.Timestamp.IsZero() {
		buf, flags = frame.AppendLongLong(buf, uint64(p.Timestamp.Unix())), flags|frame.Timestamp
	}
	return appendText(buf, flags, frame.Type, p.Type)
}

// headers are the application's, and what this broker says in that way.
func (c *conn) headers(m *core.Message, long bool) routing.Headers {
	var list routing.Headers
	if m.Props != nil {
		list = m.Props.Headers
	}
	if long {
		list = append(list[:len(list):len(list)], routing.Header{Name: "x-topic", Value: printKey(m.Address())})
	}
	if o := m.Origin; o != nil && c.cfg.OriginHeader {
		list = append(list[:len(list):len(list)], routing.Header{Name: "x-origin", Value: o.Protocol + " " + o.ClientID})
	}
	return list
}
