package coap

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pion/dtls/v3"
)

// claim is what a client said in its handshake of who it is, and what came of it.
type claim struct {
	mu       sync.Mutex
	identity string // of a key; "" if it named none
	putOff   bool   // it was not looked at
	refused  bool   // a certificate was
}

// name notes the identity of a key.
func (c *claim) name(identity string, putOff bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.identity, c.putOff = identity, putOff
}

// refuse notes that a certificate does not count.
func (c *claim) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = true
}

// Reasons for handshakes that did not come to an end.
const (
	failedKey         = iota // the identity or the key of a client
	failedCertificate        // the client's
	failedTime               // not done in time
	failedNegotiation        // nothing that both speak, or malformed
	failedGone               // the client went away, or had to
	failures
)

// failed counts handshakes by why they failed.
type failed [failures]atomic.Uint64

// addTo adds them to counts, under the names of reasons that streams have, too.
func (f *failed) addTo(counts map[string]uint64) {
	for i, name := range [failures]string{"psk", "certificate", "timeout", "negotiation", "gone"} {
		counts[name] += f[i].Load()
	}
}

// unproved counts a handshake that failed. Who named an identity and did not prove
// it is slowed down, as one with a wrong password is: a wrong key is not told from
// a client that does not go on.
func (s *Server) unproved(a *association, err error) {
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	why := failedGone
	var local *dtls.HandshakeError
	switch c := &a.claim; {
	case s.stopping(), a.left():
	case c.identity != "":
		why = failedKey
		if !c.putOff { // that was counted
			who := a.socket.credentials(a.began)
			who.User = c.identity
			s.broker.Unproved(who)
		}
	case c.refused:
		why = failedCertificate
	case errors.Is(err, errHandshakeTime):
		why = failedTime
	case errors.As(err, &local):
		why = failedNegotiation
	}
	s.failed[why].Add(1)
}
