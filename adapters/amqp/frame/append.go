package frame

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"entrepot/routing"
)

// MaxShortText is the most bytes of a short text.
const MaxShortText = 255

// AppendShortText appends a text of at most MaxShortText bytes. A longer one is
// left empty: callers see to it that there is none.
func AppendShortText(b []byte, s string) []byte {
	if len(s) > MaxShortText {
		return append(b, 0)
	}
	return append(append(b, byte(len(s))), s...)
}

// AppendLongText appends a text with a length of 32 bits.
func AppendLongText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// AppendShort appends 16 bits.
func AppendShort(b []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(b, v) }

// AppendLong appends 32 bits.
func AppendLong(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendLongLong appends 64 bits.
func AppendLongLong(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendBit appends one bit alone in its octet.
func AppendBit(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendTable appends a table with its length. Left out is what a table cannot
// hold: a name of more than MaxShortText bytes, and what is nested deeper than
// MaxNesting.
func AppendTable(b []byte, list routing.Headers) []byte { return appendTable(b, list, 0) }

func appendTable(b []byte, list routing.Headers, depth int) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	for i := range list {
		if len(list[i].Name) > MaxShortText {
			continue
		}
		b = AppendShortText(b, list[i].Name)
		b = appendValue(b, list[i].Value, depth)
	}
	return sized(b, start)
}

// sized writes the length before what was appended since start.
func sized(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// appendValue writes each type under the letter that Reader takes for it. A
// number that none holds is written as text.
func appendValue(b []byte, v any, depth int) []byte {
	switch v := v.(type) {
	case string:
		return AppendLongText(append(b, 'S'), v)
	case []byte:
		return AppendLongText(append(b, 'x'), string(v))
	case bool:
		return AppendBit(append(b, 't'), v)
	case time.Time:
		return AppendLongLong(append(b, 'T'), uint64(v.Unix()))
	case routing.Decimal:
		return AppendLong(append(b, 'D', v.Scale), uint32(v.Value))
	case routing.Headers:
		if depth >= MaxNesting {
			return append(b, 'V')
		}
		return appendTable(append(b, 'F'), v, depth+1)
	case []any:
		if depth >= MaxNesting {
			return append(b, 'V')
		}
		b = append(b, 'A', 0, 0, 0, 0)
		start := len(b) - 4
		for _, e := range v {
			b = appendValue(b, e, depth+1)
		}
		return sized(b, start)
	case float32:
		return AppendLong(append(b, 'f'), math.Float32bits(v))
	case float64:
		return AppendLongLong(append(b, 'd'), math.Float64bits(v))
	}
	return appendWhole(b, v)
}

func appendWhole(b []byte, v any) []byte {
	switch v := v.(type) {
	case int8:
		return append(b, 'b', byte(v))
	case uint8:
		return append(b, 'B', v)
	case int16:
		return AppendShort(append(b, 's'), uint16(v))
	case uint16:
		return AppendShort(append(b, 'u'), v)
	case int32:
		return AppendLong(append(b, 'I'), uint32(v))
	case uint32:
		return AppendLong(append(b, 'i'), v)
	case int64:
		return AppendLongLong(append(b, 'l'), uint64(v))
	case uint64:
		if v > math.MaxInt64 {
			return AppendLongText(append(b, 'S'), strconv.FormatUint(v, 10))
		}
		return AppendLongLong(append(b, 'l'), v)
	}
	return append(b, 'V')
}
