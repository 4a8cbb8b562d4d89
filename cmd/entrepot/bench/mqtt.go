package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MQTT control packet types, in the upper half of the first byte.
const (
	mqttConnect    = 0x10
	mqttConnack    = 0x20
	mqttPublish    = 0x30
	mqttPuback     = 0x40
	mqttPubrec     = 0x50
	mqttPubrel     = 0x62
	mqttPubcomp    = 0x70
	mqttSubscribe  = 0x82
	mqttSuback     = 0x90
	mqttPingresp   = 0xD0
	mqttDisconnect = 0xE0
)

const mqttRefusal = 0x80 // reason codes from here on are failures

var errMqttLength = errors.New("mqtt: a remaining length of more than four bytes")

// mqtt speaks MQTT 3.1.1 or 5 at one QoS.
type mqtt struct {
	endpoint
	o   *Options
	qos byte
	v5  bool
}

func newMqtt(e endpoint, o *Options) *mqtt {
	return &mqtt{endpoint: e, o: o, qos: byte(o.QoS), v5: o.MQTTVersion == "5"}
}

// mqttSize tells how long the packet at the start of b is, 0 when b does not
// hold all of it, and where its body begins.
func mqttSize(b []byte) (size, body int, err error) {
	length, shift := 0, 0
	for i := 1; i < len(b); i++ {
		length |= int(b[i]&0x7F) << shift
		if b[i] < 0x80 {
			if length > largestFrame {
				return 0, 0, errLarge
			}
			if size = i + 1 + length; size > len(b) {
				return 0, 0, nil
			}
			return size, i + 1, nil
		}
		if shift += 7; shift > 21 {
			return 0, 0, errMqttLength
		}
	}
	return 0, 0, nil
}

func mqttLength(to []byte, n int) []byte {
	for n >= 0x80 {
		to = append(to, byte(n)|0x80)
		n >>= 7
	}
	return append(to, byte(n))
}

func mqttString(to []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(s))), s...)
}

func (m *mqtt) packet(first byte, body []byte) []byte {
	return append(mqttLength([]byte{first}, len(body)), body...)
}

// properties appends an empty property list where the version has one.
func (m *mqtt) properties(to []byte) []byte {
	if m.v5 {
		to = append(to, 0)
	}
	return to
}

// await returns the next packet and where its body begins.
func (m *mqtt) await(l *link) (p []byte, body int, err error) {
	p, err = l.next(func(b []byte) (int, error) {
		n, _, err := mqttSize(b)
		return n, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("mqtt: %w", err)
	}
	_, body, err = mqttSize(p)
	return p, body, err
}

func (m *mqtt) greet(l *link, id string) error {
	level, flags := byte(4), byte(0x02) // clean session
	if m.v5 {
		level = 5
	}
	if m.login {
		flags |= 0x80
		if m.password != "" {
			flags |= 0x40
		}
	}
	body := append(mqttString(nil, "MQTT"), level, flags, 0, 0) // no keep-alive
	body = mqttString(m.properties(body), id)
	if m.login {
		body = mqttString(body, m.user)
		if m.password != "" {
			body = mqttString(body, m.password)
		}
	}
	if _, err := l.conn.Write(m.packet(mqttConnect, body)); err != nil {
		return closedAs(err)
	}
	p, at, err := m.await(l)
	if err != nil {
		return err
	}
	if p[0] != mqttConnack {
		return unexpected(p, at)
	}
	ack := p[at:]
	if len(ack) < 2 || ack[1] != 0 {
		return fmt.Errorf("mqtt: CONNECT refused: % X", ack)
	}
	l.farewell = m.packet(mqttDisconnect, nil)
	l.unacked = mostUnacked
	if m.v5 {
		l.unacked = min(mostUnacked, receiveMaximum(ack[2:]))
	}
	return nil
}

// receiveMaximum finds the property of that name among a CONNACK's properties
// ([MQTT-3.3.4-7]); 65,535 when there is none or it cannot be read.
func receiveMaximum(properties []byte) int {
	const none, wanted = 65_535, 0x21
	widths := map[byte]int{0x11: 4, 0x21: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x22: 2, 0x28: 1, 0x29: 1, 0x2A: 1, 0x13: 2}
	size, at, err := mqttSize(append([]byte{0}, properties...))
	if err != nil || size == 0 {
		return none
	}
	for p := properties[at-1 : size-1]; len(p) > 0; {
		width, fixed := widths[p[0]]
		if !fixed { // one string, or two of a user property
			width = stringWidth(p[1:], p[0] == 0x26)
		}
		if width <= 0 || len(p) < 1+width {
			return none
		}
		if p[0] == wanted {
			return int(binary.BigEndian.Uint16(p[1:]))
		}
		p = p[1+width:]
	}
	return none
}

func stringWidth(p []byte, pair bool) int {
	if len(p) < 2 {
		return 0
	}
	n := 2 + int(binary.BigEndian.Uint16(p))
	if !pair {
		return n
	}
	if len(p) < n+2 {
		return 0
	}
	return n + 2 + int(binary.BigEndian.Uint16(p[n:]))
}

func (m *mqtt) subscribe(s *subscriber, name string) error {
	l := s.link
	body := m.properties([]byte{0, 1})
	body = append(mqttString(body, m.o.mqttTopic(name)), m.qos)
	if _, err := l.conn.Write(m.packet(mqttSubscribe, body)); err != nil {
		return closedAs(err)
	}
	for {
		p, at, err := m.await(l)
		if err != nil {
			return err
		}
		if p[0] == mqttSuback {
			if len(p) < at+3 || p[len(p)-1] != m.qos {
				return fmt.Errorf("mqtt: SUBSCRIBE at QoS %d answered with % X", m.qos, p)
			}
			return nil
		}
		if err := m.incoming(s, p, at); err != nil {
			return err
		}
		if err := l.flush(); err != nil {
			return err
		}
	}
}

func (m *mqtt) frame(name string, size int) frame {
	topic := m.o.mqttTopic(name)
	head := mqttString(nil, topic)
	idAt := len(head)
	if m.qos > 0 {
		head = append(head, 0, 0)
	}
	head = m.properties(head)
	f := frame{bytes: mqttLength([]byte{mqttPublish | m.qos<<1}, len(head)+size)}
	if m.qos > 0 {
		f.packetID = len(f.bytes) + idAt
	}
	f.bytes = append(f.bytes, head...)
	f.payload = len(f.bytes)
	f.bytes = fill(f.bytes, size)
	return f
}

// deliveries counts PUBLISH packets into s and answers them.
func (m *mqtt) deliveries(s *subscriber) scanner {
	return func(b []byte) (int, error) {
		at := 0
		for {
			size, body, err := mqttSize(b[at:])
			if err == nil && size > 0 {
				err = m.incoming(s, b[at:at+size], body)
			}
			if err != nil || size == 0 {
				s.settle()
				return at, err
			}
			at += size
		}
	}
}

func (m *mqtt) incoming(s *subscriber, p []byte, body int) error {
	if p[0]&0xF0 != mqttPublish {
		return m.control(s.link, p, body)
	}
	if !m.delivered(s, p, body) {
		return errors.New("mqtt: a malformed PUBLISH")
	}
	return nil
}

// delivered takes one PUBLISH apart whose body begins at the given place. It
// tells whether it was well formed.
func (m *mqtt) delivered(s *subscriber, p []byte, at int) bool {
	if len(p) < at+2 {
		return false
	}
	at += 2 + int(binary.BigEndian.Uint16(p[at:]))
	if qos := p[0] >> 1 & 3; qos > 0 {
		if len(p) < at+2 {
			return false
		}
		answer := byte(mqttPuback)
		if qos == 2 {
			answer = mqttPubrec
		}
		s.link.out = append(s.link.out, answer, 2, p[at], p[at+1])
		at += 2
	}
	if m.v5 {
		if at >= len(p) {
			return false
		}
		skip := int(p[at])
		if skip >= 0x80 {
			size, body, err := mqttSize(p[at-1:])
			if err != nil || size == 0 {
				return false
			}
			skip, at = size-body, at+body-2
		}
		at += 1 + skip
	}
	if at > len(p) {
		return false
	}
	s.take(p[at:])
	return true
}

// control answers what a subscriber gets besides messages.
func (m *mqtt) control(l *link, p []byte, body int) error {
	switch p[0] & 0xF0 {
	case mqttPubrel & 0xF0:
		if len(p) < body+2 {
			return errors.New("mqtt: a malformed PUBREL")
		}
		l.out = append(l.out, mqttPubcomp, 2, p[body], p[body+1])
		return nil
	case mqttPingresp:
		return nil
	}
	return unexpected(p, body)
}

func unexpected(p []byte, body int) error {
	if p[0]&0xF0 == mqttDisconnect && len(p) > body {
		return fmt.Errorf("mqtt: DISCONNECT from the broker with reason 0x%02X", p[body])
	}
	return fmt.Errorf("mqtt: unexpected packet type %d", p[0]>>4)
}

// answers counts acknowledgements and carries QoS 2 on ([MQTT-4.3.3-1]).
func (m *mqtt) answers(l *link, a *answers) scanner {
	return func(b []byte) (int, error) {
		at := 0
		for {
			size, body, err := mqttSize(b[at:])
			if err != nil || size == 0 {
				a.settle()
				return at, err
			}
			if err := m.answered(l, a, b[at:at+size], body); err != nil {
				return at, err
			}
			at += size
		}
	}
}

func (m *mqtt) answered(l *link, a *answers, p []byte, body int) error {
	kind := p[0] & 0xF0
	switch kind {
	case mqttPuback, mqttPubrec, mqttPubcomp:
	case mqttPingresp:
		return nil
	default:
		return unexpected(p, body)
	}
	if len(p) < body+2 {
		return errors.New("mqtt: an acknowledgement without packet id")
	}
	refused := len(p) > body+2 && p[body+2] >= mqttRefusal
	if kind == mqttPubrec && !refused {
		l.out = append(l.out, mqttPubrel, 2, p[body], p[body+1])
		return nil
	}
	a.acked++
	if refused {
		a.refused++
	}
	return nil
}
