package core_test

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// withAnn is a broker with one user, ann, whose password is "secret".
func withAnn(t *testing.T, log *slog.Logger) *house {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if _, err := auth.ChangeUser(path, "ann", auth.Change{Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	b := core.NewBroker(core.DefaultConfig(), "realm", local.New(quiet()), nil, log)
	b.SetDoor(auth.NewDoor(users))
	return &house{t, context.Background(), nil, b}
}

func TestAuthenticate(t *testing.T) {
	var log strings.Builder
	h := withAnn(t, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	who, err := h.broker.Authenticate(h.ctx, auth.Credentials{User: "ann", Password: "secret"})
	if err != nil || who.User != "ann" || who.ClientID != "" || len(who.Groups) > 0 {
		t.Errorf("%+v, %v", who, err)
	}
	var told []string
	for _, c := range [][2]string{{"ann", "Secret"}, {"bob", "Secret"}, {"", ""}, {"ann", ""}, {"", "Secret"}} {
		who, err := h.broker.Authenticate(h.ctx, auth.Credentials{User: c[0], Password: c[1]})
		h.wantError(err, core.ErrNotAllowed)
		if who.User != "" {
			t.Errorf("%q: %+v", c, who)
		}
		told = append(told, err.Error())
	}
	for _, text := range told {
		if text != told[0] {
			t.Errorf("told apart: %q", told)
		}
	}
	if strings.Contains(strings.ToLower(log.String()), "secret") || !strings.Contains(log.String(), "log-in refused") {
		t.Errorf("log:\n%s", &log)
	}
}

// Whom nobody looks at waits no longer than it was told.
func TestAuthenticateInTime(t *testing.T) {
	h := withAnn(t, quiet())
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	_, err := h.broker.Authenticate(ctx, auth.Credentials{User: "ann", Password: "secret"})
	h.wantError(err, core.ErrTimeout)
}

// Without users a name proves nothing.
func TestEverybodyIsAnonymous(t *testing.T) {
	bubble(t, func(h *house) {
		who, err := h.broker.Authenticate(h.ctx, auth.Credentials{User: "ann", Password: "secret"})
		if err != nil || who.User != "" {
			t.Errorf("%+v, %v", who, err)
		}
	})
}

// A failed log-in leaves nothing behind but a count.
func TestRefusedLogInLeavesACount(t *testing.T) {
	h := withAnn(t, quiet())
	_, err := h.broker.Authenticate(h.ctx, auth.Credentials{Protocol: "mqtt", User: "ann", Password: "wrong"})
	h.wantError(err, core.ErrNotAllowed)
	if st := h.broker.Stats(); st.Sessions != 0 || len(st.Protocols) != 1 || st.Protocols["mqtt"].RefusedLogins["password"] != 1 {
		t.Errorf("%+v", st)
	}
}

// A client that proves a key elsewhere is put off as one that fails to log in: under
// the name that it claims, from where it is, and in the end under all names. Who
// proves it is not.
func TestUnprovedIsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withAnn(t, quiet())
		who := func(user, from string) auth.Credentials {
			return auth.Credentials{Protocol: "coap", User: user, Remote: netip.MustParseAddr(from)}
		}
		fails := func(n int) {
			for range n {
				h.broker.Unproved(who("ann", "192.0.2.1"))
			}
		}
		want := func(user, from string, off bool) {
			t.Helper()
			if got := h.broker.PutOff(who(user, from)); got != off {
				t.Errorf("%q from %s: %v", user, from, got)
			}
		}
		fails(10)
		want("ann", "192.0.2.1", false)
		fails(1)
		want("ann", "192.0.2.1", true)
		want("bob", "192.0.2.1", false)
		want("ann", "192.0.2.2", false)
		time.Sleep(2 * time.Second)
		want("ann", "192.0.2.1", false)
		h.broker.SetDoor(nil)
		proved := who("ann", "192.0.2.1")
		proved.PSK = "ann"
		if _, err := h.broker.Authenticate(h.ctx, proved); err != nil {
			t.Error(err)
		}
		fails(10)
		want("ann", "192.0.2.1", false)
		fails(90)
		want("", "192.0.2.1", true)
		want("bob", "192.0.2.1", true)
		want("ann", "192.0.2.2", false)
		refused := h.broker.Stats().Protocols["coap"].RefusedLogins
		if refused["psk"] != 111 || refused["too_many"] != 3 {
			t.Errorf("counted %v", refused)
		}
	})
}
