package coap

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"entrepot/core/auth"
)

// maxPSKFile bounds a file of keys, in bytes.
const maxPSKFile = 16 << 20

// psks are the keys that DTLS clients share with the broker (RFC 4279), by their
// identities. They do not change.
type psks struct{ keys map[string][]byte }

// readPSKs reads a file of keys, one IDENTITY:HEXKEY a line. An identity is a
// user's name, a key 16 to 64 bytes, as in a file of users. A line that is anything else, an empty one
// too, and an identity that comes twice are errors, with the line's number; none
// is passed over. The file must not be readable by everybody. No error and no log
// ever holds a key.
func readPSKs(path string) (*psks, error) {
	text, err := auth.ReadSecret(path, maxPSKFile)
	if err != nil {
		return nil, fmt.Errorf("PSK file: %w", err)
	}
	p := &psks{keys: map[string][]byte{}}
	line := 0
	for raw := range bytes.Lines(text) {
		line++
		identity, key, err := parsePSK(strings.TrimSuffix(string(raw), "\n"))
		if err == nil && p.keys[identity] != nil {
			err = fmt.Errorf("identity %s comes twice", identity)
		}
		if err != nil {
			return nil, fmt.Errorf("PSK file %s:%d: %w", path, line, err)
		}
		p.keys[identity] = key
	}
	return p, nil
}

func parsePSK(line string) (identity string, key []byte, err error) {
	identity, digits, ok := strings.Cut(line, ":")
	if !ok {
		return "", nil, errors.New("not IDENTITY:HEXKEY")
	}
	if err := auth.CheckName(identity); err != nil {
		return "", nil, err
	}
	if key, err = auth.ParsePSK(digits); err != nil {
		return "", nil, fmt.Errorf("identity %s: the key is %w", identity, err)
	}
	return identity, key, nil
}

// find is an identity's key in the file, nil when there is none.
func (p *psks) find(identity string) []byte {
	if p == nil {
		return nil
	}
	return p.keys[identity]
}

// keyOf is the key of an identity that a client names, by the file of users or else
// of keys: where both have it, what the users file says of a user holds for its key
// too. One that is not known, or with which too many failed, has a key that nobody
// knows, so that clients cannot tell (RFC 4279, 2).
func (k *dtlsSocket) keyOf(a *association, identity []byte) []byte {
	who := k.credentials(a.began)
	who.User = string(identity)
	off := k.server.broker.PutOff(who)
	a.claim.name(who.User, off)
	if off {
		return k.fakeKey(identity)
	}
	if key, ok := k.server.broker.Door().PSK(who.User); ok {
		return key
	}
	if key := k.server.psks.Load().find(who.User); key != nil {
		return key
	}
	return k.fakeKey(identity)
}

func (k *dtlsSocket) fakeKey(identity []byte) []byte {
	m := hmac.New(sha256.New, k.fake[:])
	_, _ = m.Write(identity) // never fails
	return m.Sum(nil)
}
