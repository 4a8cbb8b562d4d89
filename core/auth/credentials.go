package auth

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/netip"
)

// Credentials are what a client brings to prove who it is, and from where. A
// front-end fills in what its protocol has; it has proven nothing but what is
// said here.
type Credentials struct {
	Protocol string     // mqtt, stomp, amqp, wamp, coap or http
	Listener string     // the address that it came in on, as the settings have it
	Remote   netip.Addr // the client's own; the zero Addr is a unix socket or a pipe
	ClientID string     // what it wants to be found by again; "" if it did not say

	User     string
	Password string // or a token in its place

	// Certificate is what the client proved by its TLS handshake, verified up
	// to an authority of the settings; nil if none.
	Certificate *x509.Certificate
	// CRA is what a WAMP client signed in place of a password; nil if it did not.
	CRA *CRA
	// PSK is the identity that the client proved by its DTLS handshake; "" if
	// none.
	PSK string
}

// String shows who and from where, and none of what proves it.
func (c Credentials) String() string {
	return fmt.Sprintf("%s client %q of user %q from %v", c.Protocol, c.ClientID, c.User, c.Remote)
}

// GoString implements fmt.GoStringer: %#v shows no more than %v.
func (c Credentials) GoString() string { return c.String() }

// LogValue implements slog.LogValuer.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText is for what writes values in a form of its own.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// CRA is a challenge (WAMP, Challenge Response Authentication) and the client's
// signature of it. Whoever made the challenge takes it once.
type CRA struct{ Challenge, Signature string }
