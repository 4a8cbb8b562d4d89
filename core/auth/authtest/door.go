// Package authtest has what tests of front-ends need to let clients in by tokens.
// Only tests import it.
package authtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"entrepot/core/auth"
)

const secret = "0123456789abcdef0123456789abcdef"

// TokenDoor lets in whom a Token names, until it expires, to the second.
func TokenDoor(t testing.TB) *auth.Door {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hs.key")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	c := auth.DefaultConfig()
	c.Token.Keys, c.Token.Leeway = []string{path}, 0
	d, err := c.Door()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Token is a JSON Web Token (RFC 7519) for a user, which expires after lasts; a
// negative one has expired. The user's name is letters alone.
func Token(user string, lasts time.Duration) string {
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(`{"alg":"HS256"}`)) + "." + b64(fmt.Appendf(nil, `{"sub":%q,"exp":%d}`, user, time.Now().Add(lasts).Unix()))
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return text + "." + b64(m.Sum(nil))
}
