package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Packet types (MQTT 5, 2.1.2).
const (
	connect byte = 1 + iota
	connack
	publish
	puback
	pubrec
	pubrel
	pubcomp
	subscribe
	suback
	unsubscribe
	unsuback
	pingreq
	pingresp
	disconnect
	auth
)

var packetNames = [...]string{"?", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP",
	"SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"}

// packet is any MQTT packet; which fields count depends on its type. This is a
// codec of the tests' own, so that it shares no fault with the broker's.
type packet struct {
	version byte // 4 or 5
	kind    byte
	flags   byte

	id      uint16
	topic   string
	payload []byte
	codes   []byte // reason codes or granted QoS
	session bool   // CONNACK: session present
	props   []property

	connect *connectFields
	filters []filterOption
}

type connectFields struct {
	clientID  string
	clean     bool
	keepAlive uint16
	user      string
	password  string
	will      *packet // topic, payload, flags as of a PUBLISH, props
}

type filterOption struct {
	filter  string
	options byte
}

func (p *packet) qos() byte    { return p.flags >> 1 & 3 }
func (p *packet) retain() bool { return p.flags&1 != 0 }
func (p *packet) dup() bool    { return p.flags&8 != 0 }

// has tells whether a property is there.
func (p *packet) has(id byte) bool {
	return slices.ContainsFunc(p.props, func(p property) bool { return p.id == id })
}

func appendVarInt(b []byte, n int) []byte {
	for n >= 128 {
		b = append(b, byte(n)|128)
		n >>= 7
	}
	return append(b, byte(n))
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// encode is the packet on the wire.
func (p *packet) encode() []byte {
	flags := p.flags
	if p.kind == subscribe || p.kind == unsubscribe || p.kind == pubrel {
		flags = 2
	}
	body := p.body()
	return append(appendVarInt([]byte{p.kind<<4 | flags}, len(body)), body...)
}

func (p *packet) body() []byte {
	var b []byte
	switch p.kind {
	case connect:
		return p.connectBody()
	case publish:
		b = appendText(b, p.topic)
		if p.qos() > 0 {
			b = binary.BigEndian.AppendUint16(b, p.id)
		}
		return append(p.withProperties(b), p.payload...)
	case puback, pubrec, pubrel, pubcomp:
		b = binary.BigEndian.AppendUint16(b, p.id)
		if p.version == 5 && len(p.codes) > 0 {
			b = append(b, p.codes...)
		}
	case subscribe, unsubscribe:
		b = p.withProperties(binary.BigEndian.AppendUint16(b, p.id))
		for _, f := range p.filters {
			b = appendText(b, f.filter)
			if p.kind == subscribe {
				b = append(b, f.options)
			}
		}
	case disconnect:
		if p.version == 5 && len(p.codes) > 0 {
			b = p.withProperties(append(b, p.codes...))
		}
	}
	return b
}

func (p *packet) withProperties(b []byte) []byte {
	if p.version < 5 {
		return b
	}
	return appendProperties(b, p.props)
}

func (p *packet) connectBody() []byte {
	c := p.connect
	var flags byte
	if c.clean {
		flags |= 2
	}
	if w := c.will; w != nil {
		flags |= 4 | w.qos()<<3 | w.flags&1<<5
	}
	if c.password != "" {
		flags |= 0x40
	}
	if c.user != "" {
		flags |= 0x80
	}
	b := append(appendText(nil, "MQTT"), p.version, flags)
	b = p.withProperties(binary.BigEndian.AppendUint16(b, c.keepAlive))
	b = appendText(b, c.clientID)
	if w := c.will; w != nil {
		b = appendText(p.willProperties(b), w.topic)
		b = appendText(b, string(w.payload))
	}
	if c.user != "" {
		b = appendText(b, c.user)
	}
	if c.password != "" {
		b = appendText(b, c.password)
	}
	return b
}

func (p *packet) willProperties(b []byte) []byte {
	if p.version < 5 {
		return b
	}
	return appendProperties(b, p.connect.will.props)
}

// cursor reads a packet's body; the first fault sticks.
type cursor struct {
	b   []byte
	err error
}

func (r *cursor) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.b = nil
}

func (r *cursor) take(n int) []byte {
	if n > len(r.b) {
		r.fail("%d bytes wanted, %d left", n, len(r.b))
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *cursor) byte() byte     { return r.take(1)[0] }
func (r *cursor) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *cursor) text() string   { return string(r.take(int(r.uint16()))) }

func (r *cursor) varInt() int {
	n := 0
	for shift := 0; shift < 28; shift += 7 {
		c := r.byte()
		n |= int(c&127) << shift
		if c < 128 {
			return n
		}
	}
	r.fail("length of more than four bytes")
	return 0
}

// readPacket reads the next packet that the broker sends.
func readPacket(version byte, r *bufio.Reader) (*packet, error) {
	first, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	n, err := readLength(r)
	if err != nil {
		return nil, err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	p := &packet{version: version, kind: first >> 4, flags: first & 15}
	c := &cursor{b: body}
	p.read(c)
	if c.err == nil && len(c.b) > 0 {
		c.fail("%d bytes too many", len(c.b))
	}
	if c.err != nil {
		return p, fmt.Errorf("%s: %w", packetNames[p.kind], c.err)
	}
	return p, nil
}

func readLength(r *bufio.Reader) (int, error) {
	c := &cursor{}
	for range 4 {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if c.b = append(c.b, b); b < 128 {
			break
		}
	}
	n := c.varInt()
	return n, c.err
}

func (p *packet) read(c *cursor) {
	switch p.kind {
	case connack:
		p.session = c.byte()&1 != 0
		p.codes = c.take(1)
		p.readProperties(c)
	case publish:
		p.topic = c.text()
		if p.qos() > 0 {
			p.id = c.uint16()
		}
		p.readProperties(c)
		p.payload = c.take(len(c.b))
	case puback, pubrec, pubrel, pubcomp:
		p.id = c.uint16()
		p.readCode(c)
	case suback, unsuback:
		p.id = c.uint16()
		p.readProperties(c)
		p.codes = c.take(len(c.b))
	case disconnect, auth:
		p.readCode(c)
	case pingresp:
	default:
		c.fail("not a packet for clients")
	}
}

// readCode reads what may be left out when the reason is 0 (MQTT 5, 3.4.2).
func (p *packet) readCode(c *cursor) {
	if len(c.b) == 0 {
		p.codes = []byte{0}
		return
	}
	p.codes = c.take(1)
	if len(c.b) > 0 {
		p.readProperties(c)
	}
}

func (p *packet) readProperties(c *cursor) {
	if p.version == 5 {
		p.props = c.properties()
	}
}

// String is the packet as scripts show it.
func (p *packet) String() string {
	words := []string{packetNames[p.kind]}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch p.kind {
	case publish:
		add("topic=%s qos=%d", shown(p.topic), p.qos())
		if p.dup() {
			add("dup")
		}
		if p.retain() {
			add("retain")
		}
		add("payload=%q", p.payload)
	case connack:
		add("code=0x%02x session=%t", p.codes[0], p.session)
	case suback, unsuback:
		for _, code := range p.codes {
			add("code=0x%02x", code)
		}
	case puback, pubrec, pubrel, pubcomp, disconnect, auth:
		add("code=0x%02x", p.codes[0])
	}
	for _, prop := range p.props {
		words = append(words, prop.String())
	}
	return strings.Join(words, " ")
}
