package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file that holds what opens a door by itself is refused, in the same words,
// when everybody may use it; one of hashes, public keys or rules is not. It shows
// fault 58.
func TestSecretsReadableByEverybody(t *testing.T) {
	k := newKeyring(t)
	hash := mustHash(t, password)
	cra, err := newCRA(password)
	if err != nil {
		t.Fatal(err)
	}
	users := func(path string) error { _, err := ReadUsers(path); return err }
	token := func(path string) error { _, err := readTokenKeys([]string{path}); return err }
	secret := func(path string) error { _, err := ReadSecret(path, 100); return err }
	rules := func(path string) error { _, err := ReadRules(path); return err }
	for _, c := range []struct {
		name, text string
		read       func(string) error
		private    bool
	}{
		{"users with passwords", "ann:" + hash + "\n", users, false},
		{"users, one with a PSK", "ann:" + hash + "\nbob:* psk=00112233445566778899aabbccddeeff\n", users, true},
		{"users, one with a WAMP-CRA key", "ann:" + hash + " cra=" + cra.String() + "\n", users, true},
		{"a token's secret", hmacSecret, token, true},
		{"a token's public key", readIf(filepath.Join(k.dir, "rs.pem")), token, false},
		{"a secret", "x", secret, true},
		{"rules", "allow anyone all\n", rules, false},
	} {
		path := filepath.Join(t.TempDir(), "file")
		for _, mode := range []os.FileMode{0o600, 0o640, 0o604, 0o602, 0o644} {
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			err := c.read(path)
			if refused := c.private && mode&0o007 != 0; (err != nil) != refused {
				t.Errorf("%s, %o: %v", c.name, mode, err)
			} else if want := fmt.Sprintf("%s: mode %#o lets everybody use it; chmod 600", path, mode); refused && !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s, %o: %v", c.name, mode, err)
			}
		}
	}
}

// What is no regular file, or too large, is not read: a pipe does not keep the
// reader.
func TestReadSmallFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadSmallFile(path, 5); err != nil || string(f.Text) != "12345" {
		t.Errorf("%q %v", f.Text, err)
	}
	pipe := path + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		path: path + ": 5 bytes, at most 4", pipe: pipe + ": not a regular file", t.TempDir(): "not a regular file",
		path + ".none": "no such file",
	} {
		if _, err := ReadSmallFile(file, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
