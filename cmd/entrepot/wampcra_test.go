package main

import (
	"context"
	"crypto/sha256"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gammazero/nexus/v3/client"
	"github.com/gammazero/nexus/v3/wamp"
	"github.com/gammazero/nexus/v3/wamp/crsign"

	"entrepot/core/auth"
)

// answering logs nexus's client in with answers to challenges of WAMP-CRA; its
// error is nil when it is let in.
func (b *broker) answering(user string, answer client.AuthFunc) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := client.ConnectNet(ctx, strings.Replace(b.http, "http", "ws", 1)+"/ws", client.Config{
		Realm: "realm1", ResponseTimeout: limit, Logger: silent{}, HelloDetails: wamp.Dict{"authid": user},
		AuthHandlers: map[string]client.AuthFunc{"wampcra": answer}})
	if err != nil {
		return err
	}
	return c.Close()
}

// [WAMP-CRA] A foreign client signs with its password's key. A wrong password, a user
// who is none, and a signature of another connection's challenge are refused, in
// the same words; and who is none is challenged as everybody is.
// It shows faults 37 and 60.
func TestWAMPCRA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	if _, err := auth.ChangeUser(file, "ann", auth.Change{Password: "p:w", CRA: true}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENTREPOT_AUTH_USERS", file)
	b := start(t, "--memory")
	var old string
	asked := map[string]wamp.Dict{}
	signing := func(user, password string) client.AuthFunc {
		return func(c *wamp.Challenge) (string, wamp.Dict) {
			asked[user] = c.Extra
			old = crsign.RespondChallenge(password, c, sha256.New)
			return old, nil
		}
	}
	if err := b.answering("ann", signing("ann", "p:w")); err != nil {
		t.Fatal(err)
	}
	replayed := old
	refusals := map[string]bool{}
	for name, err := range map[string]error{
		"a wrong password":         b.answering("ann", signing("ann", "wrong")),
		"nobody":                   b.answering("bob", signing("bob", "p:w")),
		"another's password":       b.answering("bob", signing("bob", "p:w")),
		"another connection's":     b.answering("ann", func(*wamp.Challenge) (string, wamp.Dict) { return replayed, nil }),
		"an empty signature":       b.answering("ann", func(*wamp.Challenge) (string, wamp.Dict) { return "", nil }),
		"the password itself":      b.answering("ann", func(*wamp.Challenge) (string, wamp.Dict) { return "p:w", nil }),
		"the challenge, unsigned":  b.answering("ann", func(c *wamp.Challenge) (string, wamp.Dict) { return c.Extra["challenge"].(string), nil }),
		"nobody, by the empty key": b.answering("bob", signing("bob", "")),
	} {
		if err == nil {
			t.Errorf("%s: let in", name)
			continue
		}
		refusals[err.Error()] = true
	}
	if len(refusals) != 1 {
		t.Errorf("refused in several ways: %v", refusals)
	}
	ann, bob := asked["ann"], asked["bob"]
	for key, value := range ann {
		text, _ := value.(string)
		other, _ := bob[key].(string)
		if _, ok := bob[key]; !ok || len(text) != len(other) {
			t.Errorf("%s: ann is asked by %v, nobody by %v", key, value, bob[key])
		}
		if text == "" && value != bob[key] {
			t.Errorf("%s: ann is asked by %v, nobody by %v", key, value, bob[key])
		}
	}
	if len(ann) != len(bob) || ann["salt"] == bob["salt"] || ann["challenge"] == bob["challenge"] {
		t.Errorf("ann is asked by %v, nobody by %v", ann, bob)
	}
}
