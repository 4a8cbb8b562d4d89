package wamp

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// msgpackFormat is MessagePack. What an extension type stands for nobody knows
// here: it passes as it is to others who speak MessagePack, and as binary to the
// rest.
type msgpackFormat struct{}

// mpHead is the head of a value: what it is, how long the head is, and the bytes
// of a string, binary or extension, or the entries of a list or dict, that follow.
type mpHead struct {
	kind  kind
	size  int
	bytes int
	count int
}

// head reads it; the error is errShort or errBad.
func (msgpackFormat) head(b []byte) (mpHead, error) {
	if len(b) == 0 {
		return mpHead{}, errShort
	}
	switch c := b[0]; {
	case c < 0x80:
		return mpHead{kind: wholeKind, size: 1}, nil
	case c < 0x90:
		return mpHead{kind: dictKind, size: 1, count: int(c & 15)}, nil
	case c < 0xA0:
		return mpHead{kind: listKind, size: 1, count: int(c & 15)}, nil
	case c < 0xC0:
		return mpHead{kind: textKind, size: 1, bytes: int(c & 31)}, nil
	case c >= 0xE0:
		return mpHead{size: 1}, nil
	case c == 0xC1:
		return mpHead{}, errBad
	}
	return mpLong(b)
}

// mpLong reads heads that say their length in bytes of their own, and numbers.
func mpLong(b []byte) (h mpHead, err error) {
	switch c := b[0]; c {
	case 0xC0, 0xC2, 0xC3:
		return mpHead{size: 1}, nil
	case 0xC4, 0xC5, 0xC6:
		h, err = mpSized(b, 1<<(c-0xC4))
		h.kind = binaryKind
	case 0xC7, 0xC8, 0xC9:
		h, err = mpSized(b, 1<<(c-0xC7))
		h.size++ // the type
	case 0xCA, 0xCB:
		h.size = 1 + 4<<(c-0xCA)
	case 0xCC, 0xCD, 0xCE, 0xCF:
		h.kind, h.size = wholeKind, 1+1<<(c-0xCC)
	case 0xD0, 0xD1, 0xD2, 0xD3:
		h.size = 1 + 1<<(c-0xD0)
	case 0xD4, 0xD5, 0xD6, 0xD7, 0xD8:
		h.size, h.bytes = 2, 1<<(c-0xD4)
	case 0xD9, 0xDA, 0xDB:
		h, err = mpSized(b, 1<<(c-0xD9))
		h.kind = textKind
	case 0xDC, 0xDD:
		h, err = mpSized(b, 2<<(c-0xDC))
		h.kind, h.count, h.bytes = listKind, h.bytes, 0
	case 0xDE, 0xDF:
		h, err = mpSized(b, 2<<(c-0xDE))
		h.kind, h.count, h.bytes = dictKind, h.bytes, 0
	}
	return h, err
}

// mpSized reads a length of n bytes.
func mpSized(b []byte, n int) (mpHead, error) {
	if len(b) < 1+n {
		return mpHead{}, errShort
	}
	return mpHead{size: 1 + n, bytes: int(bigEndian(b[1 : 1+n]))}, nil
}

func bigEndian(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

// skip implements format.
func (f msgpackFormat) skip(b []byte, depth int) (int, error) {
	h, err := f.head(b)
	if err != nil {
		return 0, err
	}
	if h.size > len(b) || h.bytes > len(b)-h.size {
		return 0, errShort
	}
	at := h.size + h.bytes
	if h.kind == textKind && !utf8.Valid(b[h.size:at]) {
		return 0, errText
	}
	n := h.count
	if h.kind == dictKind {
		n *= 2
	}
	if n == 0 {
		return at, nil
	}
	if depth >= maxDepth {
		return 0, errDeep
	}
	if n > len(b)-at { // a value has a byte at least
		return 0, errShort
	}
	for range n {
		size, err := f.skip(b[at:], depth+1)
		if err != nil {
			return 0, err
		}
		at += size
	}
	return at, nil
}

// elements implements format.
func (f msgpackFormat) elements(b []byte, into [][]byte) (int, error) {
	h, err := f.head(b)
	if err != nil {
		return 0, err
	}
	if h.kind != listKind {
		return 0, errNoList
	}
	at := h.size
	for i := range h.count {
		size, err := f.skip(b[min(at, len(b)):], 1)
		if err != nil {
			return 0, err
		}
		if i < len(into) {
			into[i] = b[at : at+size]
		}
		at += size
	}
	return h.count, rest(b, at)
}

// token implements format.
func (f msgpackFormat) token(raw, _ []byte) (kind, []byte) {
	h, _ := f.head(raw)
	if h.kind == textKind || h.kind == binaryKind {
		return h.kind, raw[h.size : h.size+h.bytes]
	}
	return h.kind, nil
}

// decode implements format.
func (f msgpackFormat) decode(raw []byte) any {
	v, _ := f.read(raw)
	return v
}

func (f msgpackFormat) read(b []byte) (any, int) {
	h, _ := f.head(b)
	at := h.size
	switch h.kind {
	case textKind:
		return string(b[at : at+h.bytes]), at + h.bytes
	case binaryKind:
		return append([]byte{}, b[at:at+h.bytes]...), at + h.bytes
	case listKind:
		all := make(list, 0, min(h.count, len(b)))
		for range h.count {
			v, n := f.read(b[at:])
			all, at = append(all, v), at+n
		}
		return all, at
	case dictKind:
		all := make(dict, 0, min(h.count, len(b)))
		for range h.count {
			k, n := f.read(b[at:])
			v, m := f.read(b[at+n:])
			all, at = append(all, member{keyText(k), v}), at+n+m
		}
		return all, at
	}
	if h.bytes > 0 || b[0] >= 0xC7 && b[0] <= 0xC9 { // an extension
		return append([]byte{}, b[at:at+h.bytes]...), at + h.bytes
	}
	return mpScalar(b[:at]), at
}

func mpScalar(b []byte) any {
	switch c := b[0]; {
	case c < 0x80:
		return int64(c)
	case c >= 0xE0:
		return int64(int8(c))
	case c == 0xC2 || c == 0xC3:
		return c == 0xC3
	case c == 0xCA:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b[1:])))
	case c == 0xCB:
		return math.Float64frombits(binary.BigEndian.Uint64(b[1:]))
	case c >= 0xCC && c <= 0xCF:
		return fromUint(bigEndian(b[1:]))
	case c >= 0xD0 && c <= 0xD3:
		shift := 64 - 8*(len(b)-1)
		return int64(bigEndian(b[1:])) << shift >> shift
	}
	return nil
}

// fromUint is n as int64 where it fits.
func fromUint(n uint64) any {
	if n > math.MaxInt64 {
		return n
	}
	return int64(n)
}

// encode implements format.
func (f msgpackFormat) encode(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, 0xC3)
		}
		return append(dst, 0xC2)
	case int64:
		return f.int(dst, v)
	case uint64:
		return f.uint(dst, v)
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, 0xCB), math.Float64bits(v))
	case string:
		return append(f.textHead(dst, len(v)), v...)
	case []byte:
		return append(f.binaryHead(dst, len(v)), v...)
	case list:
		dst = f.listHead(dst, len(v))
		for _, e := range v {
			dst = f.encode(dst, e)
		}
		return dst
	case dict:
		dst = mpCount(dst, len(v), 0x80, 0xDE)
		for _, e := range v {
			dst = append(f.textHead(dst, len(e.key)), e.key...)
			dst = f.encode(dst, e.value)
		}
		return dst
	}
	return append(dst, 0xC0)
}

func (f msgpackFormat) int(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return f.uint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	case n >= math.MinInt8:
		return append(dst, 0xD0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xD1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xD2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xD3), uint64(n))
}

func (msgpackFormat) uint(dst []byte, n uint64) []byte {
	switch {
	case n < 0x80:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, 0xCC, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xCD), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xCE), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xCF), n)
}

func (msgpackFormat) textHead(dst []byte, n int) []byte {
	switch {
	case n < 32:
		return append(dst, 0xA0|byte(n))
	case n <= math.MaxUint8:
		return append(dst, 0xD9, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xDA), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xDB), uint32(n))
}

func (msgpackFormat) binaryHead(dst []byte, n int) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(dst, 0xC4, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xC5), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xC6), uint32(n))
}

func (msgpackFormat) listHead(dst []byte, n int) []byte { return mpCount(dst, n, 0x90, 0xDC) }

// mpCount writes the head of a list or dict of n entries.
func mpCount(dst []byte, n int, few, many byte) []byte {
	switch {
	case n < 16:
		return append(dst, few|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, many), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, many+1), uint32(n))
}
