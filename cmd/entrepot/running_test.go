package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Commands go on where there are users: by the control token, or as one of them.
func TestCommandsWithUsers(t *testing.T) {
	dir := t.TempDir()
	users, data, token := filepath.Join(dir, "users"), filepath.Join(dir, "data"), filepath.Join(dir, "token")
	if r := do(t, "p:w\n", "passwd", users, "ann"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	t.Setenv("ENTREPOT_AUTH_USERS", users)
	b := start(t, "--data", data)
	pub(t, "-q", "1", as("ann:p%3Aw", b.mqtt+"/$queue/orders"), "one")
	c, err := readControl(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte(c.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const listed, refused = " orders\n", "entrepot: a log-in is needed: a user's name and password, or a token\n"
	for _, q := range []struct {
		name, typed, password string
		args                  []string
		code                  int
		want                  string
	}{
		{"control file", "", "", []string{"--data", data}, 0, listed},
		{"password typed", "p:w\n", "", []string{"--url", b.http, "--user", "ann"}, 0, listed},
		{"password in the environment", "", "p:w", []string{"--url", b.http + "/", "--user", "ann"}, 0, listed},
		{"token in a file", "", "", []string{"--url", b.http, "--token", token}, 0, listed},
		{"token typed", c.Token, "", []string{"--url", b.http, "--token", "-"}, 0, listed},
		{"wrong password", "guess\n", "", []string{"--url", b.http, "--user", "ann"}, exitFailed, refused},
		{"unknown user", "p:w\n", "", []string{"--url", b.http, "--user", "dora"}, exitFailed, refused},
		{"wrong token", "guess", "", []string{"--url", b.http, "--token", "-"}, exitFailed, refused},
		{"nobody", "", "", []string{"--url", b.http}, exitFailed, refused},
		{"nobody by --http", "", "", []string{"--http", strings.TrimPrefix(b.http, "http://")}, exitFailed, refused},
		{"no such file", "", "", []string{"--url", b.http, "--token", token + "x"}, exitFailed, "no such file"},
		{"two proofs", "", "", []string{"--url", b.http, "--token", token, "--user", "ann"}, exitUsage, "one or the other"},
		{"two brokers", "", "", []string{"--url", b.http, "--data", data}, exitUsage, "one of them"},
		{"no URL", "", "", []string{"--user", "ann"}, exitUsage, "--user, --token and --cafile are for --url"},
		{"bad URL", "", "", []string{"--url", "ann:pw@host"}, exitUsage, "--url: not https://HOST:PORT"},
		{"name in the URL", "", "", []string{"--url", "https://ann:secret@127.0.0.1"}, exitUsage, "--url: not https://HOST:PORT"},
		{"to be read on the way", "", "p:w", []string{"--url", "http://broker.example:8080", "--user", "ann"}, exitUsage, "use https://"},
	} {
		t.Setenv(passwordVariable, q.password)
		r := do(t, q.typed, append([]string{"queue", "list"}, q.args...)...)
		if r.code != q.code || !strings.Contains(r.out+r.errors, q.want) || strings.Contains(r.errors, "secret") {
			t.Errorf("%s: %+v, want %d, %q", q.name, r, q.code, q.want)
		}
	}
	t.Setenv(passwordVariable, "p:w")
	well(t, "backup", "--url", b.http, "--user", "ann", filepath.Join(dir, "backup"))
	for _, want := range []string{
		"msg=audit protocol=http user=ann remote=127.0.0.1 act=backup object=$SYS/backup outcome=done\n",
	} {
		b.log.await(t, want)
	}
}

// A password goes to the broker that is meant and to nobody else.
func TestCommandsOverTLS(t *testing.T) {
	asked := 0
	broker := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "p:w" {
			t.Errorf("as %s", user)
		}
		if r.URL.Query().Get("count") == "7" {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write([]byte(`{"count":0}`))
	}))
	defer broker.Close()
	broker.Config.ErrorLog = nil
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: broker.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(passwordVariable, "p:w")
	base := []string{"delayed", "list", "--url", broker.URL, "--user", "ann"}
	well(t, append(base, "--cafile", ca)...)
	refusedWith(t, "the broker answers 307", append(base, "--cafile", ca, "--count", "7")...)
	refusedWith(t, "certificate", base...)
	refusedWith(t, "CAs: no certificate in", append(base, "--cafile", os.Args[0])...)
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
