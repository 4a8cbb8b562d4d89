package e2e

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shape is how a property's value is written (MQTT 5, 1.5).
type shape byte

const (
	oneByte shape = iota
	twoBytes
	fourBytes
	varInt
	text
	binaryData
	textPair
)

// property is one MQTT 5 property: value is a uint32, a string, or a [2]string.
type property struct {
	id    byte
	value any
}

type propertyKind struct {
	id    byte
	name  string
	shape shape
}

// propertyKinds is the table of MQTT 5, 2.2.2.2.
var propertyKinds = []propertyKind{
	{0x01, "format", oneByte}, {0x02, "expiry", fourBytes}, {0x03, "content-type", text},
	{0x08, "response-topic", text}, {0x09, "correlation", binaryData}, {0x0B, "sub-id", varInt},
	{0x11, "session-expiry", fourBytes}, {0x12, "assigned-id", text}, {0x13, "server-keep-alive", twoBytes},
	{0x15, "auth-method", text}, {0x16, "auth-data", binaryData}, {0x17, "problem-info", oneByte},
	{0x18, "will-delay", fourBytes}, {0x19, "response-info-wanted", oneByte}, {0x1A, "response-info", text},
	{0x1C, "server-reference", text}, {0x1F, "reason", text}, {0x21, "receive-max", twoBytes},
	{0x22, "alias-max", twoBytes}, {0x23, "alias", twoBytes}, {0x24, "max-qos", oneByte},
	{0x25, "retain-available", oneByte}, {0x26, "user", textPair}, {0x27, "max-packet", fourBytes},
	{0x28, "wildcards", oneByte}, {0x29, "sub-ids", oneByte}, {0x2A, "shared", oneByte},
}

func kindByID(id byte) (propertyKind, bool) {
	i := slices.IndexFunc(propertyKinds, func(k propertyKind) bool { return k.id == id })
	if i < 0 {
		return propertyKind{}, false
	}
	return propertyKinds[i], true
}

// newProperty makes a property of a script's word: name and value.
func newProperty(name, value string) (property, error) {
	if key, ok := strings.CutPrefix(name, "user:"); ok {
		return property{0x26, [2]string{key, value}}, nil
	}
	i := slices.IndexFunc(propertyKinds, func(k propertyKind) bool { return k.name == name })
	if i < 0 {
		return property{}, fmt.Errorf("no property %q", name)
	}
	k := propertyKinds[i]
	if k.shape == text || k.shape == binaryData {
		return property{k.id, value}, nil
	}
	n, err := strconv.ParseUint(value, 0, 32)
	return property{k.id, uint32(n)}, err
}

// appendProperties writes the length and the properties.
func appendProperties(b []byte, ps []property) []byte {
	var body []byte
	for _, p := range ps {
		k, _ := kindByID(p.id)
		body = append(body, p.id)
		switch k.shape {
		case oneByte:
			body = append(body, byte(p.value.(uint32)))
		case twoBytes:
			body = binary.BigEndian.AppendUint16(body, uint16(p.value.(uint32)))
		case fourBytes:
			body = binary.BigEndian.AppendUint32(body, p.value.(uint32))
		case varInt:
			body = appendVarInt(body, int(p.value.(uint32)))
		case text, binaryData:
			body = appendText(body, p.value.(string))
		case textPair:
			pair := p.value.([2]string)
			body = appendText(appendText(body, pair[0]), pair[1])
		}
	}
	return append(appendVarInt(b, len(body)), body...)
}

// properties reads a length and the properties.
func (r *cursor) properties() []property {
	n := r.varInt()
	if r.err != nil || n > len(r.b) {
		r.fail("properties of %d bytes, %d left", n, len(r.b))
		return nil
	}
	in := &cursor{b: r.b[:n]}
	r.b = r.b[n:]
	var ps []property
	for len(in.b) > 0 && in.err == nil {
		ps = append(ps, in.property())
	}
	if in.err != nil {
		r.err = in.err
	}
	// Only user properties have an order that means something.
	slices.SortStableFunc(ps, func(a, b property) int {
		if a.id == b.id && a.id != 0x26 {
			return strings.Compare(a.String(), b.String())
		}
		return int(a.id) - int(b.id)
	})
	return ps
}

func (r *cursor) property() property {
	id := r.byte()
	k, known := kindByID(id)
	if !known {
		r.fail("unknown property 0x%02x", id)
		return property{}
	}
	switch k.shape {
	case oneByte:
		return property{id, uint32(r.byte())}
	case twoBytes:
		return property{id, uint32(r.uint16())}
	case fourBytes:
		return property{id, uint32(r.uint16())<<16 | uint32(r.uint16())}
	case varInt:
		return property{id, uint32(r.varInt())}
	case textPair:
		return property{id, [2]string{r.text(), r.text()}}
	default:
		return property{id, r.text()}
	}
}

// String is the property as scripts show it.
func (p property) String() string {
	k, _ := kindByID(p.id)
	switch v := p.value.(type) {
	case [2]string:
		return "user:" + shown(v[0]) + "=" + shown(v[1])
	case string:
		if p.id == 0x12 { // differs from run to run
			return k.name + "=*"
		}
		return k.name + "=" + shown(v)
	default:
		return fmt.Sprintf("%s=%d", k.name, v)
	}
}
