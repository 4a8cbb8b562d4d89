package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gammazero/nexus/v3/client"
	"github.com/gammazero/nexus/v3/wamp"
	amqp "github.com/rabbitmq/amqp091-go"

	"entrepot/core/auth"
)

// tokenKeys makes a key of each kind by the command, and has brokers that start
// later take tokens by all of them.
func tokenKeys(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var keys []string
	for _, alg := range []string{"EdDSA", "ES256", "ES384", "ES512", "RS256", "HS256"} {
		name := filepath.Join(dir, alg[:2]+strings.TrimPrefix(alg[2:], "DSA"))
		r := do(t, "", "token", "key", name, "--alg", alg)
		_, path, ok := strings.Cut(strings.TrimSuffix(r.out, "\"]\n"), "[auth.token]\nkeys = [\"")
		if r.code != 0 || !ok {
			t.Fatalf("%+v", r)
		}
		keys = append(keys, path)
		if i, err := os.Stat(name + ".key"); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", alg, i, err)
		}
	}
	t.Setenv("ENTREPOT_AUTH_TOKEN_KEYS", strings.Join(keys, ","))
	t.Setenv("ENTREPOT_AUTH_TOKEN_LEEWAY", "0s")
	return dir
}

// keyOf is the file of tokenKeys whose key signs by an algorithm.
func keyOf(dir, alg string) string {
	name := map[string]string{"Ed": "Ed", "ES": alg, "RS": "RS256", "PS": "RS256", "HS": "HS256"}[alg[:2]]
	return filepath.Join(dir, name+".key")
}

// token mints one into a file and returns its path.
func token(t *testing.T, dir, alg string, flags ...string) string {
	t.Helper()
	path := filepath.Join(dir, alg+".jwt")
	args := append([]string{"token", keyOf(dir, alg), "--alg", alg, "--user", "ann", "--out", path}, flags...)
	if r := do(t, "", args...); r.code != 0 || r.out+r.errors != "" {
		t.Fatalf("%+v", r)
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", i, err)
	}
	return path
}

// A token by each algorithm lets in, and the session ends with it; see fault 49.
func TestTokensOfEachAlgorithm(t *testing.T) {
	dir := tokenKeys(t)
	b := start(t)
	for _, alg := range auth.KeyAlgorithms() {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			pub(t, b.mqtt+"/a", "-q", "1", "--quiet", "--token", token(t, dir, alg), "x")
			for lasts := 2 * time.Second; !sessionEnds(t, b, token(t, dir, alg, "--expires", lasts.String())); lasts *= 2 {
				if lasts > limit {
					t.Fatal("the session does not begin in time")
				}
			}
		})
	}
}

// sessionEnds subscribes with a token and waits until the broker ends that; false
// when the token expired before.
func sessionEnds(t *testing.T, b *broker, token string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
	defer cancel()
	var errs bytes.Buffer
	if code := run(ctx, []string{"sub", b.mqtt + "/a", "--token", token}, nil, io.Discard, &errs); code != exitFailed {
		t.Fatalf("exit code %d, %s", code, &errs)
	}
	if strings.Contains(errs.String(), "connection refused: ") {
		return false
	}
	if !strings.Contains(errs.String(), "subscribed to a\n") || !strings.Contains(errs.String(), "the broker ended the connection: ") || ctx.Err() != nil {
		t.Fatalf("%s, %v", &errs, ctx.Err())
	}
	return true
}

// A token is good in every protocol, with its user's name or none, and with nobody
// else's.
func TestTokenInEachProtocol(t *testing.T) {
	dir := tokenKeys(t)
	b := start(t)
	path := token(t, dir, "EdDSA")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(raw))
	as := func(url, user string) string { return strings.Replace(url, "://", "://"+user+"@", 1) }
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{b.mqtt + "/a"}, 0}, {[]string{as(b.mqtt, "ann") + "/a"}, 0}, {[]string{as(b.mqtt, "bob") + "/a"}, exitFailed},
		{[]string{as(b.mqtt, "ann") + "/a", "-V", "3.1.1"}, 0}, {[]string{b.mqtt + "/a", "-V", "3.1.1"}, exitUsage},
		{[]string{b.stomp + "/topic/a"}, 0}, {[]string{as(b.stomp, "ann") + "/topic/a"}, 0}, {[]string{as(b.stomp, "bob") + "/topic/a"}, exitFailed},
	} {
		if r := do(t, "", append([]string{"pub", "--token", path}, append(c.args, "x")...)...); r.code != c.code || strings.Contains(r.errors, text) {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
	if r := do(t, text+"\n", "pub", b.mqtt+"/a", "--token", "-", "x"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	t.Setenv("ENTREPOT_PASSWORD", text)
	pub(t, as(b.stomp, "ann")+"/topic/a", "x")
	conn, err := amqp.Dial("amqp://ann:" + text + "@" + b.address(t, "amqp"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	ticket := func(*wamp.Challenge) (string, wamp.Dict) { return text, nil }
	w, err := client.ConnectNet(t.Context(), strings.Replace(b.http, "http", "ws", 1)+"/ws", client.Config{
		Realm: "realm1", ResponseTimeout: limit, Logger: silent{}, HelloDetails: wamp.Dict{"authid": "ann"},
		AuthHandlers: map[string]client.AuthFunc{"ticket": ticket}})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if r := do(t, "", "queue", "list", "--url", b.http, "--token", path); r.code != 0 {
		t.Errorf("HTTP: %+v", r)
	}
}

// What is wrong with a key, a flag or a claim is said, and nothing is printed that
// no broker would take.
func TestTokenCommand(t *testing.T) {
	dir := tokenKeys(t)
	t.Setenv("ENTREPOT_AUTH_TOKEN_KEYS", "") // the settings' file counts
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	one := write("one.toml", "[auth.token]\nkeys = [\""+at("ES256.pem")+"\"]\nissuer = \"me\"\naudience = \"plant\"\nuser_claim = \"name\"\n")
	for _, c := range []struct {
		args   string
		code   int
		errors string
	}{
		{"EC --user ann", exitFailed, "no such file"},
		{"ES256.pem --user ann", exitFailed, "a public key"},
		{"one.toml --user ann --alg ES256", exitFailed, "algorithm \"ES256\": a key of this kind signs by HS256"},
		{"ES256.key --user ann --alg ES384", exitFailed, "signs by ES256"},
		{"ES256.key", exitUsage, "--user is missing"},
		{"ES256.key --user a:b", exitUsage, "no colon"},
		{"ES256.key --user ann --groups a:b", exitUsage, "--groups: "},
		{"ES256.key --user ann --expires -1s", exitUsage, "--expires"},
		{"ES256.key --user ann --claim x", exitUsage, "NAME=VALUE"},
		{"ES256.key --user ann --claim exp=1", exitFailed, "claim \"exp\": it is there already"},
		{"ES384.key --user ann --config ONE", exitFailed, "none of the 1 keys for tokens in the settings is the other half"},
		{"ES256.key --user ann --config ONE --expires 0", exitFailed, "would not take the token: log-in refused: token: token has invalid claims: token is missing required claim"},
		{"ES256.key --user ann --config ONE --issuer you", exitFailed, "would not take the token"},
		{"ES256.key --user ann --config ONE", 0, ""},
		{"ES256.key --user ann --config ONE --groups a,b --claim site=7", 0, ""},
		{"ES256.key --user ann --claim name=ann --expires 0 --alg ES256", 0, ""},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "ONE", one))
		args[0] = at(args[0])
		r := do(t, "", append([]string{"token"}, args...)...)
		if r.code != c.code || !strings.Contains(r.errors, c.errors) || (c.code == 0) != (strings.Count(r.out, ".") == 2) {
			t.Errorf("%s: %+v", c.args, r)
		}
		if c.code == 0 && strings.Contains(c.args, "ONE") {
			checked := do(t, r.out, "token", "check", "-", "--config", one)
			if checked.code != 0 || !strings.HasPrefix(checked.out, "user ann, ") {
				t.Errorf("%s: %+v", c.args, checked)
			}
		}
	}
	key, err := os.ReadFile(at("ES256.key"))
	if err != nil {
		t.Fatal(err)
	}
	if r := do(t, string(key), "token", "-", "--user", "ann", "--config", one); r.code != 0 || strings.Count(r.out, ".") != 2 {
		t.Errorf("%+v", r)
	}
	refusedWith(t, "log-in refused: token: ", "token", "check", token(t, dir, "HS256"), "--config", one)
}

// Files of keys are never overwritten; what is there is named again, and a public
// key is made to a private one.
func TestTokenKeyCommand(t *testing.T) {
	dir := tokenKeys(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	public, err := os.ReadFile(at("ES256.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if r := do(t, "", "token", "key", at("ES256")); r.code != 0 || !strings.Contains(r.errors, "there already") || !strings.Contains(r.out, at("ES256.pem")) {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(at("ES256.pem")); err != nil {
		t.Fatal(err)
	}
	well(t, "token", "key", at("ES256"))
	if again, err := os.ReadFile(at("ES256.pem")); err != nil || !bytes.Equal(again, public) {
		t.Errorf("%s, %v", again, err)
	}
	refusedWith(t, "signs by ES256", "token", "key", at("ES256"), "--alg", "EdDSA")
	if err := os.Rename(at("Ed.key"), at("ES256.key")); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "is not the public key of", "token", "key", at("ES256"))
	refusedWith(t, "not overwritten", "token", "key", at("Ed"))
	for _, name := range []string{dir + "/", dir + "/.x", "/", "..", ""} {
		if r := do(t, "", "token", "key", name); r.code != exitUsage {
			t.Errorf("%q: %+v", name, r)
		}
	}
	if r := do(t, "", "token", "key", at("x"), "--alg", "none"); r.code != exitUsage || !strings.Contains(r.errors, "one of EdDSA") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(at("x.key")); err == nil {
		t.Error("x.key is there")
	}
	if r := do(t, "", "token", at("ES384.key"), "--user", "ann", "--out", dir); r.code != exitFailed || !strings.Contains(r.errors, "not a regular file") {
		t.Errorf("%+v", r)
	}
}
