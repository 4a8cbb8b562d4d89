package coap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// Lengths of a frame that have a form of their own (RFC 8323, 3.2).
const (
	length8  = 13
	length16 = 269
	length32 = 65805
)

// maxFrameHeader is the longest beginning of a frame, before options.
const maxFrameHeader = 1 + 4 + 1 + maxToken

// errFrame is a frame that cannot be read; the stream is lost.
var errFrame = errors.New("malformed frame")

// frameHeader is where a frame's parts are.
type frameHeader struct {
	tokenAt int // behind the code
	tokens  int
	bodyAt  int
	size    uint64 // of the whole frame
}

// readFrameHeader reads the beginning of a frame; ok is false when it is not all
// there. An error means that no more will follow that can be read.
func readFrameHeader(b []byte) (h frameHeader, ok bool, err error) {
	if len(b) == 0 {
		return h, false, nil
	}
	h.tokens = int(b[0] & 15)
	if h.tokens > maxToken {
		return h, false, fmt.Errorf("%w: a token of %d bytes", errFrame, h.tokens)
	}
	length := uint64(b[0] >> 4)
	extended := [16]int{13: 1, 14: 2, 15: 4}[length]
	h.tokenAt = 1 + extended + 1
	h.bodyAt = h.tokenAt + h.tokens
	if len(b) < 1+extended {
		return h, false, nil
	}
	switch rest := b[1:]; length {
	case 13:
		length = length8 + uint64(rest[0])
	case 14:
		length = length16 + uint64(binary.BigEndian.Uint16(rest))
	case 15:
		length = length32 + uint64(binary.BigEndian.Uint32(rest))
	}
	h.size = uint64(h.bodyAt) + length
	return h, true, nil
}

// decodeFrame reads a frame that is all there.
func (p *packet) decodeFrame(b []byte, h frameHeader) error {
	p.kind, p.id = 0, 0
	p.code = codes.Code(b[h.tokenAt-1])
	p.token = makeToken(b[h.tokenAt:h.bodyAt])
	p.options, p.payload = p.options[:0], nil
	return p.decodeBody(b[h.bodyAt:])
}

// appendFrame writes a message as a frame, but for its payload, which may be
// large.
func (p *outgoingPacket) appendFrame(b []byte) []byte {
	head := len(b)
	b = append(b, make([]byte, maxFrameHeader)...)
	body := len(b)
	b = p.appendOptions(b)
	length := len(b) - body
	if len(p.payload) > 0 {
		b = append(b, 0xff)
		length += 1 + len(p.payload)
	}
	options := b[body:]
	b = appendFrameLength(b[:head], length, p.token.n)
	b = append(append(b, byte(p.code)), p.token.bytes()...)
	return append(b, options...)
}

func appendFrameLength(b []byte, n int, tokens uint8) []byte {
	switch {
	case n < length8:
		return append(b, byte(n)<<4|tokens)
	case n < length16:
		return append(b, 13<<4|tokens, byte(n-length8))
	case n < length32:
		return binary.BigEndian.AppendUint16(append(b, 14<<4|tokens), uint16(n-length16))
	}
	return binary.BigEndian.AppendUint32(append(b, 15<<4|tokens), uint32(n-length32))
}
