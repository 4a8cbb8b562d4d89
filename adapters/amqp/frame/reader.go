package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"entrepot/routing"
)

const (
	// MaxNesting is how deep tables and arrays may stand in each other.
	MaxNesting = 32
	// MaxValues bounds the values of one payload's tables, nested ones counted.
	MaxValues = 16 << 10
)

// Reader takes fields off a payload. After one that does not fit it yields
// zero values, and End says so. Texts and bytes are parts of the payload unless
// a method says otherwise; tables keep no part of it.
type Reader struct {
	b      []byte
	values int
	fault  string
}

// NewReader reads a payload.
func NewReader(payload []byte) Reader { return Reader{b: payload} }

// End is the error of what did not fit, or of bytes that are left over. It
// wraps ErrSyntax.
func (r *Reader) End() error {
	if r.fault == "" && len(r.b) > 0 {
		r.fail("bytes after the last field")
	}
	if r.fault != "" {
		return fmt.Errorf("%w: %s", ErrSyntax, r.fault)
	}
	return nil
}

// Left is the bytes that are left.
func (r *Reader) Left() []byte { return r.b }

// Failed tells whether something did not fit so far.
func (r *Reader) Failed() bool { return r.fault != "" }

func (r *Reader) fail(fault string) {
	if r.fault == "" {
		r.fault = fault
	}
	r.b = nil
}

func (r *Reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("a field is longer than what carries it")
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Octet takes one byte.
func (r *Reader) Octet() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

// Bits takes an octet of up to eight bits, the first in its lowest.
func (r *Reader) Bits() byte { return r.Octet() }

// Short takes 16 bits.
func (r *Reader) Short() uint16 {
	if v := r.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

// Long takes 32 bits.
func (r *Reader) Long() uint32 {
	if v := r.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// LongLong takes 64 bits.
func (r *Reader) LongLong() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// ShortText takes up to 255 bytes of text.
func (r *Reader) ShortText() []byte { return r.take(uint64(r.Octet())) }

// LongText takes bytes behind a length of 32 bits.
func (r *Reader) LongText() []byte { return r.take(uint64(r.Long())) }

// Method takes the class and method that lead a method frame.
func (r *Reader) Method() Method { return Method(r.Long()) }

// Table takes a table with its length.
func (r *Reader) Table() routing.Headers { return r.table(0) }

// Rest takes all that is left as a table without a length, as the response of
// AMQPLAIN is.
func (r *Reader) Rest() routing.Headers { return r.pairs(0) }

func (r *Reader) table(depth int) routing.Headers {
	in := Reader{b: r.LongText(), values: r.values}
	list := in.pairs(depth)
	r.back(&in)
	return list
}

// back takes over what a nested reader has found.
func (r *Reader) back(in *Reader) {
	r.values = in.values
	if in.fault != "" {
		r.fail(in.fault)
	}
}

func (r *Reader) pairs(depth int) routing.Headers {
	if len(r.b) == 0 {
		return nil
	}
	list := make(routing.Headers, 0, min(8, len(r.b)/2))
	for len(r.b) > 0 {
		name := r.ShortText()
		value := r.value(depth)
		if r.fault != "" {
			return nil
		}
		list = append(list, routing.Header{Name: string(name), Value: value})
	}
	return list
}

func (r *Reader) array(depth int) []any {
	in := Reader{b: r.LongText(), values: r.values}
	list := []any{}
	for len(in.b) > 0 {
		list = append(list, in.value(depth))
	}
	r.back(&in)
	return list
}

// value takes a type letter and what follows. The letters are RabbitMQ's, not
// the published specification's, which no client follows: s is 16 bits, and
// both l and L are a signed number of 64 bits.
func (r *Reader) value(depth int) any {
	if r.values++; r.values > MaxValues {
		r.fail("too many values in a table")
		return nil
	}
	switch kind := r.Octet(); kind {
	case 'S':
		return string(r.LongText())
	case 'I':
		return int32(r.Long())
	case 'l', 'L':
		return int64(r.LongLong())
	case 't':
		return r.Octet() != 0
	case 'T':
		return time.Unix(int64(r.LongLong()), 0)
	case 'F', 'A':
		return r.nested(kind, depth+1)
	case 'V':
		return nil
	case 'x':
		return append([]byte{}, r.LongText()...)
	default:
		return r.number(kind)
	}
}

func (r *Reader) nested(kind byte, depth int) any {
	if depth > MaxNesting {
		r.fail("tables in tables, too deep")
		return nil
	}
	if kind == 'F' {
		return r.table(depth)
	}
	return r.array(depth)
}

func (r *Reader) number(kind byte) any {
	switch kind {
	case 'b':
		return int8(r.Octet())
	case 'B':
		return r.Octet()
	case 's':
		return int16(r.Short())
	case 'u':
		return r.Short()
	case 'i':
		return r.Long()
	case 'f':
		return math.Float32frombits(r.Long())
	case 'd':
		return math.Float64frombits(r.LongLong())
	case 'D':
		scale := r.Octet()
		return routing.Decimal{Scale: scale, Value: int32(r.Long())}
	}
	r.fail(fmt.Sprintf("a table holds a value of the unknown type %q", kind))
	return nil
}
