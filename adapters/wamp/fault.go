package wamp

import (
	"errors"
	"fmt"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
)

// Error URIs that nexus does not name, or under another name.
const (
	errURI       = wamp.ErrInvalidURI
	errArgument  = wamp.ErrInvalidArgument
	errSize      = wamp.URI("wamp.error.payload_size_exceeded")
	errFull      = wamp.URI("wamp.error.unavailable")
	errNotFound  = wamp.URI("wamp.error.not_found")
	errNotYet    = wamp.URI("wamp.error.feature_not_supported")
	errTooMany   = wamp.URI("wamp.error.too_many_requests")
	errAuth      = wamp.URI("wamp.error.authentication_failed")
	errNoMethod  = wamp.URI("wamp.error.no_matching_auth_method")
	errDiscloses = wamp.ErrOptionDisallowedDiscloseMe
)

// refusal is what a client is told in an ERROR.
type refusal struct {
	uri  wamp.URI
	text string
}

func (r *refusal) Error() string { return string(r.uri) + ": " + r.text }

func refuse(uri wamp.URI, format string, args ...any) error {
	return &refusal{uri, fmt.Sprintf(format, args...)}
}

// violation ends a connection: the client broke the protocol.
type violation struct{ text string }

func (v *violation) Error() string { return "protocol violation: " + v.text }

func violated(format string, args ...any) error { return &violation{fmt.Sprintf(format, args...)} }

// errorURI maps what core and this package return to WAMP.
func errorURI(err error) wamp.URI {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.uri
	}
	for _, m := range [...]struct {
		kind error
		uri  wamp.URI
	}{
		{core.ErrNotAllowed, wamp.ErrNotAuthorized},
		{core.ErrTooLarge, errSize},
		{core.ErrFull, errFull},
		{core.ErrNotFound, errNotFound},
		{core.ErrUnsupported, errNotYet},
		{core.ErrTimeout, wamp.ErrTimeout},
		{core.ErrConflict, wamp.ErrProcedureAlreadyExists},
		{core.ErrInUse, errFull},
		{core.ErrLocked, wamp.ErrNotAuthorized},
		{core.ErrClosed, wamp.ErrCanceled},
	} {
		if errors.Is(err, m.kind) {
			return m.uri
		}
	}
	return errArgument
}
