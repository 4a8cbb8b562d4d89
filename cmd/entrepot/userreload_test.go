package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gammazero/nexus/v3/client"
	"github.com/gammazero/nexus/v3/wamp"
	amqp "github.com/rabbitmq/amqp091-go"

	"entrepot/core/auth"
)

// present are a user's clients of several protocols; each tells when it is out.
type present map[string]func(t *testing.T)

// arrive lets clients of ann in.
func (b *broker) arrive(t *testing.T) present {
	t.Helper()
	all := present{}
	for name, args := range map[string][]string{"mqtt5": {as("ann:one", b.mqtt+"/t")}, "mqtt3": {as("ann:one", b.mqtt+"/t"), "-V", "3.1.1"},
		"stomp": {as("ann:one", b.stomp+"/topic/t")}} {
		s := subscribe(t, args...)
		all[name] = func(t *testing.T) { s.ends(t, exitFailed) }
	}
	conn, err := amqp.Dial("amqp://ann:one@" + b.address(t, "amqp") + "/")
	if err != nil {
		t.Fatal(err)
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	all["amqp"] = func(t *testing.T) {
		select {
		case e := <-closed:
			if e == nil || e.Code != amqp.ConnectionForced {
				t.Errorf("amqp: %v", e)
			}
		case <-time.After(limit):
			t.Error("amqp: still there")
		}
	}
	w, err := b.byTicket("ann", "one")
	if err != nil {
		t.Fatal(err)
	}
	all["wamp"] = func(t *testing.T) {
		select {
		case <-w.Done():
		case <-time.After(limit):
			t.Error("wamp: still there")
		}
	}
	return all
}

func (b *broker) byTicket(user, ticket string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return client.ConnectNet(ctx, "ws://"+strings.TrimPrefix(b.http, "http://")+"/ws", client.Config{
		Realm: "realm1", ResponseTimeout: limit, Logger: silent{}, HelloDetails: wamp.Dict{"authid": user},
		AuthHandlers: map[string]client.AuthFunc{"ticket": func(*wamp.Challenge) (string, wamp.Dict) { return ticket, nil }}})
}

// A file of users that is changed counts as soon as it is read again, by the API or
// by SIGHUP, for clients of every protocol that are there; a bad one changes
// nothing, for those who are there and those who come.
// It shows faults 45, 46 and 48.
func TestUsersAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	users, data := filepath.Join(dir, "users"), filepath.Join(dir, "data")
	change := func(name string, c auth.Change) {
		t.Helper()
		if _, err := auth.ChangeUser(users, name, c); err != nil {
			t.Fatal(err)
		}
	}
	change("ann", auth.Change{Password: "one"})
	change("bob", auth.Change{Password: "two"})
	p := launch(t, []string{"ENTREPOT_AUTH_USERS=" + users}, "--data", data)
	b := &broker{log: p.log}
	b.mqtt, b.stomp, b.http = "mqtt://"+b.address(t, "mqtt"), "stomp://"+b.address(t, "stomp"), "http://"+b.address(t, "http")
	ann := b.arrive(t)
	stays := subscribe(t, as("bob:two", b.mqtt+"/t"), "-q", "1", "-C", "2")

	good, err := os.ReadFile(users)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(users, append([]byte("ann:none\n"), good...), 0o600); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "nothing was reloaded: users: ", "reload", "--data", data)
	pub(t, as("ann:one", b.mqtt+"/t"), "-q", "1", "1") // comes to bob
	if err := os.WriteFile(users, good, 0o600); err != nil {
		t.Fatal(err)
	}
	change("ann", auth.Change{Password: "three"})
	well(t, "reload", "--data", data)
	for name, gone := range ann {
		if gone(t); t.Failed() {
			t.Fatalf("%s, after another password", name)
		}
	}
	for _, url := range []string{b.mqtt + "/t", b.stomp + "/topic/t"} {
		if r := do(t, "", "pub", as("ann:one", url), "x"); r.code != exitFailed {
			t.Errorf("the old password is good: %+v", r)
		}
	}
	change("ann", auth.Change{Password: "one"})
	p.signal(t, syscall.SIGHUP)
	for deadline := time.Now().Add(limit); do(t, "", "pub", as("ann:one", b.mqtt+"/t"), "-q", "1", "2").code != 0; {
		if time.Now().After(deadline) {
			t.Fatal("SIGHUP changes nothing")
		}
	}
	ann = b.arrive(t)
	if err := os.WriteFile(users, good[strings.Index(string(good), "bob:"):], 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	for name, gone := range ann {
		if gone(t); t.Failed() {
			t.Fatalf("%s, taken out", name)
		}
	}
	if _, err := b.byTicket("ann", "one"); err == nil {
		t.Error("ann is let in")
	}
	if got := stays.ends(t, 0); got != "1\n2\n" {
		t.Errorf("bob got %q", got)
	}
	p.signal(t, syscall.SIGTERM)
	p.code()
}
