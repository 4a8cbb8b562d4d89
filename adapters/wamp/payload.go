package wamp

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"entrepot/core"
)

// Content types that say what a payload is in arguments (names.md, 6).
const (
	typeText    = "text/plain; charset=utf-8"
	typeBinary  = "application/octet-stream"
	typeJSON    = "application/json"
	typeWAMP    = "application/vnd.wamp+json"
	typeCBOR    = "application/cbor"
	typeMsgpack = "application/msgpack"
)

// arguments are a message's, raw in an encoding; nil where there are none.
type arguments struct {
	code         uint8
	args, kwargs []byte
}

// formatOf is the format of an encoding's code.
func formatOf(code uint8) format {
	switch code % 3 {
	case 0:
		return jsonFormat{}
	case 1:
		return msgpackFormat{}
	}
	return cborFormat{}
}

// publication is the form of a message that WAMP receivers use beside its payload;
// it is the message's Properties.Native.
type publication struct {
	id        uint64
	arguments // args is nil where the payload says all
	includeMe bool
	only      *audience
	details   dict // what the publisher says to receivers (disclosure, ppt_…)
}

// published is a message in one block.
type published struct {
	core.Message
	core.Properties
	publication
}

// The blocks for short payloads.
type (
	published64 struct {
		published
		body [64]byte
	}
	published160 struct {
		published
		body [160]byte
	}
)

// newPublished returns a message with room for a payload of n bytes.
func newPublished(n int) *published {
	var p *published
	switch {
	case n <= 64:
		b := &published64{}
		p, b.Payload = &b.published, b.body[:n:n]
	case n <= 160:
		b := &published160{}
		p, b.Payload = &b.published, b.body[:n:n]
	default:
		p = &published{}
		p.Payload = make([]byte, n)
	}
	p.Props = &p.Properties
	p.Native = &p.publication
	return p
}

// carry makes a message of arguments, for all protocols: payload and content type
// by the table of names.md, 6, and the arguments as they are where that table
// does not lead back to them.
func carry(a arguments, scratch []byte) *published {
	f := formatOf(a.code)
	var one [1][]byte
	n := 0
	if a.args != nil {
		n, _ = f.elements(a.args, one[:])
	}
	if n != 1 || a.kwargs != nil {
		return carryAll(f, a)
	}
	switch k, b := f.token(one[0], scratch); k {
	case textKind:
		p := newPublished(len(b))
		copy(p.Payload, b)
		p.ContentType = typeText
		return p
	case binaryKind:
		p := newPublished(len(b))
		copy(p.Payload, b)
		p.ContentType = typeBinary
		return p
	}
	text := one[0]
	if a.code%3 != 0 {
		text = jsonFormat{}.encode(nil, f.decode(one[0]))
	}
	p := newPublished(len(text))
	copy(p.Payload, text)
	p.ContentType = typeJSON
	if a.code%3 != 0 {
		p.keep(a)
	}
	return p
}

// carryAll is carry for anything but one argument.
func carryAll(f format, a arguments) *published {
	args, kwargs := a.args, a.kwargs
	if a.code%3 != 0 {
		if args != nil {
			args = jsonFormat{}.encode(nil, f.decode(args))
		}
		if kwargs != nil {
			kwargs = jsonFormat{}.encode(nil, f.decode(kwargs))
		}
	}
	if args == nil {
		args = []byte("[]")
	}
	if kwargs == nil {
		kwargs = []byte("{}")
	}
	const head, middle = `{"args":`, `,"kwargs":`
	p := newPublished(len(head) + len(args) + len(middle) + len(kwargs) + 1)
	b := append(p.Payload[:0], head...)
	b = append(append(b, args...), middle...)
	p.Payload = append(append(b, kwargs...), '}')
	p.ContentType = typeWAMP
	if a.code%3 != 0 {
		p.keep(a)
		return p
	}
	at := len(head)
	p.code, p.args = a.code, p.Payload[at:at+len(args):at+len(args)]
	if a.kwargs != nil {
		at += len(args) + len(middle)
		p.kwargs = p.Payload[at : at+len(kwargs) : at+len(kwargs)]
	}
	return p
}

// describe reads the x_ options into a message of arguments; where they name another
// content type, the payload does not say any more what the arguments were.
func (p *published) describe(a arguments, options dict) error {
	own := p.ContentType
	err := properties(&p.Properties, options)
	if p.ContentType != own && p.args == nil {
		p.keep(a)
	}
	return err
}

// keep stores the arguments.
func (p *published) keep(a arguments) {
	all := append(append(make([]byte, 0, len(a.args)+len(a.kwargs)), a.args...), a.kwargs...)
	p.code = a.code
	p.args = all[:len(a.args):len(a.args)]
	if a.kwargs != nil {
		p.kwargs = all[len(a.args):]
	}
	if a.args == nil {
		p.args = formatOf(a.code).encode(nil, list{})
	}
}

// native is the WAMP form of m; nil for messages of others.
func native(m *core.Message) *publication {
	if m.Props == nil {
		return nil
	}
	p, _ := m.Props.Native.(*publication)
	return p
}

// appendArguments appends the arguments that m is to WAMP, as the last elements of
// a message; argumentsCount tells how many there will be.
func (e *encoding) appendArguments(dst []byte, m *core.Message) []byte {
	if p := native(m); p != nil && p.args != nil {
		return e.appendKept(dst, &p.arguments)
	}
	if m.Props != nil && m.Props.ContentType == typeWAMP {
		if a, ok := splitWAMP(m.Payload); ok {
			return e.appendKept(dst, &a)
		}
	}
	dst = e.openList(dst)
	dst = e.appendPayload(dst, m)
	if e.text {
		dst = append(dst, ']')
	}
	return dst
}

// openList begins a list of one element.
func (e *encoding) openList(dst []byte) []byte {
	switch e.code % 3 {
	case 0:
		return append(dst, ",["...)
	case 1:
		return append(dst, 0x91)
	}
	return append(dst, 0x81)
}

// argumentsCount is 2 where there are keyword arguments, else 1.
func argumentsCount(m *core.Message) int {
	p := native(m)
	switch {
	case p != nil && p.args != nil:
		if p.kwargs != nil {
			return 2
		}
	case m.Props != nil && m.Props.ContentType == typeWAMP:
		if a, ok := splitWAMP(m.Payload); ok && a.kwargs != nil {
			return 2
		}
	}
	return 1
}

func (e *encoding) appendKept(dst []byte, a *arguments) []byte {
	dst = e.appendAs(dst, a.args, a.code)
	if a.kwargs != nil {
		dst = e.appendAs(dst, a.kwargs, a.code)
	}
	return dst
}

// appendAs appends an element that is raw in another encoding.
func (e *encoding) appendAs(dst, raw []byte, code uint8) []byte {
	if e.same(code) {
		return e.raw(dst, raw)
	}
	return e.value(dst, formatOf(code).decode(raw))
}

// splitWAMP reads a payload of typeWAMP.
func splitWAMP(payload []byte) (a arguments, ok bool) {
	if !soundJSON(payload) {
		return a, false
	}
	d, ok := jsonFormat{}.decode(payload).(dict)
	if !ok {
		return a, false
	}
	args, okArgs := d.get("args").(list)
	kwargs, okKw := d.get("kwargs").(dict)
	if !okArgs && !okKw {
		return a, false
	}
	if args == nil {
		args = list{}
	}
	a.args = jsonFormat{}.encode(nil, args)
	if len(kwargs) > 0 {
		a.kwargs = jsonFormat{}.encode(nil, kwargs)
	}
	return a, true
}

// soundJSON tells whether a payload is one JSON value and nothing else.
func soundJSON(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	n, err := jsonFormat{}.skip(b, 0)
	return err == nil && space(b, n) == len(b)
}

// appendPayload appends a payload as one value, by its content type.
func (e *encoding) appendPayload(dst []byte, m *core.Message) []byte {
	b, contentType := m.Payload, ""
	if m.Props != nil {
		contentType = m.Props.ContentType
		if m.Props.ContentEncoding != "" {
			return e.appendBinary(dst, b)
		}
	}
	switch kind, _, _ := strings.Cut(contentType, ";"); {
	case contentType == typeBinary:
		return e.appendBinary(dst, b)
	case strings.HasPrefix(kind, "text/"):
		return e.appendText(dst, b)
	case contentType == "":
		return e.appendGuess(dst, b)
	default:
		return e.appendTyped(dst, b, strings.TrimSpace(kind))
	}
}

// appendTyped decodes what its type says it is.
func (e *encoding) appendTyped(dst, b []byte, contentType string) []byte {
	code := uint8(0)
	switch strings.ToLower(contentType) {
	case typeJSON, typeWAMP:
		if !soundJSON(b) {
			return e.appendBinary(dst, b)
		}
	case typeMsgpack:
		code = 1
	case typeCBOR:
		code = 2
	default:
		return e.appendBinary(dst, b)
	}
	if code != 0 {
		if n, err := formatOf(code).skip(b, 0); err != nil || n != len(b) {
			return e.appendBinary(dst, b)
		}
	}
	switch {
	case !e.same(code):
		return e.encode(dst, formatOf(code).decode(b))
	case code == 0:
		b = bytes.TrimSpace(b)
	}
	return append(dst, b...)
}

// appendGuess is for payloads whose publisher does not say what they are.
func (e *encoding) appendGuess(dst, b []byte) []byte {
	at := space(b, 0)
	if at < len(b) && (b[at] == '{' || b[at] == '[') && soundJSON(b) {
		return e.appendTyped(dst, b, typeJSON)
	}
	return e.appendText(dst, b)
}

// appendText appends a string; what is none, or would be taken for binary in
// JSON, goes as binary.
func (e *encoding) appendText(dst, b []byte) []byte {
	if !utf8.Valid(b) || len(b) > 0 && b[0] == 0 {
		return e.appendBinary(dst, b)
	}
	switch e.code % 3 {
	case 0:
		return appendJSONString(dst, b)
	case 1:
		return append(msgpackFormat{}.textHead(dst, len(b)), b...)
	}
	return append(cbAppend(dst, cborText, uint64(len(b))), b...)
}

func (e *encoding) appendBinary(dst, b []byte) []byte {
	if e.code%3 == 1 {
		return append(msgpackFormat{}.binaryHead(dst, len(b)), b...)
	}
	return e.encode(dst, b)
}
