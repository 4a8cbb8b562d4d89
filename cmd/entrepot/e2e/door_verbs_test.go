package e2e

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing/synctest"

	rights "entrepot/core/auth"
)

// users has the broker let in these from now on, each a word in quotes: NAME
// PASSWORD and what else a line of a users file has; "-" is no password. A
// plain word is a protocol whose clients need not say who they are. Clients with
// a certificate are whom it names.
func (st *stage) users(words []word) ([]string, error) {
	var lines []string
	cfg := rights.DefaultConfig()
	cfg.Certificate.User = "{cn}"
	for _, w := range words {
		if !w.payload {
			cfg.Anonymous = append(cfg.Anonymous, w.text)
			continue
		}
		lines = append(lines, userLine(w.text))
	}
	file, err := os.CreateTemp("", "users")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(strings.Join(lines, "\n")); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	cfg.Users = filepath.Clean(file.Name())
	door, err := cfg.Door()
	if err != nil {
		return nil, err
	}
	st.broker.core.SetDoor(door)
	synctest.Wait()
	return st.news("", ""), nil
}

// userLine is a line of a users file, with a hash that is quickly checked.
func userLine(text string) string {
	parts := strings.SplitN(text, " ", 3)
	line := parts[0] + ":*"
	if len(parts) > 1 && parts[1] != "-" {
		salt := []byte("salt of " + parts[0])
		key, err := pbkdf2.Key(sha512.New, parts[1], salt, 101, sha512.Size)
		if err != nil {
			panic(err) // no such thing
		}
		b64 := base64.StdEncoding.EncodeToString
		line = fmt.Sprintf("%s:$7$101$%s$%s", parts[0], b64(salt), b64(key))
	}
	if len(parts) > 2 {
		line += " " + parts[2]
	}
	return line
}
