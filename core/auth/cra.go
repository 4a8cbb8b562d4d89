package auth

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// craKey is what WAMP-CRA needs of a password: the key that both sides derive
// from it (PBKDF2 with HMAC-SHA-256, 32 bytes, base64). Unlike a hash it is as
// good as the password to whoever reads it.
type craKey struct {
	passes int
	salt   string
	key    string
}

// craPasses is what a browser's script derives in a second or so.
const craPasses = 10_000

func newCRA(password string) (craKey, error) {
	k := craKey{passes: craPasses, salt: rand.Text()}
	return k, k.derive(password)
}

func (k *craKey) derive(password string) error {
	key, err := pbkdf2.Key(sha256.New, password, []byte(k.salt), k.passes, sha256.Size)
	k.key = base64.StdEncoding.EncodeToString(key)
	return err
}

// String is PASSES$SALT$KEY.
func (k craKey) String() string { return fmt.Sprintf("%d$%s$%s", k.passes, k.salt, k.key) }

func (a *account) setCRA(text string) error {
	parts := strings.Split(text, "$")
	if len(parts) != 3 {
		return errors.New("not PASSES$SALT$KEY")
	}
	n, ok := cost(parts[0], "")
	key, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	if !ok || n == 0 || n > mostPasses || len(parts[1]) < 8 || len(parts[1]) > 64 || err != nil || len(key) != sha256.Size {
		return errors.New("not PASSES$SALT$KEY: a key has 32 bytes in base64, a salt 8 to 64 characters")
	}
	a.cra = &craKey{int(n), parts[1], parts[2]}
	return nil
}

// signed tells whether signature is that of the challenge.
func (k *craKey) signed(challenge, signature string) bool {
	h := hmac.New(sha256.New, []byte(k.key))
	h.Write([]byte(challenge))
	return hmac.Equal([]byte(base64.StdEncoding.EncodeToString(h.Sum(nil))), []byte(signature))
}

// Salt is what a WAMP-CRA client needs to derive the key from its password.
type Salt struct {
	Salt   string
	Passes int
	Length int // of the key, in bytes
}

// craOf finds a user's key. Who is unknown, or has none, gets one that nobody
// can know; it is the same each time, so that it tells nothing, and over
// restarts, as long as the first user's line stays.
func (u *Users) craOf(name string) (k *craKey, known bool) {
	if a, ok := u.accounts[name]; ok && a.cra != nil {
		return a.cra, true
	}
	k = &craKey{passes: craPasses}
	if n := len(u.salted); n > 0 {
		k.passes = u.salted[u.pick(name, n)].passes
	}
	text := u.decoyText("salt", name)
	k.salt, k.key = text[:len(rand.Text())], u.decoyText("key", name)
	return k, false
}
