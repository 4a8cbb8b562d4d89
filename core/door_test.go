package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// secretHash is of the password "secret", and quick to compare.
const secretHash = "$6$bddgXaRNus/+woY0$OuREg+CMLNKQq1gwGw4zZmKV0J0aRUoLGzDA5RsWjKu1o2NCnCDlQ1jwMmy5f0MdGYotxxPsKJiyUB050NFJMQ=="

func houseWith(t *testing.T, p auth.Policy) *house {
	return houseOn(t, local.New(quiet()), core.DefaultConfig(), p)
}

// door lets users in by lines of a users file; %s is the hash of "secret".
func door(t *testing.T, lines ...string) *auth.Door {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "%s", secretHash)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := auth.DefaultConfig()
	c.Users, c.Anonymous = path, []string{"coap"}
	d, err := c.Door()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// as logs a user in.
func (h *house) as(user string, e *endings) func(*core.Hello) {
	h.Helper()
	who, err := h.broker.Authenticate(h.ctx, auth.Credentials{Protocol: "mqtt", User: user, Password: "secret"})
	h.must(err)
	return func(c *core.Hello) {
		c.Principal = who
		if e != nil {
			c.Kick = e.of(user)
		}
	}
}

// [faults C 48] who is gone from the users, or has another line, is out when the
// door is set anew; the others stay.
func TestUsersAreReadAnew(t *testing.T) {
	bubble(t, func(h *house) {
		var e endings
		anonymous := h.fresh("early", func(c *core.Hello) { c.Kick = e.of("early") })
		h.broker.SetDoor(door(t, "ann:%s", "bob:%s", "cleo:%s"))
		h.want(&e, "early: access was withdrawn")
		_, err := h.say(anonymous, h.note("t", "x"))
		h.wantError(err, core.ErrClosed)
		ann := h.fresh("a", h.as("ann", &e))
		h.fresh("b", h.as("bob", &e))
		h.broker.SetDoor(door(t, "cleo:%s", "ann:%s", "bob:%s")) // in another order
		h.want(&e, "early: access was withdrawn")
		h.broker.SetDoor(door(t, "ann:%s", "cleo:%s"))
		h.want(&e, "early: access was withdrawn; bob: access was withdrawn")
		h.tell(ann, "t", "1")
		h.broker.SetDoor(door(t, "ann:%s max-messages=5"))
		h.want(&e, "early: access was withdrawn; bob: access was withdrawn; ann: access was withdrawn")
		h.again("a", h.as("ann", &e))
		h.broker.SetDoor(nil)
		if n := h.broker.Stats().Protocols["mqtt"].Connections; n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// [faults C 37] between a log-in and its session the door may change.
func TestDoorChangesDuringLogIn(t *testing.T) {
	bubble(t, func(h *house) {
		h.broker.SetDoor(door(t, "ann:%s"))
		in := h.as("ann", nil)
		h.broker.SetDoor(door(t, "bob:%s"))
		for _, edit := range []func(*core.Hello){in, plain, func(c *core.Hello) { c.Principal.User = "bob" }} {
			_, _, err := h.broker.Connect(h.ctx, hello("a", edit))
			h.wantError(err, core.ErrNotAllowed)
		}
		if st := h.broker.Stats(); st.Protocols["mqtt"].Connections+st.Protocols["stomp"].Connections != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A client id is its user's: another user's connection under that id is refused,
// and changes nothing for the one who is there.
func TestClientIDIsItsUsers(t *testing.T) {
	bubble(t, func(h *house) {
		var e endings
		h.fresh("free", expiry(core.Forever))
		d := door(t, "ann:%s", "bob:%s")
		h.broker.SetDoor(d)
		ann := h.fresh("id", h.as("ann", &e))
		box := h.inbox()
		h.subscribe(ann, "id", "t", box)
		for name, edit := range map[string]func(*core.Hello){
			"bob":       h.as("bob", nil),
			"bob clean": func(c *core.Hello) { h.as("bob", nil)(c); c.Clean = true },
			"nobody":    func(*core.Hello) {},
		} {
			_, _, err := h.broker.Connect(h.ctx, hello("id", edit))
			if h.wantError(err, core.ErrNotAllowed); strings.Contains(err.Error(), "ann") {
				t.Errorf("%s: %v", name, err)
			}
		}
		h.want(&e, "")
		h.tell(ann, "t", "1")
		box.want("1")
		ann.Close(core.CloseLost)
		_, _, err := h.broker.Connect(h.ctx, hello("id", h.as("bob", nil)))
		h.wantError(err, core.ErrNotAllowed)
		h.again("id", h.as("ann", nil)).Close(core.CloseLost)
		pass(time.Minute + time.Second) // the session ended, and the id is free
		h.fresh("id", h.as("bob", nil))
		if n := h.broker.Stats().Protocols["mqtt"].RefusedLogins["client_id"]; n != 3 {
			t.Errorf("%d refused", n)
		}
		// From before there were users, it is whose asks first.
		h.again("free", h.as("ann", nil))
		_, _, err = h.broker.Connect(h.ctx, hello("free", h.as("bob", nil)))
		h.wantError(err, core.ErrNotAllowed)
		// Without users there are only names again.
		h.broker.SetDoor(nil)
		h.again("free")
	})
}

// An anonymous client does not come by a user's session, where both are let in.
func TestAnonymousTakesNothing(t *testing.T) {
	bubble(t, func(h *house) {
		h.broker.SetDoor(door(t, "ann:%s"))
		asCoAP := func(c *core.Hello) { c.Protocol = "coap" }
		h.fresh("id", h.as("ann", nil), asCoAP)
		_, _, err := h.broker.Connect(h.ctx, hello("id", asCoAP))
		h.wantError(err, core.ErrNotAllowed)
		h.fresh("other", asCoAP)
		h.again("other", h.as("ann", nil), asCoAP)
	})
}

// Adapters keep sessions under names of their own; what counts is the protocol by
// which the client came in.
func TestSessionsUnderOtherNames(t *testing.T) {
	bubble(t, func(h *house) {
		var e endings
		h.broker.SetDoor(door(t, "ann:%s"))
		for _, protocol := range []string{"coap", "coap-watch"} {
			h.fresh("a", func(c *core.Hello) { c.Protocol, c.Kick = protocol, e.of(protocol) })
		}
		for _, protocol := range []string{"stomp-durable", "coaps", "", "-coap"} {
			_, _, err := h.broker.Connect(h.ctx, hello("a", func(c *core.Hello) { c.Protocol = protocol }))
			h.wantError(err, core.ErrNotAllowed)
		}
		h.fresh("a", h.as("ann", nil), func(c *core.Hello) { c.Protocol = "stomp-durable" })
		h.broker.SetDoor(door(t, "ann:%s", "bob:%s"))
		h.want(&e, "")
	})
}

// Whose a session is outlives the broker.
func TestClientIDIsItsUsersAfterARestart(t *testing.T) {
	eachEnd(t, func(c *bunker, end func(time.Duration)) {
		d := door(c.T, "ann:%s", "bob:%s")
		c.lasting(c.fresh("old"), "old", "t")
		c.broker.SetDoor(d)
		c.lasting(c.fresh("id", c.as("ann", nil)), "id", "t")
		end(time.Second)
		c.broker.SetDoor(d)
		_, _, err := c.broker.Connect(c.ctx, hello("id", c.as("bob", nil)))
		c.wantError(err, core.ErrNotAllowed)
		c.again("id", c.as("ann", nil))
		c.again("old", c.as("bob", nil))
		_, _, err = c.broker.Connect(c.ctx, hello("old", c.as("ann", nil)))
		c.wantError(err, core.ErrNotAllowed)
	})
}

// [faults C 60] who guesses is put off and is told nothing new; the user is not
// kept out elsewhere, and comes in there again when the time is over.
func TestGuessing(t *testing.T) {
	bubble(t, func(h *house) {
		h.broker.SetDoor(door(t, "ann:%s"))
		try := func(address, user, password string) error {
			_, err := h.broker.Authenticate(h.ctx, auth.Credentials{Protocol: "mqtt", Remote: netip.MustParseAddr(address), User: user, Password: password})
			return err
		}
		for _, user := range []string{"ann", "nobody"} {
			for range 11 {
				h.wantError(try("192.0.2.1", user, "x"), core.ErrNotAllowed)
			}
			h.wantError(try("192.0.2.1", user, "secret"), core.ErrTimeout)
		}
		h.must(try("192.0.2.2", "ann", "secret"))
		pass(time.Second)
		h.must(try("192.0.2.1", "ann", "secret"))
		got := h.broker.Stats().Protocols["mqtt"].RefusedLogins
		if got["password"] != 22 || got["too_many"] != 2 || len(got) != 2 {
			t.Errorf("%v", got)
		}
	})
}

// [faults C 58] each refusal is a line with who, from where and why, and no
// password; a flood writes some and counts the rest.
func TestRefusalsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		b := core.NewBroker(core.DefaultConfig(), "realm", local.New(quiet()), nil, slog.New(slog.NewTextHandler(&log, nil)))
		b.SetDoor(door(t, "ann:%s"))
		c := auth.Credentials{Protocol: "mqtt", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("192.0.2.7"),
			ClientID: "id\n1", User: "ann", Password: "hunter2"}
		for _, c.User = range []string{"ann", "a password\x1b[2J"} {
			if _, err := b.Authenticate(context.Background(), c); err == nil {
				t.Fatal("let in")
			}
		}
		for _, user := range []string{"ann", `"(not listed)"`} {
			want := "level=WARN msg=audit protocol=mqtt user=" + user + ` client="id�1" remote=192.0.2.7 listener=127.0.0.1:1883 act=login outcome=refused reason=password`
			if got := log.String(); !strings.Contains(got, want) || strings.Contains(got, "hunter2") || strings.Contains(got, "a password") {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
		for i := range 5000 {
			c.User, c.Remote = fmt.Sprint("u", i), netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
			_, _ = b.Authenticate(context.Background(), c)
		}
		if n := strings.Count(log.String(), "\n"); n > 60 {
			t.Errorf("%d lines", n)
		}
		time.Sleep(time.Second)
		log.Reset()
		_, _ = b.Authenticate(context.Background(), c)
		if !strings.Contains(log.String(), "left_out=49") {
			t.Error(log.String())
		}
	})
}
