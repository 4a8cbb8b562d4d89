package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withUsers runs serve with the user ann, whose password is "p:w".
func withUsers(t *testing.T) *broker {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users")
	if r := do(t, "p:w\n", "passwd", file, "ann"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	t.Setenv("ENTREPOT_AUTH_USERS", file)
	b := start(t, "--memory")
	b.log.await(t, "msg=users file="+file+" number=1")
	return b
}

// as puts USER:PASSWORD into a URL.
func as(who, url string) string { return strings.Replace(url, "://", "://"+who+"@", 1) }

// From the command that makes a user to the message that it gets.
func TestUsers(t *testing.T) {
	b := withUsers(t)
	s := subscribe(t, as("ann:p%3Aw", b.mqtt+"/a"), "-C", "3")
	for _, url := range []string{b.mqtt + "/a", b.stomp + "/topic/a"} {
		pub(t, as("ann:p%3Aw", url), "hello")
	}
	pub(t, "-V", "3.1.1", as("ann:p%3Aw", b.mqtt+"/a"), "hello")
	s.ends(t, 0)
	for _, who := range []string{"", "ann@", "ann:wrong@", "bob:p%3Aw@"} {
		for _, c := range []struct{ url, version, want string }{
			{b.mqtt + "/a", "5", "connection refused: bad username or password (0x86)"},
			{b.mqtt + "/a", "3.1.1", "connection refused: bad user name or password (0x04)"},
			{b.stomp + "/topic/a", "", "access refused: login or passcode is wrong"},
		} {
			args := []string{"pub", strings.Replace(c.url, "://", "://"+who, 1), "x"}
			if c.version != "" {
				args = append(args, "-V", c.version)
			}
			if r := do(t, "", args...); r.code != exitFailed || !strings.Contains(r.errors, c.want) {
				t.Errorf("%q: %+v", args, r)
			}
		}
	}
	if log := b.log.String(); strings.Contains(log, "p:w") || strings.Contains(log, "wrong") {
		t.Errorf("a password is in the log:\n%s", log)
	}
}

// What nobody may do is the same in each protocol's spelling.
// It shows fault 36.
func TestDenied(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.toml")
	text := "[auth]\ndeny_subscribe = [\"test/nosubscribe\", \"plant/+/secret/#\", \"v1.0/x\"]\ndeny_publish = [\"cmd/#\", \"v1.0/x\"]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	payload := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(payload, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, "--memory", "--config", file)
	const v3, v5, stomp = "refused (0x80)", "refused (0x80): subscribe ", "access refused"
	for _, c := range []struct {
		want string
		args []string
	}{
		{v5, []string{b.mqtt + "/test/nosubscribe"}},
		{v3, []string{b.mqtt + "/test/nosubscribe", "-V", "3.1.1"}},
		{v5, []string{b.mqtt + "/$share/g/test/nosubscribe"}},
		{v3, []string{b.mqtt + "/$share/g/test/nosubscribe", "-V", "3.1.1"}},
		{v5, []string{b.mqtt + "/plant/+/secret/#"}},
		{v5, []string{b.mqtt + "/plant/7/secret"}},
		{v5, []string{b.mqtt + "/v1.0/x"}},
		{stomp, []string{b.stomp + "/topic/test.nosubscribe"}},
		{stomp, []string{b.stomp + "/topic/test.nosubscribe", "-H", "x-queue-name:q"}},
		{stomp, []string{b.stomp + "/topic/test.nosubscribe", "-H", "durable:true", "-H", "auto-delete:false"}},
		{stomp, []string{b.stomp + "/exchange/amq.topic/test.nosubscribe"}},
		{stomp, []string{b.stomp + "/topic/plant.*.secret.>"}},
		{stomp, []string{b.stomp + "/topic/plant.7.secret.#"}},
		{stomp, []string{b.stomp + "/topic/v1%2E0.x"}},
	} {
		if r := do(t, "", append([]string{"sub", "-W", "10s"}, c.args...)...); r.code != exitFailed || !strings.Contains(r.errors, c.want) {
			t.Errorf("sub %q: %+v", c.args, r)
		}
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"message refused: not authorized (0x87)", []string{b.mqtt + "/cmd/x", "-q", "1"}},
		{"message refused: not authorized (0x87)", []string{b.mqtt + "/cmd", "-q", "2", "-r"}},
		{"message refused: not authorized (0x87)", []string{b.mqtt + "/$exchange/amq.topic/cmd/x", "-q", "1"}},
		{stomp, []string{b.stomp + "/topic/cmd.x"}},
		{stomp, []string{b.stomp + "/exchange/amq.topic/cmd.x"}},
		{stomp, []string{b.stomp + "/topic/v1%2E0.x", "-r"}},
	} {
		if r := do(t, "", append([]string{"pub", "-f", payload}, c.args...)...); r.code != exitFailed || !strings.Contains(r.errors, c.want) {
			t.Errorf("pub %q: %+v", c.args, r)
		}
	}
	// All else goes on; a wider filter brings the rest of what it matches.
	s := subscribe(t, b.mqtt+"/#", "-C", "1")
	pub(t, b.mqtt+"/test/nosubscribe", "one")
	pub(t, b.stomp+"/queue/cmd", "no topic")
	pub(t, b.stomp+"/topic/command", "two")
	if got := s.ends(t, 0); got != "two\n" {
		t.Errorf("printed %q", got)
	}
}

// A file of users that cannot be read keeps the broker from starting; check
// says the same.
// It shows fault 45.
func TestBadUsersKeepTheBrokerFromStarting(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "e.toml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"none": "", "broken": "ann:secret\n"} {
		users := filepath.Join(dir, name)
		if text != "" {
			if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("ENTREPOT_AUTH_USERS", users)
		for _, args := range [][]string{{"check", config}, {"serve", "--memory"}} {
			r := do(t, "", args...)
			if r.code != exitUsage || !strings.HasPrefix(r.errors, "entrepot: users file") || !strings.Contains(r.errors, users) || strings.Contains(r.errors, "secret") {
				t.Errorf("%s: %q: %+v", name, args, r)
			}
		}
	}
}
