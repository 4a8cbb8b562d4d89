package coap

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

const (
	// amplification is how many times its request an answer may be before the
	// client's address is proven (RFC 7252, 11.3).
	amplification = 3
	// echoLife is how long an Echo value is taken, and an address stays proven.
	echoLife = 5 * time.Minute
	// maxProven bounds the addresses that are remembered as proven.
	maxProven = 100_000
)

// echoes prove that clients are where they say (RFC 9175, 2.3). An Echo value
// is a time and a code over it and the address, so nothing is kept for a client
// that does not answer.
type echoes struct {
	server *Server
	key    [32]byte

	mu     sync.Mutex
	proven map[netip.AddrPort]time.Time
}

func newEchoes(s *Server) *echoes {
	e := &echoes{server: s, proven: map[netip.AddrPort]time.Time{}}
	_, _ = rand.Read(e.key[:]) // never fails
	return e
}

// allows tells whether an answer with so large a payload may be sent.
func (e *echoes) allows(r *request, payload int) bool {
	if payload <= amplification*r.size {
		return true
	}
	if len(r.echo) > 0 && e.valid(r.to.where(), r.echo, time.Now()) {
		e.prove(r.to)
		return true
	}
	return e.proves(r.to)
}

// proves tells whether a client is where it says, or nobody asks.
func (e *echoes) proves(to route) bool {
	if !e.server.cfg.Echo || to.link.proven(to.addr) {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.proven[to.where()]
	return ok && time.Since(at) < echoLife
}

// challenge is the answer that asks for an Echo.
func (e *echoes) challenge(to route) *response {
	e.server.count(countChallenge)
	res := &response{code: codes.Unauthorized}
	res.add(message.Echo, e.value(to.where(), time.Now()))
	return res
}

func (e *echoes) value(at netip.AddrPort, now time.Time) []byte {
	return e.sign(at, binary.BigEndian.AppendUint32(nil, uint32(now.Unix())))
}

// sign puts a code behind a time.
func (e *echoes) sign(at netip.AddrPort, when []byte) []byte {
	h := hmac.New(sha256.New, e.key[:])
	a := at.Addr().As16()
	_, _ = h.Write(when) // never fails
	_, _ = h.Write(a[:])
	_, _ = h.Write(binary.BigEndian.AppendUint16(nil, at.Port()))
	return append(when[:4:4], h.Sum(nil)[:8]...)
}

func (e *echoes) valid(at netip.AddrPort, v []byte, now time.Time) bool {
	if len(v) != 12 {
		return false
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint32(v)), 0))
	return age > -2*time.Second && age < echoLife && hmac.Equal(v, e.sign(at, v[:4]))
}

// prove notes that a client is where it says: it answered something that only
// it was sent.
func (e *echoes) prove(to route) {
	if to.link.proven(to.addr) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.proven[to.where()]; ok || len(e.proven) < maxProven {
		e.proven[to.where()] = time.Now()
	}
}

func (e *echoes) sweep(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for at, when := range e.proven {
		if now.Sub(when) >= echoLife {
			delete(e.proven, at)
		}
	}
}

// uint64Bytes is a number as 8 bytes.
func uint64Bytes(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
