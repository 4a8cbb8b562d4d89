package routing

import (
	"bytes"
	"math"
	"slices"
	"time"
)

// equalValue compares as RabbitMQ does: by value, whatever the types. Numbers are equal as numbers, text and bytes as
// bytes, lists item by item, tables header by header in any order of names.
func equalValue(want, got any) bool {
	if equal, text := equalText(want, got); text {
		return equal
	}
	if a, ok := asNumber(want); ok {
		b, ok := asNumber(got)
		return ok && a == b
	}
	switch a := want.(type) {
	case time.Time:
		b, ok := got.(time.Time)
		return ok && a.Equal(b)
	case Headers:
		b, ok := got.(Headers)
		return ok && equalTables(a, b)
	case []any:
		b, ok := got.([]any)
		return ok && slices.EqualFunc(a, b, equalValue)
	case nil, bool, Decimal:
		return want == got
	}
	return false
}

func equalTables(a, b Headers) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortStableFunc(a, byName)
	slices.SortStableFunc(b, byName)
	return slices.EqualFunc(a, b, func(x, y Header) bool { return x.Name == y.Name && equalValue(x.Value, y.Value) })
}

// equalText compares strings and byte slices with each other; text is false when a is neither.
func equalText(a, b any) (equal, text bool) {
	switch a := a.(type) {
	case string:
		switch b := b.(type) {
		case string:
			return a == b, true
		case []byte:
			return a == string(b), true
		}
		return false, true
	case []byte:
		switch b := b.(type) {
		case string:
			return string(a) == b, true
		case []byte:
			return bytes.Equal(a, b), true
		}
		return false, true
	}
	return false, false
}

// number is a number of any type in one form, so that == compares: a whole one that an int64 or uint64 holds is whole.
type number struct {
	whole uint64 // two's complement when below
	below bool   // less than zero
	float float64
}

func asNumber(v any) (number, bool) {
	switch v := v.(type) {
	case int8:
		return signed(int64(v)), true
	case int16:
		return signed(int64(v)), true
	case int32:
		return signed(int64(v)), true
	case int64:
		return signed(v), true
	case uint8:
		return number{whole: uint64(v)}, true
	case uint16:
		return number{whole: uint64(v)}, true
	case uint32:
		return number{whole: uint64(v)}, true
	case uint64:
		return number{whole: v}, true
	case float32:
		return floating(float64(v)), true
	case float64:
		return floating(v), true
	}
	return number{}, false
}

func signed(v int64) number { return number{whole: uint64(v), below: v < 0} }

func floating(v float64) number {
	switch {
	case v != math.Trunc(v): // a fraction, or not a number
		return number{float: v}
	case v >= 0 && v < 1<<64:
		return number{whole: uint64(v)}
	case v < 0 && v >= -1<<63:
		return signed(int64(v))
	}
	return number{float: v}
}
