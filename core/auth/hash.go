package auth

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// hash is what a users file keeps of a password. Comparing takes as long for a
// wrong password as for the right one, and may run on any goroutine.
type hash interface {
	fits(password string) bool
}

// argon is a password's argon2id hash (RFC 9106).
type argon struct {
	memory uint32 // KiB
	passes uint32
	lanes  uint8
	salt   []byte
	key    []byte
}

// Bounds on the work that a hash may ask for: one comparison stays under a
// second or so, and under 256 MiB.
const (
	mostMemory = 256 << 10 // KiB
	mostWork   = 1 << 20   // KiB times passes
	mostLanes  = 8
	mostCost   = 14 // of bcrypt
)

// fresh has the cost of new hashes: some 20 MiB, tens of milliseconds.
func fresh() argon {
	a := argon{memory: 19 << 10, passes: 2, lanes: 1, salt: make([]byte, 16), key: make([]byte, 32)}
	rand.Read(a.salt) // never fails
	return a
}

func (a argon) derive(password string) []byte {
	return argon2.IDKey([]byte(password), a.salt, a.passes, a.memory, a.lanes, uint32(len(a.key)))
}

func (a argon) fits(password string) bool {
	return subtle.ConstantTimeCompare(a.derive(password), a.key) == 1
}

// String is the PHC form: $argon2id$v=19$m=KIB,t=PASSES,p=LANES$SALT$KEY.
func (a argon) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, a.memory, a.passes, a.lanes,
		b64.EncodeToString(a.salt), b64.EncodeToString(a.key))
}

// Hash is what a users file keeps of a password: argon2id with a salt of its
// own, in PHC form. The empty password is refused.
func Hash(password string) (string, error) {
	if password == "" {
		return "", errors.New("the password is empty")
	}
	a := fresh()
	a.key = a.derive(password)
	return a.String(), nil
}

// parseHash reads argon2id in PHC form, bcrypt, and what mosquitto writes. Its
// errors do not show the text.
func parseHash(text string) (hash, error) {
	switch scheme, _, _ := strings.Cut(strings.TrimPrefix(text, "$"), "$"); {
	case text == "":
		return nil, errors.New("no hash behind the name")
	case text[0] != '$':
		return nil, errors.New("no hash of a password: neither argon2id nor bcrypt nor mosquitto's")
	case scheme == "argon2id":
		return parseArgon(text)
	case slices.Contains([]string{"2a", "2b", "2y"}, scheme):
		return parseBcrypt(text)
	case scheme == "6" || scheme == "7":
		return parseSHA(text)
	}
	return nil, errors.New("a hash of another kind: argon2id, bcrypt ($2a$, $2b$, $2y$) and mosquitto's ($6$, $7$) are known")
}

func parseArgon(text string) (hash, error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, fmt.Errorf("argon2id hash: not $argon2id$v=%d$m=KIB,t=PASSES,p=LANES$SALT$KEY", argon2.Version)
	}
	a, err := parseCosts(parts[3])
	if err != nil {
		return nil, err
	}
	var err1, err2 error
	a.salt, err1 = base64.RawStdEncoding.Strict().DecodeString(parts[4])
	a.key, err2 = base64.RawStdEncoding.Strict().DecodeString(parts[5])
	switch {
	case err1 != nil || err2 != nil || strings.ContainsAny(text, "\r\n"): // which Go's decoder passes over
		return nil, errors.New("argon2id hash: salt and key are not base64 without padding")
	case len(a.salt) < 8 || len(a.salt) > 64 || len(a.key) < 16 || len(a.key) > 64:
		return nil, errors.New("argon2id hash: the salt has 8 to 64 bytes, the key 16 to 64")
	}
	return a, nil
}

// parseCosts reads m=KIB,t=PASSES,p=LANES.
func parseCosts(text string) (argon, error) {
	costs := strings.Split(text, ",")
	if len(costs) != 3 {
		return argon{}, errors.New("argon2id hash: not m=KIB,t=PASSES,p=LANES")
	}
	memory, okM := cost(costs[0], "m=")
	passes, okT := cost(costs[1], "t=")
	lanes, okP := cost(costs[2], "p=")
	switch {
	case !okM || !okT || !okP || passes == 0 || lanes == 0 || memory < 8*lanes:
		return argon{}, errors.New("argon2id hash: m, t or p makes no sense")
	case memory > mostMemory || memory*passes > mostWork || lanes > mostLanes:
		return argon{}, fmt.Errorf("argon2id hash: costs too much to check: at most m=%d, m times t %d, p=%d", mostMemory, mostWork, mostLanes)
	}
	return argon{memory: uint32(memory), passes: uint32(passes), lanes: uint8(lanes)}, nil
}

// cost reads a decimal number behind its name.
func cost(text, name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(text, name)
	n, err := strconv.ParseUint(digits, 10, 32)
	return n, ok && err == nil && strconv.FormatUint(n, 10) == digits
}

// blowfish is a password's bcrypt hash, as other programs write it.
type blowfish []byte

// longestBcrypt is how many bytes of a password bcrypt looks at.
const longestBcrypt = 72

// fits refuses what bcrypt would cut off: two passwords with the same beginning
// are not the same.
func (b blowfish) fits(password string) bool {
	same := bcrypt.CompareHashAndPassword(b, []byte(password)) == nil
	return same && len(password) <= longestBcrypt
}

func parseBcrypt(text string) (hash, error) {
	const alphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	n, err := bcrypt.Cost([]byte(text))
	if err != nil || len(text) != 60 || text[6] != '$' || strings.Trim(text[7:], alphabet) != "" {
		return nil, errors.New("bcrypt hash: not $2b$COST$ and 53 characters")
	}
	if n > mostCost {
		return nil, fmt.Errorf("bcrypt hash: costs too much to check: %d, at most %d", n, mostCost)
	}
	return blowfish(text), nil
}
