package auth

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// sha is a password's hash as mosquitto's password files have it: $6$SALT$KEY,
// SHA-512 of the password with the salt behind it, or $7$PASSES$SALT$KEY,
// PBKDF2 with HMAC-SHA-512; salt and key in base64 with padding.
type sha struct {
	passes int // 0: $6$
	salt   []byte
	key    []byte
}

// mostPasses bounds the work of one comparison, to a second or so.
const mostPasses = 1 << 20

func (s sha) fits(password string) bool {
	var key []byte
	if s.passes == 0 {
		sum := sha512.Sum512(append([]byte(password), s.salt...))
		key = sum[:]
	} else {
		var err error
		if key, err = pbkdf2.Key(sha512.New, password, s.salt, s.passes, sha512.Size); err != nil {
			return false
		}
	}
	return subtle.ConstantTimeCompare(key, s.key) == 1
}

// parseSHA reads both kinds.
func parseSHA(text string) (hash, error) {
	parts := strings.Split(text, "$")[1:] // parseHash saw the first $
	s := sha{}
	if parts[0] == "7" && len(parts) > 1 {
		n, ok := cost(parts[1], "")
		switch {
		case !ok || n == 0:
			return nil, errors.New("mosquitto hash: not $7$PASSES$SALT$KEY")
		case n > mostPasses:
			return nil, fmt.Errorf("mosquitto hash: costs too much to check: %d passes, at most %d", n, mostPasses)
		}
		s.passes, parts = int(n), parts[1:]
	}
	if len(parts) != 3 {
		return nil, errors.New("mosquitto hash: neither $6$SALT$KEY nor $7$PASSES$SALT$KEY")
	}
	var err1, err2 error
	s.salt, err1 = base64.StdEncoding.Strict().DecodeString(parts[1])
	s.key, err2 = base64.StdEncoding.Strict().DecodeString(parts[2])
	switch {
	case err1 != nil || err2 != nil || strings.ContainsAny(text, "\r\n"):
		return nil, errors.New("mosquitto hash: salt and key are not base64")
	case len(s.salt) < 8 || len(s.salt) > 64 || len(s.key) != sha512.Size:
		return nil, errors.New("mosquitto hash: the salt has 8 to 64 bytes, the key 64")
	}
	return s, nil
}
