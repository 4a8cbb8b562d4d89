package wamp

import (
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core/auth"
)

// The authentication methods (WAMP, Authentication), beside "cookie", which is a
// page's own log-in.
const (
	methodTicket      = "ticket"
	methodCRA         = "wampcra"
	methodCertificate = "tls"
	methodAnonymous   = "anonymous"
)

// offers tells whether the client may try a method that it names. It does not
// depend on whether there is a user of that name.
func (c *conn) offers(method string, h *hello) bool {
	door := h.realm.broker.Door()
	switch method {
	case "cookie":
		return c.visit != nil
	case methodTicket:
		return h.authid != "" || door.TakesTokens()
	case methodCRA:
		return h.authid != "" && door.TakesCRA()
	case methodCertificate:
		return c.conn.Certificate() != nil && door.TakesCertificates()
	}
	return method == methodAnonymous
}

// begin takes the first step of a method.
func (c *conn) begin(method string, h *hello) error {
	h.method = method
	switch method {
	case "cookie":
		return c.joinVisit(h)
	case methodTicket:
		return c.challenge(h, nil)
	case methodCRA:
		return c.challengeCRA(h)
	}
	return c.logIn(h, "")
}

// challenge asks for a ticket (WAMP, Ticket-based Authentication) or a signature.
func (c *conn) challenge(h *hello, extra dict) error {
	c.pending, c.state = h, challenged
	c.send(&c.batch, wamp.CHALLENGE, 3, func(buf []byte) []byte {
		return c.details(c.value(buf, h.method), extra)
	})
	return nil
}

// challengeCRA asks for a signature (WAMP, Challenge Response Authentication).
// Everybody is asked in the same way, whether there is such a user or not.
func (c *conn) challengeCRA(h *hello) error {
	text, err := json.Marshal(map[string]any{
		"authid": h.authid, "authmethod": methodCRA, "authprovider": "static", "authrole": roleOfUsers,
		"nonce": rand.Text(), "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
	})
	if err != nil {
		return refuse(errAuth, "challenge: %v", err)
	}
	h.challenge = string(text)
	salt := h.realm.broker.Door().Salt(h.authid)
	return c.challenge(h, dict{{"challenge", h.challenge}, {"salt", salt.Salt},
		{"iterations", uint64(salt.Passes)}, {"keylen", uint64(salt.Length)}})
}

// proof is what the client brings by its method.
func (c *conn) proof(h *hello, signature string) auth.Credentials {
	p := c.conn.Credentials(protocol)
	p.ClientID = h.details.text("x_client_id")
	switch h.method {
	case methodTicket:
		p.User, p.Password = h.authid, signature
	case methodCRA:
		p.User, p.CRA = h.authid, &auth.CRA{Challenge: h.challenge, Signature: signature}
	case methodCertificate:
		p.User = h.authid
	case methodAnonymous:
		p.Certificate = nil
	}
	return p
}
