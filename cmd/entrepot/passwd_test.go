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
		{"x", "FILE", exitUsage, "", "accepts 2 arg(s), received 1\nTry 'entrepot passwd --help'.\n"},
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
		got, err := askTerminal(&asked, "ann", 2, func() ([]byte, error) {
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
