package auth

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on a users file and on a name, in bytes.
const (
	maxUserFile = 16 << 20
	maxName     = 255
)

// ReadUsers reads a file of users, one a line:
//
//	NAME:HASH KEY=VALUE …
//
// The hash is argon2id in PHC form, bcrypt, or one of mosquitto's; * is none, so
// that no password lets that user in. Behind it may stand, each once, after a
// single blank:
//
//	groups=a,b             for the rules of what a user may do
//	protocols=mqtt,amqp    the user comes in by these alone
//	listeners=ADDRESS,…    and on these, as the settings have them
//	networks=10.0.0.0/8,…  and from these
//	max-connections=N      how many connections the user may have open
//	max-messages=N         how many messages it may publish in a second
//	max-bytes=N            and how many bytes of payload
//	psk=HEX                the key for DTLS, whose identity is the name
//	cra=PASSES$SALT$KEY    the key for WAMP-CRA
//
// A line that is anything else, an empty one too, and a name that comes twice
// are errors, with the line's number; none is passed over. A file without lines
// is one of no users: nobody may log in.
//
// A file with keys for DTLS or WAMP-CRA must not be readable by everybody.
func ReadUsers(path string) (*Users, error) {
	file, lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	names, accounts := make([]string, len(lines)), make([]account, len(lines))
	for i, l := range lines {
		names[i] = l.name
		if accounts[i], err = parseAccount(l.name, l.rest); err != nil {
			return nil, fmt.Errorf("users file %s:%d: user %s: %w", path, i+1, l.name, err)
		}
		if err := file.Private(); err != nil && accounts[i].hasKey() {
			return nil, fmt.Errorf("users file %s: %w", path, err)
		}
	}
	return newUsers(names, accounts), nil
}

// userLine is one line of the file; what stands behind the name is not looked
// at yet.
type userLine struct{ name, rest string }

// readLines reads the file, and holds the names to CheckName and to be
// different.
func readLines(path string) (SmallFile, []userLine, error) {
	file, err := ReadSmallFile(path, maxUserFile)
	if err != nil {
		return file, nil, fmt.Errorf("users file: %w", err)
	}
	var lines []userLine
	first := map[string]int{}
	for raw := range bytes.Lines(file.Text) {
		n := len(lines) + 1
		name, rest, ok := strings.Cut(strings.TrimSuffix(string(raw), "\n"), ":")
		if !ok {
			return file, nil, fmt.Errorf("users file %s:%d: not NAME:HASH", path, n)
		}
		if err := CheckName(name); err != nil {
			return file, nil, fmt.Errorf("users file %s:%d: %w", path, n, err)
		}
		if earlier := first[name]; earlier > 0 {
			return file, nil, fmt.Errorf("users file %s:%d: user %s is in line %d already", path, n, name, earlier)
		}
		first[name] = n
		lines = append(lines, userLine{name, rest})
	}
	return file, lines, nil
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
