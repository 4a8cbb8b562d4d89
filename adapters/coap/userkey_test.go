package coap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core/auth"
)

// The key of a user in the users file lets a DTLS client in as that user, before
// one of the file of keys (ann has one there), and what is said of the user holds for it: where it may
// come in, how many connections it may have, what it may do (RFC 4279, 2; RFC
// 7252, 5.9.2).
func TestKeysOfUsers(t *testing.T) {
	s := newSecured(t, DefaultConfig())
	key := strings.Repeat("k", 16)
	hexed := " psk=" + strings.Repeat("6b", 16)
	path := filepath.Join(t.TempDir(), "users")
	text := "ann:* groups=ops" + hexed + "\ncleo:* protocols=mqtt" + hexed + "\ndora:* networks=10.0.0.0/8" + hexed + "\nevan:* max-connections=1" + hexed + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	s.broker.SetDoor(auth.NewDoor(users))
	s.broker.SetPolicy(func(who auth.Principal, a auth.Action, o auth.Object) error {
		if a == auth.Publish && (o.Name != "open" || who.User == "ann" && len(who.Groups) != 1) {
			return errors.New("not there")
		}
		return nil
	})
	put := func(user, topic string) codes.Code {
		c := mustDial(t, s.at, as(user, key)...)
		return exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.PUT, id: 1, options: options([]string{"t", topic}), payload: []byte("1")}).code
	}
	for _, c := range []struct {
		user, topic string
		want        codes.Code
	}{
		{"ann", "open", codes.Changed},
		{"ann", "closed", codes.Forbidden},
		{"cleo", "open", codes.Unauthorized},
		{"dora", "open", codes.Unauthorized},
		{"evan", "open", codes.Changed},
		{"evan", "open", codes.ServiceUnavailable}, // its first one is still open
	} {
		if got := put(c.user, c.topic); got != c.want && (got != codes.Created || c.want != codes.Changed) {
			t.Errorf("%s, %s: %v, want %v", c.user, c.topic, got, c.want)
		}
	}
}
