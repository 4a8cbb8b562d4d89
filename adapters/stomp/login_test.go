package stomp

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/go-stomp/stomp/v3"

	"entrepot/core/auth"
)

// withUsers is a server with the users ann and bob, whose passcodes are "se:cret"
// and "geheim".
func withUsers(t *testing.T) (addr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	for name, password := range map[string]string{"ann": "se:cret", "bob": "geheim"} {
		if _, err := auth.ChangeUser(path, name, auth.Change{Password: password}); err != nil {
			t.Fatal(err)
		}
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	addr, broker := testServer(t, DefaultConfig())
	broker.SetDoor(auth.NewDoor(users))
	return addr
}

// exchange sends frames and returns everything until the server closes.
func exchange(t *testing.T, addr, frames string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, frames); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// [1.2 Connecting] login and passcode: who does not prove a name is told so by
// ERROR, the same for everybody, and what it sent along is not read.
// It shows faults 37 and 60.
func TestLogIn(t *testing.T) {
	addr := withUsers(t)
	const after = "\n\n\x00SEND\ndestination:/topic/a\n\nx\x00DISCONNECT\nreceipt:bye\n\n\x00"
	for _, c := range []struct {
		headers  string
		accepted bool
	}{
		{"accept-version:1.2\nlogin:ann\npasscode:se:cret", true},
		{"accept-version:1.1\nlogin:ann\npasscode:se:cret", true},
		{"login: ann\npasscode: se:cret", true}, // 1.0 trims
		{"accept-version:1.2\nlogin:ann\npasscode: se:cret", false},
		{"accept-version:1.2\nlogin:ann\npasscode:secret", false},
		{"accept-version:1.2\nlogin:ann\npasscode:", false},
		{"accept-version:1.2\nlogin:ann", false},
		{"accept-version:1.2\nlogin:guest\npasscode:se:cret", false},
		{"accept-version:1.2\nlogin:\npasscode:se:cret", false},
		{"accept-version:1.2\npasscode:se:cret", false},
		{"accept-version:1.2", false},
	} {
		got := exchange(t, addr, "CONNECT\nhost:/\n"+c.headers+after)
		if c.accepted {
			if !strings.HasPrefix(got, "CONNECTED\n") || !strings.Contains(got, "\x00RECEIPT\nreceipt-id:bye\n\n\x00") {
				t.Errorf("%q: %q", c.headers, got)
			}
			continue
		}
		const refusal = "ERROR\nmessage:access refused\ncontent-type:text/plain\ncontent-length:43\n\n" +
			"access refused: login or passcode is wrong\n\x00"
		if got != refusal {
			t.Errorf("%q: %q", c.headers, got)
		}
	}
}

// The name that was proved is what receivers see.
// It shows fault 55.
func TestUserIsStamped(t *testing.T) {
	addr := withUsers(t)
	c := dial(t, addr, client.ConnOpt.Login("bob", "geheim"))
	s := subscribed(t, c, "/topic/a", client.AckAuto)
	if err := c.Send("/topic/a", "", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if m := <-s.C; m.Err != nil || m.Header.Get("user-id") != "bob" {
		t.Errorf("%v, %v", m.Header, m.Err)
	}
	_, err := client.Dial("tcp", addr, client.ConnOpt.Login("ann", "wrong"))
	var refused client.Error
	if !errors.As(err, &refused) || refused.Message != "access refused" {
		t.Errorf("%v", err)
	}
}
