package wamp

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// cborFormat is CBOR (RFC 8949). A tag passes as it is to others who speak CBOR;
// to the rest goes what it tags.
type cborFormat struct{}

// Major types of CBOR.
const (
	cborUint = iota
	cborNegative
	cborBytes
	cborText
	cborList
	cborDict
	cborTag
	cborSimple
)

const cborBreak = 0xFF

// cbHead is the head of a value: its major type, how long the head is, its
// argument, and whether the length is open.
type cbHead struct {
	major byte
	size  int
	arg   uint64
	open  bool
}

func (cborFormat) head(b []byte) (cbHead, error) {
	if len(b) == 0 {
		return cbHead{}, errShort
	}
	h := cbHead{major: b[0] >> 5, size: 1}
	switch info := b[0] & 31; {
	case info < 24:
		h.arg = uint64(info)
	case info < 28:
		n := 1 << (info - 24)
		if len(b) < 1+n {
			return h, errShort
		}
		h.size, h.arg = 1+n, bigEndian(b[1:1+n])
	case info == 31 && h.major >= cborBytes && h.major <= cborDict:
		h.open = true
	default:
		return h, errBad
	}
	return h, nil
}

// skip implements format.
func (f cborFormat) skip(b []byte, depth int) (int, error) {
	h, err := f.head(b)
	if err != nil {
		return 0, err
	}
	switch h.major {
	case cborBytes, cborText:
		return f.skipString(b, h)
	case cborList, cborDict, cborTag:
		return f.skipNested(b, h, depth)
	}
	return h.size, nil
}

func (f cborFormat) skipString(b []byte, h cbHead) (int, error) {
	if h.open {
		return f.skipChunks(b, h)
	}
	if h.arg > uint64(len(b)-h.size) {
		return 0, errShort
	}
	end := h.size + int(h.arg)
	if h.major == cborText && !utf8.Valid(b[h.size:end]) {
		return 0, errText
	}
	return end, nil
}

// skipChunks goes over a string of open length (RFC 8949, 3.2.3).
func (f cborFormat) skipChunks(b []byte, h cbHead) (int, error) {
	for at := 1; ; {
		if at >= len(b) {
			return 0, errShort
		}
		if b[at] == cborBreak {
			return at + 1, nil
		}
		part, err := f.head(b[at:])
		switch {
		case err != nil:
			return 0, err
		case part.open || part.major != h.major:
			return 0, errBad
		}
		n, err := f.skipString(b[at:], part)
		if err != nil {
			return 0, err
		}
		at += n
	}
}

func (f cborFormat) skipNested(b []byte, h cbHead, depth int) (int, error) {
	if depth >= maxDepth {
		return 0, errDeep
	}
	n, at := h.arg, h.size
	switch h.major {
	case cborTag:
		n = 1
	case cborDict:
		n = 2 * min(n, 1<<62)
	}
	if !h.open && n > uint64(len(b)-at) { // a value has a byte at least
		return 0, errShort
	}
	for i := uint64(0); h.open || i < n; i++ {
		if at >= len(b) {
			return 0, errShort
		}
		if h.open && b[at] == cborBreak {
			if h.major == cborDict && i%2 == 1 {
				return 0, errBad
			}
			return at + 1, nil
		}
		size, err := f.skip(b[at:], depth+1)
		if err != nil {
			return 0, err
		}
		at += size
	}
	return at, nil
}

// elements implements format.
func (f cborFormat) elements(b []byte, into [][]byte) (n int, err error) {
	h, err := f.head(b)
	if err != nil {
		return 0, err
	}
	if h.major != cborList {
		return 0, errNoList
	}
	at := h.size
	for ; h.open || uint64(n) < h.arg; n++ {
		if at >= len(b) {
			return 0, errShort
		}
		if h.open && b[at] == cborBreak {
			at++
			break
		}
		size, err := f.skip(b[at:], 1)
		if err != nil {
			return 0, err
		}
		if n < len(into) {
			into[n] = b[at : at+size]
		}
		at += size
	}
	return n, rest(b, at)
}

// token implements format.
func (f cborFormat) token(raw, scratch []byte) (kind, []byte) {
	h, _ := f.head(raw)
	switch h.major {
	case cborUint:
		return wholeKind, nil
	case cborBytes:
		return binaryKind, f.bytes(raw, h, scratch)
	case cborText:
		return textKind, f.bytes(raw, h, scratch)
	case cborList:
		return listKind, nil
	case cborDict:
		return dictKind, nil
	}
	return otherKind, nil
}

// bytes is the content of a string, in raw unless it comes in chunks.
func (f cborFormat) bytes(raw []byte, h cbHead, scratch []byte) []byte {
	if !h.open {
		return raw[h.size : h.size+int(h.arg)]
	}
	out := scratch[:0]
	for at := 1; raw[at] != cborBreak; {
		part, _ := f.head(raw[at:])
		at += part.size
		out = append(out, raw[at:at+int(part.arg)]...)
		at += int(part.arg)
	}
	return out
}

// decode implements format.
func (f cborFormat) decode(raw []byte) any {
	v, _ := f.read(raw)
	return v
}

func (f cborFormat) read(b []byte) (any, int) {
	h, _ := f.head(b)
	switch h.major {
	case cborUint:
		return fromUint(h.arg), h.size
	case cborNegative:
		if h.arg > math.MaxInt64 {
			return -1 - float64(h.arg), h.size
		}
		return -1 - int64(h.arg), h.size
	case cborBytes:
		n, _ := f.skipString(b, h)
		return append([]byte{}, f.bytes(b, h, nil)...), n
	case cborText:
		n, _ := f.skipString(b, h)
		return string(f.bytes(b, h, nil)), n
	case cborTag:
		v, n := f.read(b[h.size:])
		return v, h.size + n
	case cborSimple:
		return cbSimple(b[0]&31, h.arg), h.size
	}
	return f.readNested(b, h)
}

func (f cborFormat) readNested(b []byte, h cbHead) (any, int) {
	at := h.size
	items, entries := list{}, dict{}
	for i := uint64(0); h.open || i < h.arg; i++ {
		if h.open && b[at] == cborBreak {
			at++
			break
		}
		v, n := f.read(b[at:])
		at += n
		if h.major == cborList {
			items = append(items, v)
			continue
		}
		key := keyText(v)
		v, n = f.read(b[at:])
		at += n
		entries = append(entries, member{key, v})
	}
	if h.major == cborList {
		return items, at
	}
	return entries, at
}

func cbSimple(info byte, arg uint64) any {
	switch info {
	case 20, 21:
		return info == 21
	case 25:
		return halfFloat(uint16(arg))
	case 26:
		return float64(math.Float32frombits(uint32(arg)))
	case 27:
		return math.Float64frombits(arg)
	}
	return nil
}

// halfFloat reads a float of 16 bits (RFC 8949, appendix D).
func halfFloat(h uint16) float64 {
	exp, mant := int(h>>10&31), float64(h&1023)
	var v float64
	switch exp {
	case 0:
		v = math.Ldexp(mant, -24)
	case 31:
		if v = math.Inf(1); mant != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(mant+1024, exp-25)
	}
	if h&0x8000 != 0 {
		return -v
	}
	return v
}

// encode implements format.
func (f cborFormat) encode(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, 0xF5)
		}
		return append(dst, 0xF4)
	case int64:
		if v < 0 {
			return cbAppend(dst, cborNegative, uint64(-1-v))
		}
		return cbAppend(dst, cborUint, uint64(v))
	case uint64:
		return cbAppend(dst, cborUint, v)
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, 0xFB), math.Float64bits(v))
	case string:
		return append(cbAppend(dst, cborText, uint64(len(v))), v...)
	case []byte:
		return append(cbAppend(dst, cborBytes, uint64(len(v))), v...)
	case list:
		dst = cbAppend(dst, cborList, uint64(len(v)))
		for _, e := range v {
			dst = f.encode(dst, e)
		}
		return dst
	case dict:
		dst = cbAppend(dst, cborDict, uint64(len(v)))
		for _, e := range v {
			dst = append(cbAppend(dst, cborText, uint64(len(e.key))), e.key...)
			dst = f.encode(dst, e.value)
		}
		return dst
	}
	return append(dst, 0xF6)
}

// cbAppend writes a head.
func cbAppend(dst []byte, major byte, arg uint64) []byte {
	major <<= 5
	switch {
	case arg < 24:
		return append(dst, major|byte(arg))
	case arg <= math.MaxUint8:
		return append(dst, major|24, byte(arg))
	case arg <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(arg))
	case arg <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(arg))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), arg)
}
