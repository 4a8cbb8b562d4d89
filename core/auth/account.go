package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// account is what a users file says of one user. It does not change.
type account struct {
	hash      hash // nil: no password lets this user in
	groups    []string
	protocols []string // empty: all; so with the next two
	listeners []string
	networks  []netip.Prefix
	limits    Limits
	psk       []byte
	cra       *craKey
	mark      mark // of the whole line
}

// mark tells whether something is still what it was.
type mark [16]byte

func markOf(parts ...string) (m mark) {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	copy(m[:], h.Sum(nil))
	return m
}

// Bounds on what stands behind a hash, so that no line costs much to compare.
const (
	maxList    = 64
	maxLimit   = 1 << 40
	noPassword = "*" // in the hash's place
)

// protocols that a user can be limited to.
func protocols() []string { return []string{"mqtt", "stomp", "amqp", "wamp", "coap", "http"} }

// attributes that may stand behind a hash, each KEY=VALUE once.
func attributes() map[string]func(*account, string) error {
	return map[string]func(*account, string) error{
		"groups":    func(a *account, v string) error { return a.setGroups(v) },
		"protocols": func(a *account, v string) error { return a.setProtocols(v) },
		"listeners": func(a *account, v string) (err error) {
			a.listeners, err = list(v)
			return err
		},
		"networks":        func(a *account, v string) error { return a.setNetworks(v) },
		"max-connections": func(a *account, v string) error { return limit(&a.limits.Connections, v) },
		"max-messages":    func(a *account, v string) error { return limit(&a.limits.Messages, v) },
		"max-bytes":       func(a *account, v string) error { return limit(&a.limits.Bytes, v) },
		"psk":             func(a *account, v string) error { return a.setPSK(v) },
		"cra":             func(a *account, v string) error { return a.setCRA(v) },
	}
}

// parseAccount reads what stands behind a name: HASH, then KEY=VALUE parted by
// single blanks. Its errors show no secret.
func parseAccount(name, text string) (a account, err error) {
	fields := strings.Split(text, " ")
	if fields[0] != noPassword {
		if a.hash, err = parseHash(fields[0]); err != nil {
			return account{}, err
		}
	}
	known := attributes()
	seen := map[string]bool{}
	for _, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		set := known[key]
		switch {
		case !ok || set == nil:
			return account{}, fmt.Errorf("behind the hash: not KEY=VALUE with one of %s", strings.Join(AttributeNames(), ", "))
		case seen[key]:
			return account{}, fmt.Errorf("%s comes twice", key)
		}
		seen[key] = true
		if err := set(&a, value); err != nil {
			return account{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	a.mark = markOf(name, text)
	return a, nil
}

// AttributeNames are the keys that may stand behind a hash.
func AttributeNames() []string {
	var names []string
	for name := range attributes() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func list(text string) ([]string, error) {
	all := strings.Split(text, ",")
	if len(all) > maxList {
		return nil, fmt.Errorf("more than %d", maxList)
	}
	for i, one := range all {
		if one == "" || slices.Contains(all[:i], one) {
			return nil, errors.New("not a list of different texts, parted by commas alone")
		}
	}
	return all, nil
}

func (a *account) setGroups(text string) (err error) {
	if a.groups, err = list(text); err != nil {
		return err
	}
	for _, g := range a.groups {
		if err := CheckGroup(g); err != nil {
			return err
		}
	}
	return nil
}

// CheckGroup returns an error for what cannot be a group's name: as of
// CheckName, and with a blank or a comma.
func CheckGroup(name string) error {
	if CheckName(name) != nil || strings.ContainsAny(name, " ,") {
		return fmt.Errorf("%.300q is no name of a group", name)
	}
	return nil
}

func (a *account) setProtocols(text string) (err error) {
	if a.protocols, err = list(text); err != nil {
		return err
	}
	return checkProtocols(a.protocols)
}

func checkProtocols(names []string) error {
	for _, p := range names {
		if !slices.Contains(protocols(), p) {
			return fmt.Errorf("%.40q is none of %s", p, strings.Join(protocols(), ", "))
		}
	}
	return nil
}

func (a *account) setNetworks(text string) error {
	texts, err := list(text)
	if err != nil {
		return err
	}
	for _, t := range texts {
		n, err := parseNetwork(t)
		if err != nil {
			return err
		}
		a.networks = append(a.networks, n)
	}
	return nil
}

// parseNetwork reads 10.0.0.0/8, or one address.
func parseNetwork(text string) (netip.Prefix, error) {
	if at, err := netip.ParseAddr(text); err == nil && at.Zone() == "" {
		at = at.Unmap()
		return netip.PrefixFrom(at, at.BitLen()), nil
	}
	n, err := netip.ParsePrefix(text)
	if err != nil || n.Masked() != n || n.Addr().Is4In6() {
		return n, fmt.Errorf("%.60q is neither an address nor a network such as 10.1.0.0/16", text)
	}
	return n, nil
}

func limit(to *int, text string) error {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 || n > maxLimit || strconv.FormatUint(n, 10) != text {
		return errors.New("not a whole number from 1 on")
	}
	*to = int(n)
	return nil
}

func (a *account) setPSK(text string) (err error) {
	a.psk, err = ParsePSK(text)
	return err
}

// hasKey tells whether the line holds what is as good as a password by itself.
func (a *account) hasKey() bool { return len(a.psk) > 0 || a.cra != nil }

// admits tells why a client whose name is proved may not come in here; "" when
// it may. A unix socket or a pipe is in no network, and is let in.
func (a *account) admits(c *Credentials) Reason {
	at := c.Remote.Unmap().WithZone("")
	switch {
	case len(a.protocols) > 0 && !slices.Contains(a.protocols, c.Protocol):
		return BadProtocol
	case len(a.listeners) > 0 && !slices.Contains(a.listeners, c.Listener):
		return BadListener
	case len(a.networks) > 0 && at.IsValid() && !slices.ContainsFunc(a.networks, func(n netip.Prefix) bool { return n.Contains(at) }):
		return BadNetwork
	}
	return ""
}
