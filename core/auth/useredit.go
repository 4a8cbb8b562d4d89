package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

// Change is what becomes of a user's line.
type Change struct {
	// Password is the new one; "" leaves what there is.
	Password string
	// NoPassword takes the password away: the user comes in by a certificate, a
	// token or a key.
	NoPassword bool
	// CRA keeps, from now on, a key for WAMP-CRA beside the password's hash. It
	// needs a password.
	CRA bool
	// Attributes are set, or taken away where the value is "". The keys are
	// those of ReadUsers.
	Attributes map[string]string
}

// ChangeUser changes a user's line and tells whether the user was there before;
// a new one needs a password or NoPassword. The file is made when there is none;
// its other lines stay as they are. It is replaced as a whole, by one that only
// its owner can read.
func ChangeUser(path, name string, c Change) (found bool, err error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	_, lines, err := readLines(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	i := slices.IndexFunc(lines, func(l userLine) bool { return l.name == name })
	if found = i >= 0; !found {
		i = len(lines)
		lines = append(lines, userLine{name: name})
	}
	if lines[i].rest, err = c.apply(lines[i].rest); err != nil {
		return found, err
	}
	if _, err := parseAccount(name, lines[i].rest); err != nil {
		return found, fmt.Errorf("user %s: %w", name, err)
	}
	return found, writeLines(path, lines)
}

// HasUser tells whether a user is in a file for ReadUsers, whatever stands behind
// the name. A file that is not there has none.
func HasUser(path, name string) (bool, error) {
	_, lines, err := readLines(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(lines, func(l userLine) bool { return l.name == name }), err
}

// apply changes what stands behind a name. A key for WAMP-CRA goes with the
// password that it was made from.
func (c *Change) apply(rest string) (string, error) {
	fields := strings.Split(rest, " ")
	set, err := c.settings()
	if err != nil {
		return "", err
	}
	switch {
	case c.NoPassword && (c.Password != "" || c.CRA):
		return "", errors.New("no password, and a password: one or the other")
	case c.CRA && c.Password == "":
		return "", errors.New("a key for WAMP-CRA is made from the password, which has to be given")
	case c.NoPassword:
		fields[0], set["cra"] = noPassword, ""
	case c.Password != "":
		hash, err := Hash(c.Password)
		if err != nil {
			return "", err
		}
		fields[0] = hash
		if c.CRA || slices.ContainsFunc(fields, isCRA) {
			k, err := newCRA(c.Password)
			if err != nil {
				return "", err
			}
			set["cra"] = k.String()
		}
	case fields[0] == "":
		return "", errors.New("a new user needs a password, or to have none")
	}
	return strings.Join(withAttributes(fields, set), " "), nil
}

// settings are the attributes to set, each of one word without blanks: none
// reaches into the next one, or the next line.
func (c *Change) settings() (map[string]string, error) {
	set := map[string]string{}
	for k, v := range c.Attributes {
		switch {
		case attributes()[k] == nil:
			return nil, fmt.Errorf("%q: none of %s", k, strings.Join(AttributeNames(), ", "))
		case strings.ContainsFunc(v, unicode.IsSpace):
			return nil, fmt.Errorf("%s: no blanks in it", k)
		}
		set[k] = v
	}
	return set, nil
}

func isCRA(field string) bool { return strings.HasPrefix(field, "cra=") }

// withAttributes puts values in their place, or behind.
func withAttributes(fields []string, set map[string]string) []string {
	out := fields[:1:1]
	for _, f := range fields[1:] {
		key, _, _ := strings.Cut(f, "=")
		v, changes := set[key]
		delete(set, key)
		switch {
		case !changes:
			out = append(out, f)
		case v != "":
			out = append(out, key+"="+v)
		}
	}
	for _, key := range AttributeNames() {
		if set[key] != "" {
			out = append(out, key+"="+set[key])
			delete(set, key)
		}
	}
	return out
}

// DeleteUser takes a user out of the file; an error when there is no such user.
func DeleteUser(path, name string) error {
	_, lines, err := readLines(path)
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
		fmt.Fprintf(&text, "%s:%s\n", l.name, l.rest)
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
