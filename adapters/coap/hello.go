package coap

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"
)

// Parts of DTLS 1.2 records and handshake messages (RFC 6347, 4.1, 4.2.2).
const (
	recordHeader    = 13
	handshakeHeader = 12

	recordHandshake = 22
	recordCID       = 25 // tls12_cid (RFC 9146, 4)

	typeClientHello        = 1
	typeHelloVerifyRequest = 3

	helloRandom = 32
	// maxHello bounds a ClientHello. It comes in one record; those in parts are
	// dropped, as nothing can be kept of them.
	maxHello = 2048
)

// cookieSize is what the library makes of cookies, and cookieLife how long ours
// are taken at least.
const (
	cookieSize = 20
	cookieLife = time.Minute
)

var errNoHello = errors.New("no ClientHello")

// hello is a ClientHello in one record. Its slices lie in the datagram.
type hello struct {
	record   []byte // all of it
	sequence uint64 // of the record
	message  uint16 // its number in the handshake
	random   []byte
	// before is what stands before the cookie, in the body, and what after it.
	before, after []byte
	cookie        []byte
	// settings are what is negotiated by the body, but for extensions.
	settings []byte
}

// isHello tells whether a datagram begins with a ClientHello.
func isHello(b []byte) bool {
	return len(b) > recordHeader && b[0] == recordHandshake && epochOf(b) == 0 && b[recordHeader] == typeClientHello
}

// epochOf is the epoch of a record whose header is there.
func epochOf(record []byte) uint16 { return binary.BigEndian.Uint16(record[3:]) }

func sequenceOf(record []byte) uint64 {
	return binary.BigEndian.Uint64(record[3:]) & (1<<48 - 1)
}

// setSequence keeps the epoch.
func setSequence(record []byte, n uint64) {
	binary.BigEndian.PutUint64(record[3:], uint64(epochOf(record))<<48|n&(1<<48-1))
}

// recordSize is the length of the record at the front of b; 0 when it is not all
// there. cid is the length of connection ids.
func recordSize(b []byte, cid int) int {
	header := recordHeader
	if len(b) > 0 && b[0] == recordCID {
		header += cid
	}
	if len(b) < header {
		return 0
	}
	n := header + int(binary.BigEndian.Uint16(b[header-2:]))
	if n > len(b) {
		return 0
	}
	return n
}

// readHello reads a datagram that begins with a ClientHello.
func readHello(b []byte) (*hello, error) {
	n := recordSize(b, 0)
	if !isHello(b) || n == 0 || n > maxHello || n < recordHeader+handshakeHeader {
		return nil, errNoHello
	}
	h := &hello{record: b[:n], sequence: sequenceOf(b)}
	head, body := b[recordHeader:recordHeader+handshakeHeader], b[recordHeader+handshakeHeader:n]
	length, offset, part := uint24(head[1:]), uint24(head[6:]), uint24(head[9:])
	if length != len(body) || offset != 0 || part != length {
		return nil, errNoHello
	}
	h.message = binary.BigEndian.Uint16(head[4:])
	return h, h.readBody(body)
}

func (h *hello) readBody(body []byte) error {
	const fixed = 2 + helloRandom
	if len(body) < fixed {
		return errNoHello
	}
	h.random = body[2:fixed]
	rest, ok := skipVector(body[fixed:], 1) // the session's id
	if !ok {
		return errNoHello
	}
	h.before = body[:len(body)-len(rest)]
	behind, ok := skipVector(rest, 1)
	if !ok {
		return errNoHello
	}
	h.cookie, h.after = rest[1:len(rest)-len(behind)], behind
	suites, ok := skipVector(behind, 2)
	if !ok {
		return errNoHello
	}
	extensions, ok := skipVector(suites, 1) // behind the compression methods
	if !ok {
		return errNoHello
	}
	h.settings = behind[:len(behind)-len(extensions)]
	return nil
}

// skipVector is what stands behind a vector whose length has so many bytes.
func skipVector(b []byte, lengthBytes int) ([]byte, bool) {
	if len(b) < lengthBytes {
		return nil, false
	}
	n := 0
	for _, c := range b[:lengthBytes] {
		n = n<<8 | int(c)
	}
	if len(b) < lengthBytes+n {
		return nil, false
	}
	return b[lengthBytes+n:], true
}

func uint24(b []byte) int { return int(b[0])<<16 | int(b[1])<<8 | int(b[2]) }

func putUint24(b []byte, n int) { b[0], b[1], b[2] = byte(n>>16), byte(n>>8), byte(n) }

// first is the ClientHello as it was before the client had a cookie, as a record
// of its own.
func (h *hello) first() []byte {
	body := len(h.before) + 1 + len(h.after)
	b := make([]byte, 0, recordHeader+handshakeHeader+body)
	b = append(b, h.record[:recordHeader+handshakeHeader]...)
	b = append(append(append(b, h.before...), 0), h.after...)
	setSequence(b, h.sequence-1)
	binary.BigEndian.PutUint16(b[recordHeader-2:], uint16(handshakeHeader+body))
	head := b[recordHeader:]
	putUint24(head[1:], body)
	binary.BigEndian.PutUint16(head[4:], 0)
	putUint24(head[9:], body)
	return b
}

// cookies prove that clients of DTLS are where they say (RFC 6347, 4.2.1). A
// cookie is a code over a time, the address and what is negotiated, so nothing is
// kept for a client that does not return it.
type cookies struct{ key [32]byte }

func newCookies() *cookies {
	c := &cookies{}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

func (c *cookies) make(h *hello, at netip.AddrPort, now time.Time) []byte {
	return c.sign(h, at, now.Unix()/int64(cookieLife.Seconds()))
}

func (c *cookies) sign(h *hello, at netip.AddrPort, slot int64) []byte {
	m := hmac.New(sha256.New, c.key[:])
	a := at.Addr().As16()
	_, _ = m.Write(binary.BigEndian.AppendUint64(nil, uint64(slot))) // never fails
	_, _ = m.Write(a[:])
	_, _ = m.Write(binary.BigEndian.AppendUint16(nil, at.Port()))
	_, _ = m.Write(h.before)
	_, _ = m.Write(h.settings)
	return m.Sum(nil)[:cookieSize]
}

// valid tells whether a ClientHello bears the cookie of its address, and could
// have been sent after a HelloVerifyRequest.
func (c *cookies) valid(h *hello, at netip.AddrPort, now time.Time) bool {
	if len(h.cookie) != cookieSize || h.message != 1 || h.sequence == 0 {
		return false
	}
	slot := now.Unix() / int64(cookieLife.Seconds())
	return hmac.Equal(h.cookie, c.sign(h, at, slot)) || hmac.Equal(h.cookie, c.sign(h, at, slot-1))
}

// appendHelloVerify writes the HelloVerifyRequest for a ClientHello; it is smaller
// than that.
func appendHelloVerify(b []byte, h *hello, cookie []byte) []byte {
	const version = 0xfeff // whatever is negotiated (RFC 6347, 4.2.1)
	body := 2 + 1 + len(cookie)
	b = binary.BigEndian.AppendUint16(append(b, recordHandshake), version)
	b = binary.BigEndian.AppendUint64(b, h.sequence) // epoch 0
	b = binary.BigEndian.AppendUint16(b, uint16(handshakeHeader+body))
	b = append(b, typeHelloVerifyRequest, 0, 0, byte(body), 0, 0, 0, 0, 0, 0, 0, byte(body))
	b = binary.BigEndian.AppendUint16(b, version)
	return append(append(b, byte(len(cookie))), cookie...)
}

// isHelloVerify tells whether a datagram is a HelloVerifyRequest.
func isHelloVerify(b []byte) bool {
	return len(b) > recordHeader && b[0] == recordHandshake && epochOf(b) == 0 && b[recordHeader] == typeHelloVerifyRequest
}
