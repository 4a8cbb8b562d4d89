package mqtt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mochi-mqtt/server/v2/packets"

	"entrepot/core"
)

// Every kind of refusal has a code that PUBACK (MQTT 5, 3.4.2.1) and SUBACK
// (3.9.3) may carry.
func TestReasonCodes(t *testing.T) {
	for _, c := range []struct {
		err                error
		publish, subscribe reason
	}{
		{core.ErrNotFound, 0x90, 0x8F},
		{core.ErrConflict, 0x83, 0x83},
		{core.ErrLocked, 0x87, 0x87},
		{core.ErrInUse, 0x83, 0x83},
		{core.ErrNotAllowed, 0x87, 0x80},
		{core.ErrFull, 0x97, 0x97},
		{core.ErrTooLarge, 0x97, 0x97},
		{core.ErrInvalid, 0x90, 0x8F},
		{core.ErrUnsupported, 0x83, 0x83},
		{core.ErrTimeout, 0x80, 0x80},
		{core.ErrClosed, 0x80, 0x80},
		{errors.New("unheard of"), 0x80, 0x80},
		{&refusal{badPayload, "x"}, 0x99, 0x99},
		{errReserved, 0x87, 0x80},
	} {
		err := fmt.Errorf("queue %q: %w", "x", c.err)
		if got := publishReason(err); got != c.publish {
			t.Errorf("publish: %v is 0x%02X, want 0x%02X", c.err, got, c.publish)
		}
		if got := subscribeReason(err); got != c.subscribe {
			t.Errorf("subscribe: %v is 0x%02X, want 0x%02X", c.err, got, c.subscribe)
		}
		if !ackReason(packets.Puback, publishReason(err)) {
			t.Errorf("%v: PUBACK cannot carry 0x%02X", c.err, publishReason(err))
		}
	}
}

// 3.1.1, 3.2.2.3: the five return codes, and closing for the rest.
func TestReturnCodes(t *testing.T) {
	want := map[reason]byte{success: 0, badVersion: 1, badClientID: 2, badLogIn: 4, unavailable: 3, shuttingDown: 3, quota: 3, notAuthorized: 5}
	for code := range 256 {
		b, ok := connack3(reason(code))
		w, known := want[reason(code)]
		if ok != known || b != w {
			t.Errorf("0x%02X: %d %v, want %d %v", code, b, ok, w, known)
		}
	}
}

func TestClippedText(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("é", 300), strings.Repeat("x", 257), strings.Repeat("世", 100)} {
		got := clipped(s)
		if len(got) > maxText || !strings.HasPrefix(s, got) || !utf8.ValidString(got) || len(s) <= maxText && got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}
