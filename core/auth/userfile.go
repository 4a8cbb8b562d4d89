package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Bounds on a users file and on a name, in bytes.
const (
	maxUserFile = 16 << 20
	maxName     = 255
)

// ReadUsers reads a file of users, one NAME:HASH a line: argon2id in PHC form,
// or bcrypt. A line that is anything else, an empty one too, and a name that
// comes twice are errors, with the line's number; none is passed over. A file
// without lines is one of no users: nobody may log in.
func ReadUsers(path string) (*Users, error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]hash, len(lines))
	for i, l := range lines {
		hashes[l.name], err = parseHash(l.hash)
		if err != nil {
			return nil, fmt.Errorf("users file %s:%d: user %s: %w", path, i+1, l.name, err)
		}
	}
	return newUsers(hashes), nil
}

// userLine is one line of the file; the hash is not looked at yet.
type userLine struct{ name, hash string }

// readLines reads the file, and holds the names to CheckName and to be
// different.
func readLines(path string) ([]userLine, error) {
	text, err := readUserFile(path)
	if err != nil {
		return nil, err
	}
	var lines []userLine
	first := map[string]int{}
	for raw := range bytes.Lines(text) {
		n := len(lines) + 1
		name, hash, ok := strings.Cut(strings.TrimSuffix(string(raw), "\n"), ":")
		if !ok {
			return nil, fmt.Errorf("users file %s:%d: not NAME:HASH", path, n)
		}
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("users file %s:%d: %w", path, n, err)
		}
		if earlier := first[name]; earlier > 0 {
			return nil, fmt.Errorf("users file %s:%d: user %s is in line %d already", path, n, name, earlier)
		}
		first[name] = n
		lines = append(lines, userLine{name, hash})
	}
	return lines, nil
}

func readUserFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("users file: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("users file %s: not a regular file", path)
	case info.Size() > maxUserFile:
		return nil, fmt.Errorf("users file %s: %d bytes, at most %d", path, info.Size(), maxUserFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("users file: %w", err)
	}
	return text, nil
}

// CheckName returns an error for what cannot be a user's name: the empty text,
// one of over 255 bytes, with a colon, a character that does not print, a blank
// at an end, or a # at the beginning.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the user's name is empty")
	case len(name) > maxName:
		return fmt.Errorf("user's name of %d bytes: at most %d", len(name), maxName)
	case strings.Contains(name, ":"):
		return fmt.Errorf("user's name %q: no colon", name)
	case strings.HasPrefix(name, "#"):
		return fmt.Errorf("user's name %q: does not begin with #", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("user's name %q: no blanks around it", name)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("user's name %q: letters, digits, signs and single blanks only", name)
	}
	return nil
}

// SetUser gives a user a password and tells whether the user was there before.
// The file is made when there is none; its other lines stay as they are. It is
// replaced as a whole, by one that only its owner can read.
func SetUser(path, name, password string) (replaced bool, err error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	lines, err := readLines(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	line := userLine{name: name}
	if line.hash, err = Hash(password); err != nil {
		return false, err
	}
	for i, l := range lines {
		if l.name == name {
			lines[i], replaced = line, true
		}
	}
	if !replaced {
		lines = append(lines, line)
	}
	return replaced, writeLines(path, lines)
}

// DeleteUser takes a user out of the file; an error when there is no such user.
func DeleteUser(path, name string) error {
	lines, err := readLines(path)
	if err != nil {
		return err
	}
	for i, l := range lines {
		if l.name == name {
			return writeLines(path, append(lines[:i], lines[i+1:]...))
		}
	}
	return fmt.Errorf("users file %s: no user %s", path, name)
}

// writeLines replaces the file, or what a link of that name leads to: whoever
// reads meanwhile, or after a crash, finds the old lines or the new.
func writeLines(path string, lines []userLine) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	var text bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&text, "%s:%s\n", l.name, l.hash)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("users file: %w", err)
	}
	_, err = temp.Write(text.Bytes())
	err = errors.Join(err, keepOwner(temp, path), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		// The first error is what counts.
		_ = os.Remove(temp.Name())
		return fmt.Errorf("users file: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

// keepOwner gives the new file to the old one's owner, so that root may edit
// the file of the broker's user.
func keepOwner(f *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil { // a new one is the caller's
		return nil
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return f.Chown(int(s.Uid), int(s.Gid))
	}
	return nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("users file: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
