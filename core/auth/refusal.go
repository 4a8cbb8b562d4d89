package auth

import (
	"errors"
	"fmt"
)

// Errors that a log-in ends with, wrapped.
var (
	// ErrRefused is a log-in that did not prove who the client is, or by one who
	// may not come in; clients are not told which.
	ErrRefused = errors.New("log-in refused")
	// ErrBusy is a log-in that was not looked at: too many at once, or too many
	// that failed.
	ErrBusy = errors.New("too many log-ins")
)

// Reason is why a log-in was refused, as the log and the figures have it. The
// set is closed.
type Reason string

const (
	BadPassword    Reason = "password" // or no such user
	BadAnonymous   Reason = "anonymous"
	BadToken       Reason = "token"
	BadExpired     Reason = "token_expired"
	BadCertificate Reason = "certificate"
	BadKey         Reason = "psk"
	BadProtocol    Reason = "protocol"
	BadListener    Reason = "listener"
	BadNetwork     Reason = "network"
	BadClientID    Reason = "client_id" // it is another user's
	TooMany        Reason = "too_many"  // failures from there
	Busy           Reason = "busy"      // nobody looked at it in time
)

// Guess tells a refusal that may be an attempt at somebody else's name.
func (r Reason) Guess() bool { return r == BadPassword || r == BadToken || r == BadKey }

// Refusal is an error that wraps ErrRefused. Its text is for the log.
type Refusal struct {
	Reason Reason
	// User is whom the client said it is, or a certificate or token; "" if
	// nobody. It may be any text.
	User string
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("%v: %s: %s", ErrRefused, r.Reason, r.Text) }

// Unwrap implements errors.
func (r *Refusal) Unwrap() error { return ErrRefused }

func refuse(why Reason, user, format string, args ...any) error {
	return &Refusal{Reason: why, User: user, Text: fmt.Sprintf(format, args...)}
}
