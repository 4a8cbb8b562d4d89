package mqtt

import (
	"bytes"
	"encoding/binary"

	"github.com/mochi-mqtt/server/v2/packets"
)

// form is how a property's value is written (MQTT 5, 2.2.2.2).
type form uint8

const (
	oneByte form = iota + 1
	twoBytes
	fourBytes
	varint
	text
	binaryData
	textPair
)

// rule is where a property may stand and how it is written.
type rule struct {
	form form
	in   uint32 // a bit for each packet type; bit 0 is the will
	most uint32 // the largest value of a number, 0 for any
	zero bool   // a number that may be 0
}

func in(kinds ...byte) (bits uint32) {
	for _, k := range kinds {
		if k == packets.WillProperties {
			k = 0
		}
		bits |= 1 << k
	}
	return bits
}

// rules of what clients may send, by property identifier.
var rules = [43]rule{
	packets.PropPayloadFormat:          {oneByte, in(packets.Publish, packets.WillProperties), 1, true},
	packets.PropMessageExpiryInterval:  {fourBytes, in(packets.Publish, packets.WillProperties), 0, true},
	packets.PropContentType:            {text, in(packets.Publish, packets.WillProperties), 0, true},
	packets.PropResponseTopic:          {text, in(packets.Publish, packets.WillProperties), 0, true},
	packets.PropCorrelationData:        {binaryData, in(packets.Publish, packets.WillProperties), 0, true},
	packets.PropSubscriptionIdentifier: {varint, in(packets.Subscribe), 0, false},
	packets.PropSessionExpiryInterval:  {fourBytes, in(packets.Connect, packets.Disconnect), 0, true},
	packets.PropAuthenticationMethod:   {text, in(packets.Connect, packets.Auth), 0, true},
	packets.PropAuthenticationData:     {binaryData, in(packets.Connect, packets.Auth), 0, true},
	packets.PropRequestProblemInfo:     {oneByte, in(packets.Connect), 1, true},
	packets.PropWillDelayInterval:      {fourBytes, in(packets.WillProperties), 0, true},
	packets.PropRequestResponseInfo:    {oneByte, in(packets.Connect), 1, true},
	packets.PropReasonString: {text, in(packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp,
		packets.Disconnect, packets.Auth), 0, true},
	packets.PropReceiveMaximum:    {twoBytes, in(packets.Connect), 0, false},
	packets.PropTopicAliasMaximum: {twoBytes, in(packets.Connect), 0, true},
	packets.PropTopicAlias:        {twoBytes, in(packets.Publish), 0, true}, // 0 has a code of its own
	packets.PropUser: {textPair, in(packets.Connect, packets.Publish, packets.WillProperties, packets.Puback,
		packets.Pubrec, packets.Pubrel, packets.Pubcomp, packets.Subscribe, packets.Unsubscribe, packets.Disconnect,
		packets.Auth), 0, true},
	packets.PropMaximumPacketSize: {fourBytes, in(packets.Connect), 0, false},
}

// property is one as it was read; a and b are parts of the packet.
type property struct {
	id   byte
	n    uint32 // of a number
	a, b []byte // of text and binary data, both of a pair
}

// takeProperties cuts the block of properties off.
func takeProperties(b []byte) (block, rest []byte, err error) {
	n, rest, err := takeVarint(b)
	if err != nil {
		return nil, nil, err
	}
	if n > len(rest) {
		return nil, nil, errShort
	}
	return rest[:n], rest[n:], nil
}

// takeProperty cuts the first property off a block.
func takeProperty(kind byte, block []byte) (p property, rest []byte, err error) {
	p.id, rest = block[0], block[1:]
	if int(p.id) >= len(rules) || rules[p.id].form == 0 || rules[p.id].in&in(kind) == 0 {
		return p, nil, faultf(protocolError, "property 0x%02X in this packet", p.id)
	}
	r := &rules[p.id]
	switch r.form {
	case text:
		p.a, rest, err = takeString(rest)
	case binaryData:
		p.a, rest, err = takeBytes(rest)
	case textPair:
		if p.a, rest, err = takeString(rest); err == nil {
			p.b, rest, err = takeString(rest)
		}
	default:
		p.n, rest, err = takeNumber(r.form, rest)
		if err == nil && (r.most > 0 && p.n > r.most || p.n == 0 && !r.zero) {
			err = faultf(protocolError, "value %d of property 0x%02X", p.n, p.id)
		}
	}
	return p, rest, err
}

func takeNumber(f form, b []byte) (n uint32, rest []byte, err error) {
	if f == varint {
		v, rest, err := takeVarint(b)
		return uint32(v), rest, err
	}
	size := numberSize[f]
	if len(b) < size {
		return 0, nil, errShort
	}
	switch f {
	case oneByte:
		n = uint32(b[0])
	case twoBytes:
		n = uint32(binary.BigEndian.Uint16(b))
	default:
		n = binary.BigEndian.Uint32(b)
	}
	return n, b[size:], nil
}

var numberSize = [...]int{oneByte: 1, twoBytes: 2, fourBytes: 4}

// tally counts a block's properties against the rules that concern the block
// as a whole.
type tally struct {
	seen  uint64
	users int
}

func (c *conn) count(t *tally, id byte) error {
	if id == packets.PropUser {
		if t.users++; t.users > c.server.cfg.MaxUserProperties {
			return faultf(quota, "more than %d user properties", c.server.cfg.MaxUserProperties)
		}
		return nil
	}
	if t.seen&(1<<id) != 0 {
		return faultf(protocolError, "property 0x%02X twice", id)
	}
	t.seen |= 1 << id
	return nil
}

// checkProperties walks the block in front of b and returns what follows it.
func (c *conn) checkProperties(kind byte, b []byte) (rest []byte, err error) {
	block, rest, err := takeProperties(b)
	if err != nil {
		return nil, err
	}
	if len(block) > c.server.cfg.MaxPropertyBytes {
		return nil, faultf(quota, "more than %d bytes of properties", c.server.cfg.MaxPropertyBytes)
	}
	var t tally
	for len(block) > 0 {
		var p property
		if p, block, err = takeProperty(kind, block); err != nil {
			return nil, err
		}
		if err = c.count(&t, p.id); err != nil {
			return nil, err
		}
		if p.id == packets.PropResponseTopic && (len(p.a) == 0 || bytes.ContainsAny(p.a, "+#")) { // [MQTT-3.3.2-14]
			return nil, faultf(protocolError, "response topic is no topic name")
		}
	}
	const data, method = 1 << packets.PropAuthenticationData, 1 << packets.PropAuthenticationMethod
	if t.seen&data != 0 && t.seen&method == 0 { // 3.1.2.11.10
		return nil, faultf(protocolError, "authentication data without a method")
	}
	return rest, nil
}
