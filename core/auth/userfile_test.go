package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// [fault 45] a line that is malformed or empty is an error with its number,
// never one to be passed over.
func TestBadUserFiles(t *testing.T) {
	good := "ann:" + mustHash(t, password)
	for _, c := range []struct{ name, text, want string }{
		{"empty line", good + "\n\n", ":2: not NAME:HASH"},
		{"only an empty line", "\n", ":1: not NAME:HASH"},
		{"blanks", good + "\n  \n", ":2: not NAME:HASH"},
		{"comment", "# users\n" + good, ":1: not NAME:HASH"},
		{"comment with a colon", "# users: all\n", `:1: user's name "# users": does not begin with #`},
		{"no colon", "ann\n", ":1: not NAME:HASH"},
		{"empty name", strings.TrimPrefix(good, "ann"), ":1: the user's name is empty"},
		{"empty hash", good + "\nbob:\n", ":2: user bob: no hash behind the name"},
		{"plain password", "bob:secret\n", ":1: user bob: no hash of a password"},
		{"twice", good + "\nbob:" + good[4:] + "\n" + good, ":3: user ann is in line 1 already"},
		{"twice, the second broken", good + "\nann:", ":2: user ann is in line 1 already"},
		{"line ends of another system", good + "\r\n", ":1: user ann: argon2id hash"},
		{"fields behind the hash", good + ":more", ":1: user ann: argon2id hash"},
		{"blank before the name", " " + good, `:1: user's name " ann": no blanks around it`},
		{"blank behind the name", "ann :" + good[4:], "no blanks around it"},
		{"no UTF-8", "\xff:" + good[4:], "letters, digits, signs and single blanks only"},
		{"NUL", "a\x00b:" + good[4:], "letters, digits, signs and single blanks only"},
		{"mark of the byte order", "\uFEFF" + good, "letters, digits, signs and single blanks only"},
		{"long name", strings.Repeat("x", 256) + ":" + good[4:], "256 bytes: at most 255"},
	} {
		path := userFile(t, c.text)
		u, err := ReadUsers(path)
		if u != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), good[40:60])) {
			t.Errorf("%s: a secret is in %q", c.name, err)
		}
	}
}

func TestNoUserFile(t *testing.T) {
	if _, err := ReadUsers(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := ReadUsers(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	large := userFile(t, "")
	if err := os.Truncate(large, maxUserFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadUsers(large); err == nil || !strings.Contains(err.Error(), "at most 16777216") {
		t.Error(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestChangeUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	set := func(name, password string, replaces bool) {
		t.Helper()
		replaced, err := ChangeUser(path, name, Change{Password: password})
		if err != nil || replaced != replaces {
			t.Fatalf("%s: %v, %v", name, replaced, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("%v, %v", info.Mode(), err)
		}
		u, err := ReadUsers(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Check(t.Context(), name, password); err != nil {
			t.Error(err)
		}
	}
	set("ann", "one", false)
	set("bob", "two", false)
	set("cleo", "three", false)
	before := strings.Split(read(t, path), "\n")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	set("bob", "four", true)
	after := strings.Split(read(t, path), "\n")
	if len(after) != 4 || after[0] != before[0] || after[1] == before[1] || after[2] != before[2] || after[3] != "" {
		t.Errorf("%q, before %q", after, before)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	for _, name := range []string{"", "a:b", "#a", " a", "a\n"} {
		if _, err := ChangeUser(path, name, Change{Password: "x"}); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	if _, err := ChangeUser(path, "dora", Change{}); err == nil {
		t.Error("an empty password is one")
	}
	if text := strings.Join(after, "\n"); read(t, path) != text {
		t.Error("the file changed")
	}
}

func TestDeleteUser(t *testing.T) {
	path := userFile(t, "ann:hash one\nbob:hash two\ncleo:hash three") // hashes are not looked at
	if err := DeleteUser(path, "bob"); err != nil || read(t, path) != "ann:hash one\ncleo:hash three\n" {
		t.Errorf("%v, %s", err, read(t, path))
	}
	if err := DeleteUser(path, "bob"); err == nil || !strings.Contains(err.Error(), "no user bob") {
		t.Error(err)
	}
	if err := DeleteUser(filepath.Join(t.TempDir(), "none"), "bob"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A file that cannot be read as a whole is not written.
func TestBrokenFileStaysAsItIs(t *testing.T) {
	text := "ann:x\n\nbob:y\n"
	path := userFile(t, text)
	_, err := ChangeUser(path, "ann", Change{Password: "z"})
	if err == nil || !strings.Contains(err.Error(), ":2: not NAME:HASH") || DeleteUser(path, "ann") == nil || read(t, path) != text {
		t.Errorf("%v, %s", err, read(t, path))
	}
}

// A link stays one.
func TestUserFileBehindALink(t *testing.T) {
	path := userFile(t, "")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := ChangeUser(link, "ann", Change{Password: "x"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.HasPrefix(read(t, path), "ann:") {
		t.Error(info, err)
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	path := userFile(t, "ann:x\n")
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := ChangeUser(path, "ann", Change{Password: "x"}); !errors.Is(err, os.ErrPermission) || read(t, path) != "ann:x\n" {
		t.Error(err)
	}
}
