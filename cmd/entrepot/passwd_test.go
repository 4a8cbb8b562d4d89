package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"entrepot/core/auth"
)

func TestPasswd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	long := strings.Repeat("x", maxPassword)
	for _, c := range []struct {
		stdin, args string // FILE stands for file; blank between two
		code        int
		out, errors string
	}{
		{"one\n", "FILE ann", 0, "FILE: user ann added\n", ""},
		{"two\r\nnot this\n", "FILE bob", 0, "FILE: user bob added\n", ""},
		{"three", "FILE ann", 0, "FILE: user ann has a new password\n", ""},
		{long + "\n", "FILE long", 0, "FILE: user long added\n", ""},
		{long + "x\n", "FILE longer", exitFailed, "", "password: over 1024 bytes\n"},
		{"", "FILE cleo", exitFailed, "", "the password is empty\n"},
		{"\nx\n", "FILE cleo", exitFailed, "", "the password is empty\n"},
		{"x", "FILE a:b", exitUsage, "", `user's name "a:b": no colon` + "\nTry 'entrepot passwd --help'.\n"},
		{"x", "FILE", exitUsage, "", "the user's name is missing\nTry 'entrepot passwd --help'.\n"},
		{"", "--delete FILE cleo", exitFailed, "", "users file FILE: no user cleo\n"},
		{"", "--delete FILE bob", 0, "FILE: user bob deleted\n", ""},
		{"", "--delete FILE/x ann", exitFailed, "", "users file: stat FILE/x: not a directory\n"},
		{"x", "FILE/x ann", exitFailed, "", "users file: stat FILE/x: not a directory\n"},
	} {
		r := do(t, c.stdin, append([]string{"passwd"}, strings.Fields(strings.ReplaceAll(c.args, "FILE", file))...)...)
		out, errs := strings.ReplaceAll(r.out, file, "FILE"), strings.ReplaceAll(r.errors, file, "FILE")
		if r.code != c.code || out != c.out || strings.TrimPrefix(errs, "entrepot: ") != c.errors {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	users, err := auth.ReadUsers(file)
	if err != nil || users.Len() != 2 {
		t.Fatal(users.Len(), err)
	}
	for name, password := range map[string]string{"ann": "three", "long": long} {
		if err := users.Check(t.Context(), name, password); err != nil {
			t.Error(err)
		}
	}
}

// What a user is and may is changed by itself; a password is asked for where one
// is needed only.
func TestPasswdAttributes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	key := strings.Repeat("0a", 16)
	for _, c := range []struct {
		stdin, args string
		code        int
		out, errors string // the beginning
	}{
		{"one\n", "FILE ann --groups ops,night --max-messages 100", 0, "FILE: user ann added\n", ""},
		{"", "FILE ann --protocols mqtt,amqp --networks 10.0.0.0/8 --listeners 127.0.0.1:1883", 0, "FILE: user ann changed\n", ""},
		{"", "FILE ann --max-messages= --max-connections 2 --max-bytes 1000", 0, "FILE: user ann changed\n", ""},
		{"", "FILE ann --max-bytes= --listeners=", 0, "FILE: user ann changed\n", ""},
		{"two\n", "FILE ann --wampcra", 0, "FILE: user ann has a new password\n", ""},
		{key + "\n", "FILE bob --no-password --psk stdin", 0, "FILE: user bob added\n", ""},
		{"three\n" + key + "\n", "FILE cleo --psk stdin", 0, "FILE: user cleo added\n", ""},
		{"", "FILE cleo --psk none", 0, "FILE: user cleo changed\n", ""},
		{"", "--list FILE", 0, "ann: password groups=ops,night networks=10.0.0.0/8 protocols=mqtt,amqp max-connections=2 cra\nbob: psk\ncleo: password\n", ""},
		{"", "FILE dora --groups ops", exitFailed, "", "the password is empty"},
		{"", "FILE ann --groups a:b", exitFailed, "", "user ann: groups: \"a:b\" is no name of a group"},
		{"", "FILE ann --protocols telnet", exitFailed, "", "user ann: protocols: \"telnet\" is none of"},
		{"0a\n", "FILE ann --psk stdin", exitFailed, "", "user ann: psk: not 16 to 64 bytes in hex"},
		{"", "FILE ann --psk stdin", exitFailed, "", "the key is empty"},
		{"", "FILE ann --psk " + key, exitUsage, "", "--psk: one of new, stdin, none; a key of your own comes by standard input"},
		{"", "FILE ann --wampcra --no-password", exitUsage, "", "--wampcra makes a key from the password"},
		{"", "FILE ann --delete --groups a", exitUsage, "", "--delete: with no other flag"},
		{"", "FILE ann --list", exitUsage, "", "--list: a file and nothing else"},
		{"", "FILE --list --no-password", exitUsage, "", "--list: a file and nothing else"},
		{"", "--list FILE.none", exitFailed, "", "users file: stat FILE.none: no such file"},
	} {
		r := do(t, c.stdin, append([]string{"passwd"}, strings.Fields(strings.ReplaceAll(c.args, "FILE", file))...)...)
		out, errs := strings.ReplaceAll(r.out, file, "FILE"), strings.ReplaceAll(r.errors, file, "FILE")
		if r.code != c.code || out != c.out || !strings.HasPrefix(strings.TrimPrefix(errs, "entrepot: "), c.errors) || strings.Contains(out+errs, key) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	users, err := auth.ReadUsers(file)
	if err != nil || users.Check(t.Context(), "ann", "two") != nil || users.Check(t.Context(), "cleo", "three") != nil {
		t.Error(err)
	}
}

// [faults C 58] A key that was made is printed once, and is the one in the file;
// no list and no later change shows it.
func TestPasswdMakesKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	r := do(t, "", "passwd", file, "dev 7", "--no-password", "--psk", "new")
	_, key, ok := strings.Cut(strings.TrimSpace(r.out), "its key in hex, which is not shown again: ")
	if r.code != 0 || !ok || len(key) != 64 {
		t.Fatalf("%+v", r)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "dev 7:* psk="+key+"\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, args := range [][]string{{"--list", file}, {file, "dev 7", "--groups", "a"}, {file, "dev 7", "--groups", "a:b"}} {
		if r := do(t, "", append([]string{"passwd"}, args...)...); strings.Contains(r.out+r.errors, key) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// Typed twice the same, it is a password.
func TestAskTwice(t *testing.T) {
	for _, c := range []struct {
		typed []string
		want  string
		err   string
	}{
		{[]string{"a b", "a b"}, "a b", ""},
		{[]string{"a", "b"}, "", "the two passwords are not the same"},
		{[]string{"a"}, "", "password: EOF"},
		{nil, "", "password: EOF"},
	} {
		var asked strings.Builder
		got, err := askTerminal(&asked, "Password for ann", 2, func() ([]byte, error) {
			if len(c.typed) == 0 {
				return nil, io.EOF
			}
			b := []byte(c.typed[0])
			c.typed = c.typed[1:]
			return b, nil
		})
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%q, %v; want %q, %s", got, err, c.want, c.err)
		}
		if err == nil && asked.String() != "Password for ann: \nThe same again: \n" {
			t.Errorf("asked %q", &asked)
		}
	}
}

// A password that does not come does not hold up the end.
func TestInterruptedPasswd(t *testing.T) {
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "users")
	var errs bytes.Buffer
	if code := run(ctx, []string{"passwd", file, "ann"}, in, io.Discard, &errs); code != exitFailed || errs.String() != "entrepot: interrupted\n" {
		t.Errorf("code %d, %s", code, &errs)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
