package core_test

import (
	"testing"

	"entrepot/core"
	"entrepot/core/auth"
)

// Who a client is stands in messages that others get, so it is text that every
// protocol can carry (fault 24).
func TestHelloIsPlainText(t *testing.T) {
	bubble(t, func(h *house) {
		for _, bad := range []string{"a\x00", "\xff", "\xed\xa0\x80", "a\uffff"} {
			for _, hello := range []core.Hello{
				{Protocol: "test", Principal: auth.Principal{ClientID: bad}},
				{Protocol: "test", ClientID: "a", Principal: auth.Principal{ClientID: bad}, Resumable: true, Expiry: core.Forever},
				{Protocol: "test", Principal: auth.Principal{User: bad}},
			} {
				_, _, err := h.broker.Connect(h.ctx, hello)
				h.wantError(err, core.ErrInvalid)
			}
		}
		if n := h.broker.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
