package wamp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/gammazero/nexus/v3/wamp"
)

// encoding is what a client's sub-protocol says of its messages.
type encoding struct {
	format
	name    string
	code    uint8 // an index
	text    bool
	batched bool
}

const encodings = 6

// encodingOf is the encoding of a sub-protocol's name; ok is false for others.
func encodingOf(name string) (encoding, bool) {
	switch name {
	case "wamp.2.json":
		return encoding{jsonFormat{}, name, 0, true, false}, true
	case "wamp.2.msgpack":
		return encoding{msgpackFormat{}, name, 1, false, false}, true
	case "wamp.2.cbor":
		return encoding{cborFormat{}, name, 2, false, false}, true
	case "wamp.2.json.batched":
		return encoding{jsonFormat{}, name, 3, true, true}, true
	case "wamp.2.msgpack.batched":
		return encoding{msgpackFormat{}, name, 4, false, true}, true
	case "wamp.2.cbor.batched":
		return encoding{cborFormat{}, name, 5, false, true}, true
	}
	return encoding{}, false
}

// Names are the sub-protocols that are WAMP, for adapters.Carried.
func Names() []string {
	return []string{"wamp.2.json", "wamp.2.msgpack", "wamp.2.cbor",
		"wamp.2.json.batched", "wamp.2.msgpack.batched", "wamp.2.cbor.batched"}
}

// same tells whether raw values pass from one to the other as they are.
func (e *encoding) same(code uint8) bool { return e.code%3 == code%3 }

// jsonSeparator ends a message of a batch in JSON.
const jsonSeparator = 0x1E

// cut takes the first message off a batch.
func (e *encoding) cut(b []byte) (message, rest []byte, err error) {
	if !e.batched {
		return b, nil, nil
	}
	if e.text {
		for i, c := range b {
			if c == jsonSeparator {
				return b[:i], b[i+1:], nil
			}
		}
		return b, nil, nil
	}
	if len(b) < 4 {
		return nil, nil, errShort
	}
	n := uint64(binary.BigEndian.Uint32(b))
	if n > uint64(len(b)-4) {
		return nil, nil, errShort
	}
	return b[4 : 4+n], b[4+n:], nil
}

// open begins a message to the client in a frame of its own: a list of n
// elements, the first its type. seal completes it.
func (e *encoding) open(dst []byte, t wamp.MessageType, n int) []byte {
	dst = openFrame(dst)
	if e.text {
		return strconv.AppendUint(append(dst, '['), uint64(t), 10)
	}
	if e.batched {
		dst = append(dst, 0, 0, 0, 0)
	}
	if e.code%3 == 1 {
		return msgpackFormat{}.uint(append(dst, 0x90|byte(n)), uint64(t))
	}
	return cbAppend(append(dst, cborList<<5|byte(n)), cborUint, uint64(t))
}

func (e *encoding) seal(dst []byte, at int) []byte {
	if e.text {
		dst = append(dst, ']')
		if e.batched {
			dst = append(dst, jsonSeparator)
		}
		return sealFrame(dst, at, opText)
	}
	if e.batched {
		binary.BigEndian.PutUint32(dst[at+2:], uint32(len(dst)-at-6))
	}
	return sealFrame(dst, at, opBinary)
}

// uint appends an element that is a number.
func (e *encoding) uint(dst []byte, n uint64) []byte {
	switch e.code % 3 {
	case 0:
		return strconv.AppendUint(append(dst, ','), n, 10)
	case 1:
		return msgpackFormat{}.uint(dst, n)
	}
	return cbAppend(dst, cborUint, n)
}

// raw appends an element that is encoded already.
func (e *encoding) raw(dst, raw []byte) []byte {
	if e.text {
		dst = append(dst, ',')
	}
	return append(dst, raw...)
}

// value appends an element.
func (e *encoding) value(dst []byte, v any) []byte {
	if e.text {
		dst = append(dst, ',')
	}
	return e.encode(dst, v)
}

// details appends a dict as an element.
func (e *encoding) details(dst []byte, d dict) []byte {
	if len(d) > 0 {
		return e.value(dst, d)
	}
	switch e.code % 3 {
	case 0:
		return append(dst, ",{}"...)
	case 1:
		return append(dst, 0x80)
	}
	return append(dst, 0xA0)
}

// message is one of a client's, its elements still encoded. It lives as long as
// the buffer that it was read from.
type message struct {
	kind     wamp.MessageType
	n        int // elements
	elements [8][]byte
}

var errForm = errors.New("malformed message")

// parse cuts a message into its elements.
func (e *encoding) parse(b []byte, m *message) error {
	n, err := e.elements(b, m.elements[:])
	if err != nil {
		return fmt.Errorf("%w: %w", errForm, err)
	}
	m.n = min(n, len(m.elements))
	kind, ok := e.number(m, 0)
	if !ok {
		return fmt.Errorf("%w: no message type", errForm)
	}
	m.kind = wamp.MessageType(kind)
	return nil
}

// number reads an element that is a whole number, not negative.
func (e *encoding) number(m *message, at int) (uint64, bool) {
	if at >= m.n {
		return 0, false
	}
	raw := m.elements[at]
	if e.text { // the hot form: digits
		if len(raw) == 0 || len(raw) > 18 || digits(raw, 0) != len(raw) {
			return whole(e.decode(raw))
		}
		n := uint64(0)
		for _, c := range raw {
			n = n*10 + uint64(c-'0')
		}
		return n, true
	}
	if raw[0] < 24 { // the same in both
		return uint64(raw[0]), true
	}
	return whole(e.decode(raw))
}

// id reads a request or other id (WAMP, Basic Profile, IDs).
func (e *encoding) id(m *message, at int) (uint64, error) {
	n, ok := e.number(m, at)
	if !ok || n == 0 || n > maxID {
		return 0, fmt.Errorf("%w: element %d is no id", errForm, at)
	}
	return n, nil
}

// uri reads an element that is a string; it lives as long as the message.
func (e *encoding) uri(m *message, at int, scratch []byte) ([]byte, error) {
	if at < m.n {
		if k, b := e.token(m.elements[at], scratch); k == textKind {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: element %d is no URI", errForm, at)
}

// dict reads an element that is a dict.
func (e *encoding) dict(m *message, at int) (dict, error) {
	if at < m.n {
		if e.isEmpty(m.elements[at]) || e.isNull(m.elements[at]) {
			return nil, nil
		}
		if k, _ := e.token(m.elements[at], nil); k == dictKind {
			d, _ := e.decode(m.elements[at]).(dict)
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: element %d is no dict", errForm, at)
}

// isEmpty tells a dict without entries.
func (e *encoding) isEmpty(raw []byte) bool {
	switch e.code % 3 {
	case 0:
		return len(raw) == 2 && raw[0] == '{'
	case 1:
		return len(raw) == 1 && raw[0] == 0x80
	}
	return len(raw) == 1 && raw[0] == 0xA0
}

// isNull tells null.
func (e *encoding) isNull(raw []byte) bool {
	switch e.code % 3 {
	case 0:
		return raw[0] == 'n'
	case 1:
		return raw[0] == 0xC0
	}
	return raw[0] == 0xF6 || raw[0] == 0xF7
}

// opening reads an id and options, from element at on.
func (e *encoding) opening(m *message, at int) (id uint64, options dict, err error) {
	if id, err = e.id(m, at); err != nil {
		return 0, nil, err
	}
	options, err = e.dict(m, at+1)
	return id, options, err
}

// request is opening with a URI behind, as most requests have it. The URI is
// good until the message is.
func (e *encoding) request(m *message, at int) (id uint64, options dict, uri []byte, err error) {
	if id, options, err = e.opening(m, at); err != nil {
		return 0, nil, nil, err
	}
	uri, err = e.uri(m, at+2, nil)
	return id, options, uri, err
}

// payload reads the arguments that a message ends with.
func (e *encoding) payload(m *message, at int) (arguments, error) {
	a := arguments{code: e.code}
	// Some clients write null where there is none.
	if at < m.n && !e.isNull(m.elements[at]) {
		if k, _ := e.token(m.elements[at], nil); k != listKind {
			return a, fmt.Errorf("%w: arguments are no list", errForm)
		}
		a.args = m.elements[at]
	}
	if at+1 < m.n && !e.isNull(m.elements[at+1]) {
		if k, _ := e.token(m.elements[at+1], nil); k != dictKind {
			return a, fmt.Errorf("%w: keyword arguments are no dict", errForm)
		}
		if a.kwargs = m.elements[at+1]; e.isEmpty(a.kwargs) {
			a.kwargs = nil
		}
	}
	return a, nil
}
