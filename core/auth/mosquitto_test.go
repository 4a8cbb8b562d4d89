package auth

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Lines as mosquitto_passwd 2.0 wrote them.
const (
	mosquitto6 = "$6$bddgXaRNus/+woY0$OuREg+CMLNKQq1gwGw4zZmKV0J0aRUoLGzDA5RsWjKu1o2NCnCDlQ1jwMmy5f0MdGYotxxPsKJiyUB050NFJMQ=="
	mosquitto7 = "$7$101$XCebrui+4ksU4c3Y$uB8FczC8PT/e7Yqub1g4SNN92A3GQAg37T8HmASkXrOHXjs560S1Ml7YmLQ8UYR7VeEfAA5ptqcbLU4q2D+aYw=="
	mosquittoI = "$7$5000$Pdu3wBZYHAzmnrTk$v1w0o7AzC9+wOfUXf5zt0ESjQGaeA/tunpf3gGQJKxmXcqyLFVfDP2oLHdkLh+1PzbJMYQRJRI21OWShBuEZ/g=="
)

func TestMosquittoHashes(t *testing.T) {
	u, err := ReadUsers(userFile(t, "ann:"+mosquitto6+"\nbob:"+mosquitto7+"\ncleo:"+mosquittoI+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, password string
		fits           bool
	}{
		{"ann", "secret", true}, {"bob", "secret", true}, {"cleo", "correct horse", true},
		{"ann", "Secret", false}, {"bob", "secret ", false}, {"cleo", "secret", false}, {"ann", "", false}, {"dora", "secret", false},
	} {
		if err := u.Check(t.Context(), c.name, c.password); (err == nil) != c.fits {
			t.Errorf("%s %q: %v", c.name, c.password, err)
		}
	}
}

// What the installed tool writes is read.
func TestMosquittoTool(t *testing.T) {
	tool, err := exec.LookPath("mosquitto_passwd")
	if err != nil {
		t.Skip("mosquitto_passwd is not installed")
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"six": "sha512", "seven": "sha512-pbkdf2"} {
		if out, err := exec.Command(tool, "-H", kind, "-b", path, name, "Grün 7").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	u, err := ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"six", "seven"} {
		if err := u.Check(t.Context(), name, "Grün 7"); err != nil {
			t.Error(name, err)
		}
		if err := u.Check(t.Context(), name, "Grun 7"); !errors.Is(err, ErrRefused) {
			t.Error(name, err)
		}
	}
}

// [faults C 45]
func TestBadMosquittoHashes(t *testing.T) {
	salt, key := "bddgXaRNus/+woY0", mosquitto6[len("$6$bddgXaRNus/+woY0$"):]
	for text, want := range map[string]string{
		"$6$" + salt:                        "neither $6$SALT$KEY",
		"$6$" + salt + "$" + key + "$":      "neither $6$SALT$KEY",
		"$6$$" + key:                        "salt has 8 to 64",
		"$6$" + salt + "$" + key[:40]:       "the key 64",
		"$6$" + salt + "$" + key[:86]:       "not base64",
		"$6$" + salt + "\n$" + key:          "not base64",
		"$6$!" + salt[1:] + "$" + key:       "not base64",
		"$7$" + salt + "$" + key:            "not $7$PASSES",
		"$7$0$" + salt + "$" + key:          "not $7$PASSES",
		"$7$-5$" + salt + "$" + key:         "not $7$PASSES",
		"$7$007$" + salt + "$" + key:        "not $7$PASSES",
		"$7$99999999$" + salt + "$" + key:   "costs too much",
		"$7$101$" + salt:                    "neither $6$SALT$KEY",
		"$7$101$" + salt + "$" + key + "==": "not base64",
		"$7":                                "neither $6$SALT$KEY",
	} {
		if _, err := parseHash(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key[:40]) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzHash: whatever is read as a hash can be compared with, quickly, and fits
// no password that is made of itself.
func FuzzHash(f *testing.F) {
	for _, s := range []string{mosquitto6, mosquitto7, mosquittoI, "$7$", "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$XEHIvTBlGB2MxYFUQvwy7JpF4iaj17AMfKuljYyPtlw"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parseHash(text)
		if err != nil {
			return
		}
		if s, ok := h.(sha); ok && s.passes < 1000 && (h.fits(text) || len(s.key) != 64) {
			t.Errorf("%q", text)
		}
	})
}
