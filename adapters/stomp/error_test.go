package stomp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"entrepot/core"
)

// TestRefusals: every kind of the core's refusals has a message of its own, and the
// sentence that came with it is in the body.
func TestRefusals(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range []error{core.ErrNotFound, core.ErrConflict, core.ErrLocked, core.ErrInUse, core.ErrNotAllowed,
		core.ErrFull, core.ErrTooLarge, core.ErrInvalid, core.ErrUnsupported, core.ErrTimeout, core.ErrClosed} {
		f := faultOf(fmt.Errorf("queue %q: %w", "orders", kind))
		if f.message == "internal error" || seen[f.message] {
			t.Errorf("%v: %q", kind, f.message)
		}
		seen[f.message] = true
		if !strings.Contains(f.Error(), `queue "orders"`) || !errors.Is(f, kind) {
			t.Errorf("%v: %q", kind, f.Error())
		}
		text := string(appendError(nil, v12, f, []byte("r")))
		if !strings.HasPrefix(text, "ERROR\nmessage:"+f.message+"\nreceipt-id:r\ncontent-type:text/plain\n") {
			t.Errorf("%v: %q", kind, text)
		}
	}
	if f := faultOf(errors.New("secret")); f.message != "internal error" || strings.Contains(f.Error(), "secret") {
		t.Errorf("an unknown error: %q", f.Error())
	}
}
