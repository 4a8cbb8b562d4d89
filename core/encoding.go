package core

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"entrepot/routing"
)

// encodingVersion is the first byte of every message on disk. What a released
// version wrote must be read for ever.
const encodingVersion = 1

var errTruncated = errors.New("message on disk: truncated or of an unknown form")

const (
	encRetain = 1 << iota
	encProps
	encOrigin
	encTransient
)

const (
	propText = 1 << iota
	propTTL
	propPriority
	propTimestamp
	propReplyTo
	propCopies
	propWait // the TTL as the publisher gave it, in milliseconds
)

// AppendMessage appends the form that a message has on disk. Times are wall
// clock there: Expires is kept to the millisecond.
func AppendMessage(b []byte, m *Message) []byte {
	flags := byte(0)
	if m.Retain {
		flags |= encRetain
	}
	if m.Props != nil {
		flags |= encProps
	}
	if m.Origin != nil {
		flags |= encOrigin
	}
	if m.Transient {
		flags |= encTransient
	}
	b = append(b, encodingVersion, flags, byte(m.Guarantee))
	b = appendString(b, m.Exchange)
	b = appendString(b, m.Topic.String())
	if o := m.Origin; o != nil {
		b = appendString(b, o.Protocol)
		b = appendString(b, o.ClientID)
		b = appendString(b, o.User)
	}
	if m.Props != nil {
		b = appendProperties(b, m.Props)
	}
	return append(b, m.Payload...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendProperties(b []byte, p *Properties) []byte {
	flags := byte(0)
	for _, f := range []struct {
		bit byte
		set bool
	}{{propText, p.Text}, {propTTL, p.HasTTL}, {propPriority, p.HasPriority},
		{propTimestamp, !p.Timestamp.IsZero()}, {propReplyTo, !p.ReplyTo.IsZero()},
		{propCopies, len(p.CC)+len(p.BCC) > 0}, {propWait, p.HasTTL}} {
		if f.set {
			flags |= f.bit
		}
	}
	b = append(b, flags, p.Priority)
	for _, s := range []string{p.ContentType, p.ContentEncoding, string(p.Correlation), p.MessageID, p.Type, p.AppID} {
		b = appendString(b, s)
	}
	if p.HasTTL {
		b = binary.AppendVarint(b, p.Expires.UnixMilli())
	}
	if !p.Timestamp.IsZero() {
		b = binary.AppendVarint(b, p.Timestamp.UnixMilli())
	}
	if !p.ReplyTo.IsZero() {
		b = appendString(b, p.ReplyTo.Exchange)
		b = appendString(b, p.ReplyTo.Topic.String())
	}
	if len(p.CC)+len(p.BCC) > 0 {
		b = appendTopics(appendTopics(b, p.CC), p.BCC)
	}
	if p.HasTTL {
		b = binary.AppendVarint(b, p.TTL.Milliseconds())
	}
	return appendHeaders(b, p.Headers)
}

func appendTopics(b []byte, ts []routing.Topic) []byte {
	b = binary.AppendUvarint(b, uint64(len(ts)))
	for _, t := range ts {
		b = appendString(b, t.String())
	}
	return b
}

// AppendHeaders appends the form that headers have on disk.
func AppendHeaders(b []byte, hs routing.Headers) []byte { return appendHeaders(b, hs) }

// DecodeHeaders reads what AppendHeaders wrote.
func DecodeHeaders(b []byte) (routing.Headers, error) {
	d := &decoder{b: b}
	hs := d.headers()
	if d.bad || len(d.b) > 0 {
		return nil, errTruncated
	}
	return hs, nil
}

func appendHeaders(b []byte, hs routing.Headers) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs)))
	for _, h := range hs {
		b = appendString(b, h.Name)
		b = appendValue(b, h.Value)
	}
	return b
}

// appendValue writes a kind letter and the value, numbers as 64 bits.
func appendValue(b []byte, v any) []byte {
	num := func(kind byte, n uint64) []byte { return binary.BigEndian.AppendUint64(append(b, kind), n) }
	switch v := v.(type) {
	case bool:
		if v {
			return append(b, 't', 1)
		}
		return append(b, 't', 0)
	case int8:
		return num('b', uint64(v))
	case int16:
		return num('s', uint64(v))
	case int32:
		return num('i', uint64(v))
	case int64:
		return num('l', uint64(v))
	case uint8:
		return num('B', uint64(v))
	case uint16:
		return num('u', uint64(v))
	case uint32:
		return num('I', uint64(v))
	case uint64:
		return num('L', v)
	case float32:
		return num('f', uint64(math.Float32bits(v)))
	case float64:
		return num('d', math.Float64bits(v))
	case time.Time:
		return num('T', uint64(v.Unix()))
	case routing.Decimal:
		return num('D', uint64(v.Scale)<<32|uint64(uint32(v.Value)))
	case string:
		return appendString(append(b, 'S'), v)
	case []byte:
		return appendString(append(b, 'x'), string(v))
	case routing.Headers:
		return appendHeaders(append(b, 'F'), v)
	case []any:
		b = binary.AppendUvarint(append(b, 'A'), uint64(len(v)))
		for _, e := range v {
			b = appendValue(b, e)
		}
		return b
	}
	return append(b, 'V')
}

// DecodeMessage reads what AppendMessage wrote. The message keeps no part of b.
func DecodeMessage(b []byte) (*Message, error) {
	d := &decoder{b: b}
	version, flags, guarantee := d.byte(), d.byte(), d.byte()
	if version != encodingVersion || Guarantee(guarantee) > Once {
		return nil, errTruncated
	}
	exchange, topic := d.exchange(), d.topic()
	var origin *Origin
	if flags&encOrigin != 0 {
		origin = &Origin{Protocol: d.string(), ClientID: d.string(), User: d.string()}
	}
	var props *Properties
	if flags&encProps != 0 {
		props = d.properties()
	}
	if d.bad || topic.IsZero() {
		return nil, errTruncated
	}
	m := NewMessage(len(d.b))
	copy(m.Payload, d.b)
	m.Exchange, m.Topic, m.Guarantee = exchange, topic, Guarantee(guarantee)
	m.Origin, m.Props, m.Retain = origin, props, flags&encRetain != 0
	m.Transient = flags&encTransient != 0
	return m, nil
}

// decoder takes values off b; once something does not fit it is bad and yields
// zero values.
type decoder struct {
	b     []byte
	depth int
	bad   bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.take(d.uvarint())) }

// exchange is a string, and mostly the same one: a million last values need not
// have it a million times.
func (d *decoder) exchange() string {
	name := d.take(d.uvarint())
	if string(name) == TopicExchange {
		return TopicExchange
	}
	return string(name)
}

func (d *decoder) topic() routing.Topic {
	t, err := routing.ParseTopic(d.string())
	d.bad = d.bad || err != nil
	return t
}

// wait reads milliseconds.
func (d *decoder) wait() time.Duration {
	ms := d.varint()
	d.bad = d.bad || ms < 0 || ms > int64(math.MaxInt64/time.Millisecond)
	return time.Duration(ms) * time.Millisecond
}

func (d *decoder) topics() (ts []routing.Topic) {
	n := d.uvarint()
	for range n {
		if d.bad {
			return nil
		}
		ts = append(ts, d.topic())
	}
	return ts
}

func (d *decoder) properties() *Properties {
	flags := d.byte()
	p := &Properties{Priority: d.byte(), Text: flags&propText != 0, HasTTL: flags&propTTL != 0,
		HasPriority: flags&propPriority != 0}
	p.ContentType, p.ContentEncoding = d.string(), d.string()
	if c := d.string(); c != "" {
		p.Correlation = []byte(c)
	}
	p.MessageID, p.Type, p.AppID = d.string(), d.string(), d.string()
	if p.HasTTL {
		p.Expires = time.UnixMilli(d.varint())
		p.TTL = max(time.Until(p.Expires), 0)
	}
	if flags&propTimestamp != 0 {
		p.Timestamp = time.UnixMilli(d.varint())
	}
	if flags&propReplyTo != 0 {
		p.ReplyTo = Address{Exchange: d.string(), Topic: d.topic()}
	}
	if flags&propCopies != 0 {
		p.CC, p.BCC = d.topics(), d.topics()
	}
	if flags&propWait != 0 {
		p.TTL = d.wait()
	}
	p.Headers = d.headers()
	return p
}

// maxDepth bounds nested tables and lists.
const maxDepth = 64

func (d *decoder) headers() routing.Headers {
	n := d.uvarint()
	var hs routing.Headers
	for range n {
		if d.bad {
			return nil
		}
		hs = append(hs, routing.Header{Name: d.string(), Value: d.value()})
	}
	return hs
}

func (d *decoder) value() any {
	switch kind := d.byte(); kind {
	case 'V':
		return nil
	case 't':
		return d.byte() != 0
	case 'S':
		return d.string()
	case 'x':
		return []byte(d.string())
	case 'F', 'A':
		return d.nested(kind)
	default:
		v := d.take(8)
		if v == nil {
			return nil
		}
		return d.number(kind, binary.BigEndian.Uint64(v))
	}
}

func (d *decoder) nested(kind byte) any {
	if d.depth++; d.depth > maxDepth {
		d.bad = true
		return nil
	}
	defer func() { d.depth-- }()
	if kind == 'F' {
		return d.headers()
	}
	n := d.uvarint()
	list := []any{}
	for range n {
		if d.bad {
			return nil
		}
		list = append(list, d.value())
	}
	return list
}

func (d *decoder) number(kind byte, n uint64) any {
	switch kind {
	case 'b':
		return int8(n)
	case 's':
		return int16(n)
	case 'i':
		return int32(n)
	case 'l':
		return int64(n)
	case 'B':
		return uint8(n)
	case 'u':
		return uint16(n)
	case 'I':
		return uint32(n)
	case 'L':
		return n
	case 'f':
		return math.Float32frombits(uint32(n))
	case 'd':
		return math.Float64frombits(n)
	case 'T':
		return time.Unix(int64(n), 0)
	case 'D':
		return routing.Decimal{Scale: uint8(n >> 32), Value: int32(uint32(n))}
	}
	d.bad = true
	return nil
}
