package wamp

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonFormat is JSON (RFC 8259). Binary is a string that begins with NUL and goes
// on in base64 (WAMP, Binary conversion of JSON strings). The bytes are UTF-8:
// that was checked of the whole message.
type jsonFormat struct{}

// skip implements format.
func (f jsonFormat) skip(b []byte, depth int) (int, error) {
	at := space(b, 0)
	if at == len(b) {
		return 0, errShort
	}
	switch c := b[at]; {
	case c == '"':
		n, err := skipString(b[at:])
		return at + n, err
	case c == '[' || c == '{':
		return f.skipNested(b, at, depth)
	case c == '-' || c >= '0' && c <= '9':
		n, err := skipNumber(b[at:])
		return at + n, err
	}
	for _, word := range [...]string{"null", "true", "false"} {
		if bytes.HasPrefix(b[at:], []byte(word)) {
			return at + len(word), nil
		}
	}
	return 0, errBad
}

// skipNested goes over the list or object that begins at b[at].
func (f jsonFormat) skipNested(b []byte, at, depth int) (int, error) {
	if depth >= maxDepth {
		return 0, errDeep
	}
	object, end := b[at] == '{', b[at]+2 // ']' and '}' are two after their openers
	if at = space(b, at+1); at < len(b) && b[at] == end {
		return at + 1, nil
	}
	for {
		if object {
			n, err := skipKey(b, at)
			if err != nil {
				return 0, err
			}
			at = n
		}
		n, err := f.skip(b[at:], depth+1)
		if err != nil {
			return 0, err
		}
		switch at = space(b, at+n); {
		case at == len(b):
			return 0, errShort
		case b[at] == end:
			return at + 1, nil
		case b[at] != ',':
			return 0, errBad
		}
		at++
	}
}

// skipKey goes over a key and its colon.
func skipKey(b []byte, at int) (int, error) {
	at = space(b, at)
	if at == len(b) {
		return 0, errShort
	}
	if b[at] != '"' {
		return 0, errBad
	}
	n, err := skipString(b[at:])
	if err != nil {
		return 0, err
	}
	if at = space(b, at+n); at == len(b) {
		return 0, errShort
	}
	if b[at] != ':' {
		return 0, errBad
	}
	return at + 1, nil
}

func space(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r') {
		at++
	}
	return at
}

// plainRun is how many bytes may stand in a string as they are: up to a quote, a
// backslash or a control character. It looks at eight at once.
func plainRun(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	at := 0
	for ; at+8 <= len(b); at += 8 {
		w := binary.LittleEndian.Uint64(b[at:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		if hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs; hit != 0 {
			return at + bits.TrailingZeros64(hit)/8
		}
	}
	for ; at < len(b); at++ {
		if c := b[at]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return at
}

// skipString goes over a string with its quotes.
func skipString(b []byte) (int, error) {
	for at := 1; ; {
		if at += plainRun(b[at:]); at >= len(b) {
			return 0, errShort
		}
		switch b[at] {
		case '"':
			if !utf8.Valid(b[1:at]) {
				return 0, errText
			}
			return at + 1, nil
		case '\\':
			n, err := skipEscape(b[at:])
			if err != nil {
				return 0, err
			}
			at += n
		default:
			return 0, errBad
		}
	}
}

func skipEscape(b []byte) (int, error) {
	if len(b) < 2 {
		return 0, errShort
	}
	if b[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, b[1]) < 0 {
			return 0, errBad
		}
		return 2, nil
	}
	if len(b) < 6 {
		return 0, errShort
	}
	if _, ok := hex4(b[2:6]); !ok {
		return 0, errBad
	}
	return 6, nil
}

func hex4(b []byte) (r rune, ok bool) {
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// skipNumber holds the grammar of RFC 8259, 6.
func skipNumber(b []byte) (int, error) {
	at := 0
	if b[0] == '-' {
		at++
	}
	whole := digits(b, at)
	if whole == at || b[at] == '0' && whole > at+1 {
		return 0, errBad
	}
	at = whole
	if at < len(b) && b[at] == '.' {
		n := digits(b, at+1)
		if n == at+1 {
			return 0, errBad
		}
		at = n
	}
	if at < len(b) && b[at]|0x20 == 'e' {
		at++
		if at < len(b) && (b[at] == '+' || b[at] == '-') {
			at++
		}
		n := digits(b, at)
		if n == at {
			return 0, errBad
		}
		at = n
	}
	return at, nil
}

func digits(b []byte, at int) int {
	for at < len(b) && b[at] >= '0' && b[at] <= '9' {
		at++
	}
	return at
}

// elements implements format.
func (f jsonFormat) elements(b []byte, into [][]byte) (n int, err error) {
	at := space(b, 0)
	if at == len(b) || b[at] != '[' {
		return 0, errNoList
	}
	if at = space(b, at+1); at < len(b) && b[at] == ']' {
		return 0, rest(b, space(b, at+1))
	}
	for {
		at = space(b, at)
		size, err := f.skip(b[at:], 1)
		if err != nil {
			return 0, err
		}
		if n < len(into) {
			into[n] = b[at : at+size]
		}
		n++
		switch at = space(b, at+size); {
		case at == len(b):
			return 0, errShort
		case b[at] == ']':
			return n, rest(b, space(b, at+1))
		case b[at] != ',':
			return 0, errBad
		}
		at++
	}
}

// rest refuses what follows a value that ended at b[at].
func rest(b []byte, at int) error {
	if at != len(b) {
		return errRest
	}
	return nil
}

// token implements format.
func (jsonFormat) token(raw, scratch []byte) (kind, []byte) {
	switch c := raw[0]; {
	case c == '"':
		text := unquote(raw, scratch)
		if b, ok := fromJSONBinary(text); ok {
			return binaryKind, b
		}
		return textKind, text
	case c == '[':
		return listKind, nil
	case c == '{':
		return dictKind, nil
	case c >= '0' && c <= '9' && digits(raw, 0) == len(raw):
		return wholeKind, nil
	}
	return otherKind, nil
}

// unquote is a string's text, in raw where nothing in it is escaped.
func unquote(raw, scratch []byte) []byte {
	inner := raw[1 : len(raw)-1]
	at := bytes.IndexByte(inner, '\\')
	if at < 0 {
		return inner
	}
	out := scratch[:0]
	for at >= 0 {
		out = append(out, inner[:at]...)
		var n int
		out, n = unescape(out, inner[at:])
		inner = inner[at+n:]
		at = bytes.IndexByte(inner, '\\')
	}
	return append(out, inner...)
}

// unescape appends what the escape at the front of b stands for.
func unescape(dst, b []byte) ([]byte, int) {
	if b[1] != 'u' {
		if i := strings.IndexByte("bfnrt", b[1]); i >= 0 {
			return append(dst, "\b\f\n\r\t"[i]), 2
		}
		return append(dst, b[1]), 2
	}
	r, _ := hex4(b[2:6])
	if utf16.IsSurrogate(r) && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low, ok := hex4(b[8:12]); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				return utf8.AppendRune(dst, both), 12
			}
		}
	}
	return utf8.AppendRune(dst, r), 6 // a lone half becomes U+FFFD
}

// fromJSONBinary decodes a string in the form of binary.
func fromJSONBinary(text []byte) ([]byte, bool) {
	if len(text) == 0 || text[0] != 0 {
		return nil, false
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)-1))
	n, err := base64.StdEncoding.Decode(b, text[1:])
	return b[:n], err == nil
}

// decode implements format.
func (f jsonFormat) decode(raw []byte) any {
	v, _ := f.read(raw)
	return v
}

// read decodes the value that b begins with.
func (f jsonFormat) read(b []byte) (any, int) {
	at := space(b, 0)
	switch b[at] {
	case '"':
		n, _ := skipString(b[at:])
		k, text := f.token(b[at:at+n], nil)
		if k == binaryKind {
			return text, at + n
		}
		return string(text), at + n
	case '[':
		return f.readList(b, at+1)
	case '{':
		return f.readDict(b, at+1)
	case 'n':
		return nil, at + 4
	case 't':
		return true, at + 4
	case 'f':
		return false, at + 5
	}
	n, _ := skipNumber(b[at:])
	return jsonNumber(string(b[at : at+n])), at + n
}

func (f jsonFormat) readList(b []byte, at int) (any, int) {
	all := list{}
	for {
		if at = space(b, at); b[at] == ']' {
			return all, at + 1
		}
		v, n := f.read(b[at:])
		all = append(all, v)
		if at = space(b, at+n); b[at] == ',' {
			at++
		}
	}
}

func (f jsonFormat) readDict(b []byte, at int) (any, int) {
	all := dict{}
	for {
		if at = space(b, at); b[at] == '}' {
			return all, at + 1
		}
		n, _ := skipString(b[at:])
		key := string(unquote(b[at:at+n], nil))
		at = space(b, at+n) + 1 // the colon
		v, n := f.read(b[at:])
		all = append(all, member{key, v})
		if at = space(b, at+n); b[at] == ',' {
			at++
		}
	}
}

// jsonNumber is a whole number where it is written as one and fits.
func jsonNumber(text string) any {
	if !strings.ContainsAny(text, ".eE") && text != "-0" {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n
		}
	}
	n, _ := strconv.ParseFloat(text, 64) // too large: infinity
	return n
}

// encode implements format. JSON has no NaN and no infinity: they become null.
func (f jsonFormat) encode(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case float64:
		return appendJSONFloat(dst, v)
	case string:
		return appendJSONString(dst, v)
	case []byte:
		dst = append(dst, `"\u0000`...)
		dst = base64.StdEncoding.AppendEncode(dst, v)
		return append(dst, '"')
	case list:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = f.encode(dst, e)
		}
		return append(dst, ']')
	case dict:
		dst = append(dst, '{')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendJSONString(dst, e.key), ':')
			dst = f.encode(dst, e.value)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// appendJSONFloat keeps a float from being read as a whole number.
func appendJSONFloat(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	at := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	if !bytes.ContainsAny(dst[at:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendJSONString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for rest := []byte(s); ; {
		n := plainRun(rest)
		dst = append(dst, rest[:n]...)
		if n == len(rest) {
			return append(dst, '"')
		}
		switch c := rest[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
		rest = rest[n+1:]
	}
}
