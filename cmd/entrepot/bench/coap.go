package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Of CoAP, what the tool needs (RFC 7252, 3; RFC 7641, 2).
const (
	coapConfirmable    = 0
	coapNonConfirmable = 1
	coapAcknowledgment = 2

	coapGet     = 1
	coapPut     = 3
	coapContent = 2<<5 | 5

	coapObserve = 6
	coapURIPath = 11

	coapHead      = 8 // with the token of four bytes that all requests here have
	coapDatagram  = 2048
	coapAnswerIn  = 2 * time.Second // ACK_TIMEOUT
	coapTries     = 5               // MAX_RETRANSMIT, and the first
	idsOfASocket  = 60_000          // each is the message's for EXCHANGE_LIFETIME, 247 s
	mostInAPacket = 1024
)

// coapMessage is what the tool reads of a message.
type coapMessage struct {
	kind, code byte
	id         uint16
	token      uint32
	observed   bool // it has an Observe option
	payload    []byte
}

// coapRequest writes a confirmable request, with id and token 0 and room for
// the payload at its end.
func coapRequest(method byte, path []string, observe bool, size int) []byte {
	b := []byte{1<<6 | coapConfirmable<<4 | 4, method, 0, 0, 0, 0, 0, 0}
	last := 0
	option := func(number int, value string) {
		b = append(b, byte(number-last)<<4|byte(min(len(value), 13)))
		if len(value) >= 13 {
			b = append(b, byte(len(value)-13))
		}
		b, last = append(b, value...), number
	}
	if observe {
		option(coapObserve, "")
	}
	for _, level := range path {
		option(coapURIPath, level)
	}
	if size > 0 {
		b = append(b, 0xFF)
		b = append(b, strings.Repeat("x", size)...)
	}
	return b
}

// name gives a request its id and token.
func name(b []byte, id uint16, token uint32) {
	binary.BigEndian.PutUint16(b[2:], id)
	binary.BigEndian.PutUint32(b[4:], token)
}

// coapEmpty is the acknowledgement of a message.
func coapEmpty(id uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{1<<6 | coapAcknowledgment<<4, 0}, id)
}

var errCoap = errors.New("a datagram that is no CoAP message")

// read reads a message; its payload lies in b.
func (m *coapMessage) read(b []byte) error {
	if len(b) < 4 || b[0]>>6 != 1 || len(b) < 4+int(b[0]&15) {
		return errCoap
	}
	*m = coapMessage{kind: b[0] >> 4 & 3, code: b[1], id: binary.BigEndian.Uint16(b[2:])}
	n := int(b[0] & 15)
	if n == 4 {
		m.token = binary.BigEndian.Uint32(b[4:])
	}
	b = b[4+n:]
	number := 0
	for len(b) > 0 && b[0] != 0xFF {
		var delta, size int
		var ok bool
		if delta, size, b, ok = coapOption(b); !ok || size > len(b) {
			return errCoap
		}
		number += delta
		m.observed = m.observed || number == coapObserve
		b = b[size:]
	}
	if len(b) > 0 {
		m.payload = b[1:]
	}
	return nil
}

// coapOption reads the head of an option.
func coapOption(b []byte) (delta, size int, rest []byte, ok bool) {
	delta, size, rest = int(b[0]>>4), int(b[0]&15), b[1:]
	for _, n := range []*int{&delta, &size} {
		more := max(*n-12, 0) // 13 has one byte more, 14 has two
		if more > 2 || len(rest) < more {
			return 0, 0, nil, false
		}
		switch more {
		case 1:
			*n = 13 + int(rest[0])
		case 2:
			*n = 269 + int(binary.BigEndian.Uint16(rest))
		}
		rest = rest[more:]
	}
	return delta, size, rest, true
}

// says tells what a code is, as 4.04.
func says(code byte) string { return fmt.Sprintf("%d.%02d", code>>5, code&31) }

// done tells that a request succeeded.
func done(code byte) bool { return code>>5 == 2 }

// resource is the path of the i-th resource of a run.
func (e endpoint) resource(i int) []string {
	return append(strings.Split(strings.Trim(e.path, "/"), "/"), strconv.Itoa(i))
}

// datagrams opens a socket that is connected to the server: a device of its own
// address and port.
func (e endpoint) datagrams(ctx context.Context) (net.Conn, error) {
	if e.tls != nil {
		return e.secureDatagrams(ctx)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", e.address)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", e.address, err)
	}
	return conn, nil
}

// ask sends a request and waits for its answer; it sends it again as RFC 7252,
// 4.2, has it. b is what the answer is read into.
func ask(conn net.Conn, request []byte, m *coapMessage, b []byte) (tries int, err error) {
	a := question{id: binary.BigEndian.Uint16(request[2:]), token: binary.BigEndian.Uint32(request[4:])}
	for wait := coapAnswerIn; tries < coapTries; wait *= 2 {
		tries++
		if !a.acknowledged {
			if _, err := conn.Write(request); err != nil {
				return tries, fmt.Errorf("connection: %w", err)
			}
		}
		conn.SetReadDeadline(time.Now().Add(wait))
		if err := a.hear(conn, m, b); !isTimeout(err) {
			return tries, err
		}
	}
	return tries, errUnanswered
}

// question is a request that waits for its answer.
type question struct {
	id           uint16
	token        uint32
	acknowledged bool
}

// hear reads until the answer comes.
func (q *question) hear(conn net.Conn, m *coapMessage, b []byte) error {
	for {
		n, err := conn.Read(b)
		if err == nil {
			err = m.read(b[:n])
		}
		if err != nil {
			return fmt.Errorf("connection: %w", err)
		}
		switch {
		case m.kind == coapAcknowledgment && m.id == q.id && m.code == 0:
			q.acknowledged = true
		case m.kind == coapAcknowledgment && m.id == q.id:
			return nil
		case m.code != 0 && m.token == q.token && q.acknowledged: // the answer in a message of its own
			if m.kind == coapConfirmable {
				conn.Write(coapEmpty(m.id))
			}
			return nil
		}
	}
}

var errUnanswered = errors.New("no answer")

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
