package wamp

import (
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"
)

// Opcodes of WebSocket frames (RFC 6455, 11.8).
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// Close codes (RFC 6455, 7.4.1).
const (
	closeNormal      = 1000
	closeGoingAway   = 1001
	closeProtocol    = 1002
	closeUnsupported = 1003
	closePayload     = 1007
	closePolicy      = 1008
	closeTooBig      = 1009
)

// What frames may cost beside the data in them: each byte of data pays for
// overheadShare bytes; beyond that there are overheadRate bytes a second, and
// overheadBurst at once.
const (
	overheadShare = 16
	overheadRate  = 16 << 10
	overheadBurst = 128 << 10
)

// frameFault is what is wrong with a client's frames.
type frameFault struct {
	code int
	text string
}

func (f *frameFault) Error() string {
	return fmt.Sprintf("websocket: %s (close code %d)", f.text, f.code)
}

// frame is one frame, or a message put together.
type frame struct {
	op   byte
	data []byte // unmasked in place
}

// frames reads a client's frames. Messages come whole; control frames may stand
// between the frames of one.
type frames struct {
	most int // bytes of a message
	text bool

	message  []byte // of a message in several frames
	op       byte   // of it; 0 between messages
	overhead int
	paidAt   time.Time
}

// next takes the frame at the front of b; used is 0 when it is not whole. done is
// false for a part of a message.
func (r *frames) next(b []byte) (f frame, used int, done bool, err error) {
	if len(b) < 2 {
		return f, 0, false, nil
	}
	head := frameHead(b[1])
	if err := r.check(b[0], b[1]); err != nil {
		return f, 0, false, err
	}
	if len(b) < head {
		return f, 0, false, nil
	}
	size := frameSize(b)
	if size > uint64(r.most-len(r.message)) && b[0]&8 == 0 {
		return f, 0, false, &frameFault{closeTooBig, fmt.Sprintf("a message of more than %d bytes", r.most)}
	}
	end := head + int(size)
	if len(b) < end {
		return f, 0, false, nil
	}
	f = frame{b[0] & 15, b[head:end]}
	unmask(f.data, b[head-4:head])
	if err := r.pay(f.op, end, int(size)); err != nil {
		return f, 0, false, err
	}
	if f.op >= opClose {
		return f, end, true, nil
	}
	f, done = r.join(f, b[0]&0x80 != 0)
	if done && r.text && !utf8.Valid(f.data) {
		return f, 0, false, &frameFault{closePayload, "a text message is not UTF-8"}
	}
	return f, end, done, nil
}

// check looks at the first two bytes of a frame.
func (r *frames) check(first, second byte) error {
	op, fault := first&15, ""
	switch {
	case first&0x70 != 0:
		fault = "reserved bits are set"
	case second&0x80 == 0:
		fault = "a frame is not masked"
	case op > opPong || op > opBinary && op < opClose:
		fault = "unknown opcode"
	case op >= opClose:
		return checkControl(first, second)
	case op == opContinuation && r.op == 0:
		fault = "a continuation of nothing"
	case op != opContinuation && r.op != 0:
		fault = "a message begins within another"
	case op != opContinuation && (op == opText) != r.text:
		return &frameFault{closeUnsupported, "text and binary messages are not what the sub-protocol says"}
	default:
		return nil
	}
	return &frameFault{closeProtocol, fault}
}

func checkControl(first, second byte) error {
	if first&0x80 == 0 || second&0x7F > 125 {
		return &frameFault{closeProtocol, "a control frame is in parts or too long"}
	}
	return nil
}

// join puts the frames of a message together.
func (r *frames) join(f frame, fin bool) (frame, bool) {
	if fin && r.op == 0 {
		return f, true
	}
	if r.op == 0 {
		r.op = f.op
	}
	r.message = append(r.message, f.data...)
	if !fin {
		return frame{}, false
	}
	f = frame{r.op, r.message}
	r.op, r.message = 0, nil
	return f, true
}

// pay refuses ping storms and messages in tiny parts.
func (r *frames) pay(op byte, all, data int) error {
	if op >= opClose {
		data = 0
	}
	r.overhead = max(0, r.overhead+all-(overheadShare+1)*data)
	if r.overhead <= overheadBurst {
		return nil
	}
	now := time.Now()
	r.overhead -= int(min(now.Sub(r.paidAt).Seconds()*overheadRate, overheadBurst))
	if r.paidAt = now; r.overhead > overheadBurst {
		return &frameFault{closePolicy, "too many frames for what is in them"}
	}
	return nil
}

// frameHead is the length of a client's frame header.
func frameHead(second byte) int {
	switch second & 0x7F {
	case 126:
		return 2 + 2 + 4
	case 127:
		return 2 + 8 + 4
	}
	return 2 + 4
}

func frameSize(b []byte) uint64 {
	switch n := b[1] & 0x7F; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(b[2:]))
	case 127:
		return binary.BigEndian.Uint64(b[2:])
	default:
		return uint64(n)
	}
}

// unmask undoes the client's masking (RFC 6455, 5.3).
func unmask(b, key []byte) {
	k := uint64(binary.LittleEndian.Uint32(key))
	k |= k << 32
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^k)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= key[i&3]
	}
}

// openFrame begins a frame of ours: sealFrame completes it when its data stands
// behind what openFrame returned.
func openFrame(dst []byte) []byte { return append(dst, 0, 0) }

// sealFrame writes the header of the frame that begins at dst[at].
func sealFrame(dst []byte, at int, op byte) []byte {
	n := len(dst) - at - 2
	switch {
	case n <= 125:
		dst[at+1] = byte(n)
	case n <= 0xFFFF:
		dst = append(dst, 0, 0)
		copy(dst[at+4:], dst[at+2:len(dst)-2])
		dst[at+1] = 126
		binary.BigEndian.PutUint16(dst[at+2:], uint16(n))
	default:
		dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
		copy(dst[at+10:], dst[at+2:len(dst)-8])
		dst[at+1] = 127
		binary.BigEndian.PutUint64(dst[at+2:], uint64(n))
	}
	dst[at] = 0x80 | op
	return dst
}

// appendControl appends a control frame; data over 125 bytes is cut.
func appendControl(dst []byte, op byte, data []byte) []byte {
	data = data[:min(len(data), 125)]
	return append(append(dst, 0x80|op, byte(len(data))), data...)
}

// appendClose appends a close frame.
func appendClose(dst []byte, code int) []byte {
	return append(dst, 0x80|opClose, 2, byte(code>>8), byte(code))
}

// closeFault checks the data of a client's close frame (RFC 6455, 5.5.1, 7.4).
func closeFault(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) == 1 || !utf8.Valid(data[2:]) {
		return &frameFault{closeProtocol, "a malformed close frame"}
	}
	switch code := binary.BigEndian.Uint16(data); {
	case code >= 3000 && code < 5000, code >= 1000 && code <= 1014 && (code < 1004 || code > 1006):
		return nil
	}
	return &frameFault{closeProtocol, "a close code that does not exist"}
}
