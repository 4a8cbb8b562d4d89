package mqtt

import (
	"bytes"
	"unicode/utf8"

	"github.com/mochi-mqtt/server/v2/packets"
)

// What mochi's codec leaves out is checked here, on the bytes and before it
// reads them: that every length stays inside what holds it, properties stand
// where they may, once, with a value that exists, and strings are what 1.5.4
// says. Nothing is allocated for what a length claims.

var (
	errShort    = fault{malformed, "packet ends too early"}
	errSurplus  = fault{malformed, "bytes after the end of the packet"}
	errFlags    = fault{malformed, "reserved bits of the fixed header"}
	errPacketID = fault{protocolError, "packet identifier 0"}
	errUTF8     = fault{malformed, "string is not UTF-8 without NUL and U+FFFF"}
	errVarint   = fault{malformed, "variable byte integer"}
)

// takeUint16 cuts two bytes off.
func takeUint16(b []byte) (n uint16, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, errShort
	}
	return uint16(b[0])<<8 | uint16(b[1]), b[2:], nil
}

// takeID cuts a packet identifier off ([MQTT-2.2.1-3]).
func takeID(b []byte) (id uint16, rest []byte, err error) {
	id, rest, err = takeUint16(b)
	if err == nil && id == 0 {
		err = errPacketID
	}
	return id, rest, err
}

// takeBytes cuts binary data off (1.5.6).
func takeBytes(b []byte) (data, rest []byte, err error) {
	n, rest, err := takeUint16(b)
	if err != nil || len(rest) < int(n) {
		return nil, nil, errShort
	}
	return rest[:n], rest[n:], nil
}

// takeString cuts a UTF-8 string off (1.5.4).
func takeString(b []byte) (s, rest []byte, err error) {
	s, rest, err = takeBytes(b)
	if err == nil && !validString(s) {
		err = errUTF8
	}
	return s, rest, err
}

var nonCharacter = []byte("\uFFFF")

// validString holds [MQTT-1.5.4-1] (surrogates are no UTF-8), [MQTT-1.5.4-2],
// and refuses U+FFFF, as 1.5.4 allows.
func validString(s []byte) bool {
	return utf8.Valid(s) && bytes.IndexByte(s, 0) < 0 && !bytes.Contains(s, nonCharacter)
}

// takeVarint cuts a variable byte integer off, in its shortest form
// ([MQTT-1.5.5-1]).
func takeVarint(b []byte) (n int, rest []byte, err error) {
	for i := range min(4, len(b)) {
		n |= int(b[i]&0x7F) << (7 * i)
		if b[i] < 0x80 {
			if b[i] == 0 && i > 0 {
				return 0, nil, errVarint
			}
			return n, b[i+1:], nil
		}
	}
	if len(b) < 4 {
		return 0, nil, errShort
	}
	return 0, nil, errVarint
}

// frame finds the first packet in b: its fixed header's length and its whole
// size, 0 while b does not hold the whole header.
func frame(b []byte) (head, size int, err error) {
	n := 0
	for i := 1; i < len(b); i++ {
		if i > 4 {
			return 0, 0, errVarint
		}
		n |= int(b[i]&0x7F) << (7 * (i - 1))
		if b[i] < 0x80 {
			return i + 1, i + 1 + n, nil
		}
	}
	if len(b) > 4 {
		return 0, 0, errVarint
	}
	return 0, 0, nil
}

// checkFlags holds the reserved bits of all packets but PUBLISH ([MQTT-2.1.3-1]).
func checkFlags(first byte) error {
	want := byte(0)
	switch first >> 4 {
	case packets.Pubrel, packets.Subscribe, packets.Unsubscribe:
		want = 2
	}
	if first&0x0F != want {
		return errFlags
	}
	return nil
}

// checkConnect walks a CONNECT whose protocol name and level are good, and
// reads the properties of its will.
func (c *conn) checkConnect(b []byte, level byte) (will brought, err error) {
	b = b[2+int(b[1])+1:] // the name is short, see protocolLevel
	if len(b) < 3 {
		return will, errShort
	}
	flags := b[0]
	if err := checkConnectFlags(flags, level); err != nil {
		return will, err
	}
	if b = b[3:]; level == 5 {
		if b, err = c.checkProperties(packets.Connect, b); err != nil {
			return will, err
		}
	}
	if _, b, err = takeString(b); err != nil { // client identifier
		return will, err
	}
	if flags&0x04 != 0 {
		if will, b, err = c.checkWill(b, level); err != nil {
			return will, err
		}
	}
	return will, checkLogin(b, flags)
}

func (c *conn) checkWill(b []byte, level byte) (will brought, rest []byte, err error) {
	if level == 5 {
		if will, b, err = c.takeMessageProperties(packets.WillProperties, b); err != nil {
			return will, nil, err
		}
	}
	if _, b, err = takeString(b); err != nil {
		return will, nil, err
	}
	_, b, err = takeBytes(b)
	return will, b, err
}

// checkLogin walks user name and password, the end of a CONNECT.
func checkLogin(b []byte, flags byte) (err error) {
	if flags&0x80 != 0 {
		if _, b, err = takeString(b); err != nil {
			return err
		}
	}
	if flags&0x40 != 0 {
		if _, b, err = takeBytes(b); err != nil {
			return err
		}
	}
	if len(b) > 0 {
		return errSurplus
	}
	return nil
}

// checkConnectFlags holds 3.1.2.3 to 3.1.2.9.
func checkConnectFlags(flags, level byte) error {
	will, qos := flags&0x04 != 0, flags>>3&3
	switch {
	case flags&0x01 != 0: // [MQTT-3.1.2-3]
		return faultf(malformed, "reserved bit of the connect flags")
	case qos == 3: // [MQTT-3.1.2-12]
		return faultf(malformed, "QoS 3 of the will")
	case !will && (qos != 0 || flags&0x20 != 0): // [MQTT-3.1.2-11] [MQTT-3.1.2-13]
		return faultf(malformed, "QoS or retain of a will that is not there")
	case level < 5 && flags&0xC0 == 0x40: // [MQTT-3.1.2-22] of 3.1.1
		return faultf(malformed, "password without user name")
	}
	return nil
}

// checkSubscribe walks a SUBSCRIBE or UNSUBSCRIBE.
func (c *conn) checkSubscribe(kind byte, b []byte) error {
	_, b, err := takeID(b)
	if err != nil {
		return err
	}
	if c.version == 5 {
		if b, err = c.checkProperties(kind, b); err != nil {
			return err
		}
	}
	if len(b) == 0 { // [MQTT-3.8.3-2] [MQTT-3.10.3-2]
		return faultf(protocolError, "no topic filter")
	}
	most := c.server.cfg.MaxSubscriptions
	for n := 0; len(b) > 0; n++ {
		if n == most {
			return faultf(quota, "more than %d topic filters", most)
		}
		if _, b, err = takeString(b); err != nil {
			return err
		}
		if kind == packets.Unsubscribe {
			continue
		}
		if len(b) == 0 {
			return errShort
		}
		if err := checkOptions(b[0], c.version); err != nil {
			return err
		}
		b = b[1:]
	}
	return nil
}

// checkOptions holds 3.8.3.1.
func checkOptions(o, version byte) error {
	reserved := byte(0xC0)
	if version < 5 {
		reserved = 0xFC
	}
	switch {
	case o&reserved != 0: // [MQTT-3.8.3-5]
		return faultf(malformed, "reserved bits of the subscription options")
	case o&3 == 3:
		return faultf(protocolError, "subscription with QoS 3")
	case o>>4&3 == 3:
		return faultf(protocolError, "retain handling 3")
	}
	return nil
}

// takeAck reads PUBACK, PUBREC, PUBREL and PUBCOMP.
func (c *conn) takeAck(kind byte, b []byte) (id uint16, code reason, err error) {
	id, b, err = takeID(b)
	if err != nil || len(b) == 0 {
		return id, success, err
	}
	if c.version < 5 {
		return 0, 0, errSurplus
	}
	code = reason(b[0])
	if !ackReason(kind, code) {
		return 0, 0, faultf(protocolError, "reason code 0x%02X of an acknowledgement", b[0])
	}
	if b = b[1:]; len(b) > 0 {
		if b, err = c.checkProperties(kind, b); err != nil {
			return 0, 0, err
		}
	}
	if len(b) > 0 {
		return 0, 0, errSurplus
	}
	return id, code, nil
}

// ackReason tells the codes that an acknowledgement may carry ([MQTT-3.4.2-1]
// and the like).
func ackReason(kind byte, code reason) bool {
	if kind == packets.Pubrel || kind == packets.Pubcomp {
		return code == success || code == idNotFound
	}
	switch code {
	case success, noMatch, unspecified, implementation, notAuthorized, badTopic, idInUse, quota, badPayload:
		return true
	}
	return false
}
