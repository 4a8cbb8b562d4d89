package routing

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
)

// maxNesting is how deep tables and lists may stand in each other in the arguments of a binding.
const maxNesting = 32

// appendTable writes a table so that equal tables have equal bytes and others do not.
func appendTable(dst []byte, list Headers, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: arguments nested deeper than %d", ErrBinding, maxNesting)
	}
	sorted := list
	if !slices.IsSortedFunc(list, byName) {
		sorted = slices.Clone(list)
		slices.SortStableFunc(sorted, byName)
	}
	dst = binary.AppendUvarint(dst, uint64(len(sorted)))
	var err error
	for _, h := range sorted {
		dst = appendText(dst, 'k', h.Name)
		if dst, err = appendValue(dst, h.Value, depth+1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func appendText(dst []byte, tag byte, text string) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(text)))
	return append(dst, text...)
}

func appendWord(dst []byte, tag byte, word uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tag), word)
}

func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, 'n'), nil
	case bool:
		if v {
			return append(dst, 't'), nil
		}
		return append(dst, 'f'), nil
	case string:
		return appendText(dst, 's', v), nil
	case []byte:
		return appendText(dst, 'b', string(v)), nil
	case time.Time:
		return binary.AppendVarint(appendWord(dst, 'T', uint64(v.Unix())), int64(v.Nanosecond())), nil
	case Decimal:
		return append(appendWord(dst, 'D', uint64(uint32(v.Value))), v.Scale), nil
	case Headers:
		return appendTable(append(dst, 'F'), v, depth)
	case []any:
		return appendList(dst, v, depth)
	case float32:
		return appendWord(dst, 'e', math.Float64bits(float64(v))), nil
	case float64:
		return appendWord(dst, 'd', math.Float64bits(v)), nil
	}
	return appendWhole(dst, v)
}

// appendWhole writes a whole number with its type.
func appendWhole(dst []byte, v any) ([]byte, error) {
	var tag byte
	switch v.(type) {
	case int8:
		tag = '1'
	case int16:
		tag = '2'
	case int32:
		tag = '3'
	case int64:
		tag = '4'
	case uint8:
		tag = '5'
	case uint16:
		tag = '6'
	case uint32:
		tag = '7'
	case uint64:
		tag = '8'
	default:
		return nil, fmt.Errorf("%w: an argument has the type %T", ErrBinding, v)
	}
	n, _ := asNumber(v)
	return appendWord(dst, tag, n.whole), nil
}

func appendList(dst []byte, list []any, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: arguments nested deeper than %d", ErrBinding, maxNesting)
	}
	dst = binary.AppendUvarint(append(dst, 'A'), uint64(len(list)))
	var err error
	for _, v := range list {
		if dst, err = appendValue(dst, v, depth+1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}
