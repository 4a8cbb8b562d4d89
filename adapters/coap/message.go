package coap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

const (
	headerSize = 4
	maxToken   = 8
	// maxOptions bounds the options of one message: 128 levels, and the rest.
	maxOptions = 192
)

// errMalformed is a message format error (RFC 7252, 4.2).
var errMalformed = errors.New("malformed message")

// token is a request's token; it compares.
type token struct {
	n uint8
	b [maxToken]byte
}

func makeToken(b []byte) token {
	t := token{n: uint8(len(b))}
	copy(t.b[:], b)
	return t
}

func (t *token) bytes() []byte { return t.b[:t.n] }

// packet is one message as it came; options and payload lie in the bytes that
// it was decoded from.
type packet struct {
	kind    message.Type
	code    codes.Code
	id      uint16
	token   token
	options message.Options
	payload []byte
	body    []byte // both, as they came
}

// decode reads a datagram. An error that wraps errMalformed leaves kind, code
// and id set; any other is not CoAP at all.
func (p *packet) decode(b []byte) error {
	if len(b) < headerSize || b[0]>>6 != 1 {
		return errors.New("not CoAP version 1")
	}
	p.kind, p.code, p.id = message.Type(b[0]>>4&3), codes.Code(b[1]), binary.BigEndian.Uint16(b[2:])
	p.token, p.options, p.payload = token{}, p.options[:0], nil
	n := int(b[0] & 15)
	if p.code == codes.Empty && len(b) > headerSize || n > maxToken || len(b) < headerSize+n {
		return errMalformed
	}
	p.token = makeToken(b[headerSize : headerSize+n])
	return p.decodeBody(b[headerSize+n:])
}

// decodeBody reads options and payload.
func (p *packet) decodeBody(b []byte) error {
	p.body = b
	if cap(p.options) < maxOptions {
		p.options = make(message.Options, 0, maxOptions)
	}
	n, err := p.options.Unmarshal(b, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	if n < len(b) {
		p.payload = b[n:]
	}
	return nil
}

// outgoingPacket is a message to be sent.
type outgoingPacket struct {
	kind    message.Type
	code    codes.Code
	id      uint16
	token   token
	options message.Options // in the order of their numbers
	payload []byte
}

// append writes a datagram.
func (p *outgoingPacket) append(b []byte) []byte {
	b = append(b, 1<<6|byte(p.kind)<<4|p.token.n, byte(p.code), byte(p.id>>8), byte(p.id))
	b = append(b, p.token.bytes()...)
	return p.appendBody(b)
}

// appendBody writes options and payload.
func (p *outgoingPacket) appendBody(b []byte) []byte {
	b = p.appendOptions(b)
	if len(p.payload) > 0 {
		b = append(append(b, 0xff), p.payload...)
	}
	return b
}

func (p *outgoingPacket) appendOptions(b []byte) []byte {
	size := 0
	for _, o := range p.options {
		size += 5 + len(o.Value)
	}
	have := len(b)
	b = append(b, make([]byte, size)...)
	n, err := p.options.Marshal(b[have:])
	if err != nil { // none fits better than options that are out of order
		n = 0
	}
	return b[:have+n]
}

// appendEmpty writes an acknowledgement or reset without anything in it.
func appendEmpty(b []byte, kind message.Type, id uint16) []byte {
	return append(b, 1<<6|byte(kind)<<4, 0, byte(id>>8), byte(id))
}

// uintOf reads an option's number, at most 4 bytes.
func uintOf(b []byte) uint32 {
	n := uint32(0)
	for _, c := range b {
		n = n<<8 | uint32(c)
	}
	return n
}

// uintBytes is a number as an option's value: no leading zeroes.
func uintBytes(n uint32) []byte {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	i := 0
	for i < 4 && b[i] == 0 {
		i++
	}
	return append([]byte(nil), b[i:]...)
}
