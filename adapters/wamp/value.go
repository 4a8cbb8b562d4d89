package wamp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A decoded value is one of: nil, bool, int64, uint64 (beyond int64), float64,
// string, []byte, list, dict.
type (
	list []any
	dict []member
)

// member is one entry of a dict; order and repeated keys are kept.
type member struct {
	key   string
	value any
}

// get is the value of a key, nil when there is none; of a repeated key the last
// one counts, as in JavaScript.
func (d dict) get(key string) any {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i].key == key {
			return d[i].value
		}
	}
	return nil
}

// flag is the truth value of a key; false for anything else.
func (d dict) flag(key string) bool {
	v, _ := d.get(key).(bool)
	return v
}

// text is the string of a key; "" for anything else.
func (d dict) text(key string) string {
	v, _ := d.get(key).(string)
	return v
}

// whole reads a whole number that is not negative.
func whole(v any) (uint64, bool) {
	switch v := v.(type) {
	case int64:
		return uint64(v), v >= 0
	case uint64:
		return v, true
	case float64: // some JavaScript serializers write large numbers so
		return uint64(v), v >= 0 && v <= maxID && v == float64(uint64(v))
	}
	return 0, false
}

// maxID is the largest id (WAMP, Basic Profile, IDs).
const maxID = 1 << 53

// format is a serialization. A value's bytes in it are called raw.
type format interface {
	// skip is the length of the value that b begins with. The error says that it
	// is malformed, or nested deeper than maxDepth.
	skip(b []byte, depth int) (int, error)
	// decode reads raw, which skip has found sound.
	decode(raw []byte) any
	// encode appends a value.
	encode(dst []byte, v any) []byte
	// elements cuts a list into the raw values in it, up to len(into) of them;
	// n is how many there are. Errors as of skip, and errNoList.
	elements(b []byte, into [][]byte) (n int, err error)
	// token tells what raw is, and the bytes of a string or binary; they may
	// stand in scratch, else in raw.
	token(raw, scratch []byte) (kind, []byte)
}

// kind is what a raw value is.
type kind uint8

const (
	otherKind kind = iota
	textKind
	binaryKind
	listKind
	dictKind
	wholeKind // not negative
)

// maxDepth is how deep lists and dicts may stand in each other.
const maxDepth = 64

var (
	errShort  = errors.New("the value is cut off")
	errDeep   = fmt.Errorf("nested deeper than %d", maxDepth)
	errNoList = errors.New("not a list")
	errBad    = errors.New("malformed value")
	errText   = errors.New("text that is not UTF-8")
	errRest   = errors.New("bytes follow the value")
)

// keyText is a dict's key that is no string in a format that allows such.
func keyText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return strings.ToValidUTF8(string(v), "\uFFFD")
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(v)
}
