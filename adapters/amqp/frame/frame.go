package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kinds of frames (AMQP 0-9-1, 2.3.5).
const (
	MethodKind    = 1
	HeaderKind    = 2
	BodyKind      = 3
	HeartbeatKind = 8
)

const (
	// MinMax is the least frame size that a peer may ask for.
	MinMax = 4096
	// Overhead is what a frame has beside its payload; frame sizes count it.
	Overhead = headSize + 1

	headSize = 7
	endOctet = 0xCE
)

// What a peer sent that is no frame, or no sound payload. Errors wrap one.
var (
	ErrFrame  = errors.New("malformed frame")
	ErrSyntax = errors.New("malformed field")
)

// Frame is one frame; Payload is a part of the buffer that it was read from.
type Frame struct {
	Kind    byte
	Channel uint16
	Payload []byte
}

// Next takes the frame off the front of b; n is what it takes there, 0 when it
// has not all come yet. A frame of more than limit bytes, or one without the
// octet that ends it, is an error that wraps ErrFrame, the former as soon as
// its size has come.
func Next(b []byte, limit int) (f Frame, n int, err error) {
	if len(b) < headSize {
		return f, 0, nil
	}
	size := binary.BigEndian.Uint32(b[3:])
	if uint64(size)+Overhead > uint64(limit) {
		return f, 0, fmt.Errorf("%w: %d bytes, limit %d", ErrFrame, uint64(size)+Overhead, limit)
	}
	n = int(size) + Overhead
	if len(b) < n {
		return f, 0, nil
	}
	if b[n-1] != endOctet {
		return f, 0, fmt.Errorf("%w: it does not end with 0xCE", ErrFrame)
	}
	f.Kind, f.Channel, f.Payload = b[0], binary.BigEndian.Uint16(b[1:]), b[headSize:n-1]
	return f, n, nil
}

// Begin appends the beginning of a method frame; the method's fields follow,
// then End.
func Begin(b []byte, channel uint16, m Method) []byte {
	b = append(b, MethodKind, byte(channel>>8), byte(channel), 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, uint32(m))
}

// End appends the end of the frame that began at b[start:].
func End(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+3:], uint32(len(b)-start-headSize))
	return append(b, endOctet)
}

// AppendEmpty appends a whole frame of a method without fields.
func AppendEmpty(b []byte, channel uint16, m Method) []byte {
	return End(Begin(b, channel, m), len(b))
}

// AppendHeartbeat appends a heartbeat (AMQP 0-9-1, 4.2.7).
func AppendHeartbeat(b []byte) []byte {
	return append(b, HeartbeatKind, 0, 0, 0, 0, 0, 0, endOctet)
}

// BeginHeader appends the beginning of a content header (AMQP 0-9-1, 2.3.5.2)
// for a body of size bytes; the properties that flags says follow, then End.
func BeginHeader(b []byte, channel uint16, size int, flags uint16) []byte {
	b = append(b, HeaderKind, byte(channel>>8), byte(channel), 0, 0, 0, 0, 0, basicClass, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(size))
	return append(b, byte(flags>>8), byte(flags))
}

// BeginBody appends what stands before n bytes of a body in one frame, and
// EndBody what stands after them.
func BeginBody(b []byte, channel uint16, n int) []byte {
	b = append(b, BodyKind, byte(channel>>8), byte(channel))
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// EndBody ends a frame that BeginBody began.
func EndBody(b []byte) []byte { return append(b, endOctet) }

// ProtocolHeader is what a client begins with (AMQP 0-9-1, 4.2.2), and what a
// server answers that speaks nothing else.
const ProtocolHeader = "AMQP\x00\x00\x09\x01"

// ContentHeader is the fixed part of a content header frame.
type ContentHeader struct {
	Class uint16
	Size  uint64 // of the body
	Flags uint16 // which properties follow
}

// ReadContentHeader takes the fixed part off a header frame's payload; r is at
// the properties then.
func ReadContentHeader(r *Reader) ContentHeader {
	h := ContentHeader{Class: r.Short()}
	r.Short() // weight
	h.Size, h.Flags = r.LongLong(), r.Short()
	return h
}
