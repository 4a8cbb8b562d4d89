package mqtt

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"entrepot/core"
)

// reason is an MQTT 5 reason code (2.4).
type reason byte

const (
	success            reason = 0x00
	disconnectWithWill reason = 0x04
	reauthenticate     reason = 0x19
	noMatch            reason = 0x10
	noSubscription     reason = 0x11
	unspecified        reason = 0x80
	malformed          reason = 0x81
	protocolError      reason = 0x82
	implementation     reason = 0x83
	badVersion         reason = 0x84
	badClientID        reason = 0x85
	badLogIn           reason = 0x86
	notAuthorized      reason = 0x87
	unavailable        reason = 0x88
	shuttingDown       reason = 0x8B
	badAuthMethod      reason = 0x8C
	keepAliveTimeout   reason = 0x8D
	takenOver          reason = 0x8E
	badFilter          reason = 0x8F
	badTopic           reason = 0x90
	idInUse            reason = 0x91
	idNotFound         reason = 0x92
	receiveMaximum     reason = 0x93
	badAlias           reason = 0x94
	tooLarge           reason = 0x95
	quota              reason = 0x97
	administrative     reason = 0x98
	badPayload         reason = 0x99
	badQoS             reason = 0x9B
)

// fault ends a connection; an MQTT 5 client is told its code and text.
type fault struct {
	code reason
	text string
}

func (f fault) Error() string { return fmt.Sprintf("reason 0x%02X: %s", byte(f.code), f.text) }

func faultf(code reason, format string, args ...any) error {
	return fault{code, fmt.Sprintf(format, args...)}
}

// refusal is a publish or subscribe that this broker does not take; the
// connection goes on.
type refusal struct {
	code reason
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code reason, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// codes maps the core's kinds of refusal: publish is what PUBACK and PUBREC may
// carry (MQTT 5, 3.4.2.1), subscribe what SUBACK and UNSUBACK may (3.9.3).
var codes = []struct {
	err                error
	publish, subscribe reason
}{
	{core.ErrNotAllowed, notAuthorized, unspecified},
	{core.ErrLocked, notAuthorized, notAuthorized},
	{core.ErrNotFound, badTopic, badFilter},
	{core.ErrInvalid, badTopic, badFilter},
	{core.ErrFull, quota, quota},
	{core.ErrTooLarge, quota, quota},
	{core.ErrConflict, implementation, implementation},
	{core.ErrInUse, implementation, implementation},
	{core.ErrUnsupported, implementation, implementation},
	{core.ErrTimeout, unspecified, unspecified},
	{core.ErrClosed, unspecified, unspecified},
}

// publishReason is the code that a publisher gets for err.
func publishReason(err error) reason {
	code, _ := lookup(err)
	return code
}

// subscribeReason is the code that a subscriber gets for err.
func subscribeReason(err error) reason {
	_, code := lookup(err)
	return code
}

func lookup(err error) (publish, subscribe reason) {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.code, r.code
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.publish, c.subscribe
		}
	}
	return unspecified, unspecified
}

// dropReason is what a QoS 0 message that nobody is told about counts as.
func dropReason(code reason) core.DropReason {
	if code == tooLarge {
		return core.DropTooLarge
	}
	return core.DropNotAllowed
}

// connack3 is the return code of MQTT 3.1.1 (3.2.2.3) for a reason; ok is false
// where that version just closes.
func connack3(code reason) (b byte, ok bool) {
	switch code {
	case success:
		return 0, true
	case badVersion:
		return 1, true
	case badClientID:
		return 2, true
	case unavailable, shuttingDown, quota:
		return 3, true
	case badLogIn:
		return 4, true
	case notAuthorized:
		return 5, true
	}
	return 0, false
}

// maxText bounds a reason string in bytes.
const maxText = 256

// clipped is text as a reason string: short, whole runes.
func clipped(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
