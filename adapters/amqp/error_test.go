package amqp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/core/auth"
)

// What the core refuses, and what the client is told.
func TestRefusals(t *testing.T) {
	c := &conn{vhost: "/", login: login{proof: auth.Credentials{User: "ann"}}}
	for _, r := range []struct {
		err  error
		code frame.Code
		text string
	}{
		{core.ErrNotFound, frame.NotFound, "NOT_FOUND - no queue 'q' in vhost '/'"},
		{core.ErrConflict, frame.PreconditionFailed, "PRECONDITION_FAILED - about: exists with other properties"},
		{&core.Difference{Property: "durable", Have: true, Want: false}, frame.PreconditionFailed,
			"PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"},
		{&core.Difference{Property: "exclusive"}, frame.ResourceLocked, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'"},
		{core.ErrLocked, frame.ResourceLocked, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'"},
		{core.ErrInUse, frame.PreconditionFailed, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"},
		{core.ErrNotAllowed, frame.AccessRefused, "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'ann'"},
		{core.ErrFull, frame.ResourceError, "RESOURCE_ERROR - about: full"},
		{core.ErrTooLarge, frame.ContentTooLarge, "CONTENT_TOO_LARGE - about: too large"},
		{core.ErrInvalid, frame.PreconditionFailed, "PRECONDITION_FAILED - about: invalid"},
		{core.ErrUnsupported, frame.PreconditionFailed, "PRECONDITION_FAILED - about: not supported"},
		{core.ErrTimeout, frame.InternalError, "INTERNAL_ERROR - about: timed out"},
		{core.ErrClosed, frame.ConnectionForced, "CONNECTION_FORCED - about: closed"},
		{errors.New("a fault of ours"), frame.InternalError, "INTERNAL_ERROR - internal error"},
	} {
		f := c.faultOf(fmt.Errorf("about: %w", r.err), c.queueNoun("q"))
		if f.code != r.code || !strings.HasPrefix(f.Error(), r.text) {
			t.Errorf("%v: %d %s, want %d %s", r.err, f.code, f, r.code, r.text)
		}
	}
}

// A reply text that is too long for the wire is cut between characters.
func TestClip(t *testing.T) {
	for _, n := range []int{253, 254, 255, 256} {
		text := strings.Repeat("x", n) + "éé"
		got := clip(text)
		if len(got) > frame.MaxShortText || !strings.HasPrefix(text, got) || strings.ContainsRune(got, '\uFFFD') || len(got) < frame.MaxShortText-1 {
			t.Errorf("%d: %d bytes", n, len(got))
		}
	}
}
