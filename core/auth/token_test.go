package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const hmacSecret = "0123456789abcdef0123456789abcdef"

// keyring holds a key of each kind, and the files that a broker reads.
type keyring struct {
	dir  string
	sign map[string]any // by file's name
}

func newKeyring(t *testing.T) *keyring {
	k := &keyring{t.TempDir(), map[string]any{"hs": []byte(hmacSecret)}}
	k.write(t, "hs.key", []byte(hmacSecret+"\n"))
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	k.add(t, "rs", r)
	for name, curve := range map[string]elliptic.Curve{"es256": elliptic.P256(), "es384": elliptic.P384(), "es512": elliptic.P521()} {
		e, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		k.add(t, name, e)
	}
	_, ed, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.add(t, "ed", ed)
	return k
}

func (k *keyring) write(t *testing.T, name string, text []byte) string {
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (k *keyring) add(t *testing.T, name string, key crypto.Signer) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, name+".pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	k.sign[name] = key
}

func (k *keyring) paths(names ...string) (paths []string) {
	for _, n := range names {
		paths = append(paths, filepath.Join(k.dir, n))
	}
	return paths
}

func (k *keyring) config(names ...string) TokenConfig {
	c := DefaultConfig().Token
	c.Keys = k.paths(names...)
	return c
}

func (k *keyring) token(t *testing.T, alg, key, kid string, claims jwt.Claims) string {
	t.Helper()
	tok := jwt.NewWithClaims(jwt.GetSigningMethod(alg), claims)
	if kid != "" {
		tok.Header["kid"] = kid
	}
	text, err := tok.SignedString(k.sign[key])
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func soon() jwt.MapClaims {
	return jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"ops"}}
}

func mustOpen(t *testing.T, c TokenConfig) *tokens {
	t.Helper()
	all, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTokenAlgorithms(t *testing.T) {
	k := newKeyring(t)
	all := mustOpen(t, k.config("hs.key", "rs.pem", "es256.pem", "es384.pem", "es512.pem", "ed.pem"))
	for alg, key := range map[string]string{"HS256": "hs", "HS384": "hs", "HS512": "hs", "RS256": "rs", "RS384": "rs", "RS512": "rs",
		"PS256": "rs", "PS384": "rs", "PS512": "rs", "ES256": "es256", "ES384": "es384", "ES512": "es512", "EdDSA": "ed"} {
		for _, kid := range []string{"", key} {
			p, err := all.check(k.token(t, alg, key, kid, soon()))
			if err != nil || p.user != "ann" || !slices.Equal(p.groups, []string{"ops"}) || p.until.IsZero() {
				t.Errorf("%s, kid %q: %+v, %v", alg, kid, p, err)
			}
		}
		if _, err := all.check(k.token(t, alg, key, "other", soon())); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: a kid that nobody knows: %v", alg, err)
		}
	}
	// With one key there is nothing to pick.
	one := mustOpen(t, k.config("ed.pem"))
	if _, err := one.check(k.token(t, "EdDSA", "ed", "2026-11", soon())); err != nil {
		t.Error(err)
	}
}

// [faults C 37, 49] the kind of key says which algorithm: a token cannot.
func TestTokenForgeries(t *testing.T) {
	k := newKeyring(t)
	all := mustOpen(t, k.config("rs.pem", "es256.pem", "ed.pem"))
	public := []byte(readIf(filepath.Join(k.dir, "rs.pem")))
	sign := func(alg string, key any, claims jwt.Claims, header map[string]any) string {
		tok := jwt.NewWithClaims(jwt.GetSigningMethod(alg), claims)
		for name, v := range header {
			tok.Header[name] = v
		}
		text, err := tok.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := k.token(t, "ES256", "es256", "", soon())
	parts := strings.Split(good, ".")
	raw := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for name, text := range map[string]string{
		"none":                    sign("none", jwt.UnsafeAllowNoneSignatureType, soon(), nil),
		"None":                    raw(`{"alg":"None"}`) + "." + parts[1] + ".",
		"HS with the public key":  sign("HS256", public, soon(), nil),
		"HS, the file's bytes":    sign("HS256", []byte(strings.TrimSpace(string(public))), soon(), map[string]any{"kid": "rs"}),
		"another's key":           sign("ES256", stranger, soon(), nil),
		"a key in the header":     sign("ES256", stranger, soon(), map[string]any{"jwk": map[string]any{"kty": "EC"}, "jku": "https://evil.example/"}),
		"crit":                    sign("ES256", k.sign["es256"], soon(), map[string]any{"crit": []string{"b64"}, "b64": false}),
		"no signature":            parts[0] + "." + parts[1] + ".",
		"half a signature":        good[:len(good)-20],
		"other claims":            parts[0] + "." + raw(`{"sub":"root","exp":9999999999}`) + "." + parts[2],
		"four parts":              good + ".x",
		"kid that is a list":      sign("ES256", k.sign["es256"], soon(), map[string]any{"kid": []string{"es256"}}),
		"alg that is a number":    raw(`{"alg":5}`) + "." + parts[1] + "." + parts[2],
		"header that is a list":   raw(`["ES256"]`) + "." + parts[1] + "." + parts[2],
		"claims that are a list":  sign("ES256", k.sign["es256"], rawClaims(`["ann"]`), nil),
		"claims that are null":    sign("ES256", k.sign["es256"], rawClaims(`null`), nil),
		"huge":                    good + strings.Repeat("A", maxToken),
		"kid of another key":      sign("ES256", k.sign["es256"], soon(), map[string]any{"kid": "rs"}),
		"RS for a key of another": raw(`{"alg":"RS256","kid":"es256"}`) + "." + parts[1] + "." + parts[2],
	} {
		if p, err := all.check(text); !errors.Is(err, ErrRefused) || p.user != "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		} else if strings.Contains(err.Error(), parts[2]) {
			t.Errorf("%s: the token is in %q", name, err)
		}
	}
	if _, err := all.check(good); err != nil {
		t.Error(err)
	}
}

// rawClaims are signed as they are.
type rawClaims string

func (r rawClaims) MarshalJSON() ([]byte, error)               { return []byte(r), nil }
func (rawClaims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (rawClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (rawClaims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (rawClaims) GetIssuer() (string, error)                   { return "", nil }
func (rawClaims) GetSubject() (string, error)                  { return "", nil }
func (rawClaims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }

// [faults C 28, 49] times with fractions, without, far away and of other types;
// groups without end and of other types.
func TestTokenClaims(t *testing.T) {
	k := newKeyring(t)
	cfg := k.config("hs.key")
	cfg.Issuer, cfg.Audience = "https://id.example", "broker"
	strict := mustOpen(t, cfg)
	cfg.RequireExp = false
	lax := mustOpen(t, cfg)
	now := time.Now().Unix()
	many := `"g` + strings.Join(slices.Repeat([]string{"x"}, maxGroups), `","g`) + `"`
	for i, c := range []struct {
		claims string // behind {"iss":…,"aud":…
		want   string // user, or a part of the error
		lax    bool
	}{
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d`, now+60), want: "ann"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d.75`, now+60), want: "ann"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%de0`, now+60), want: "ann"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d`, now-10), want: "ann"}, // leeway
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d`, now-60), want: "expired"},
		{claims: `"sub":"ann","exp":1.5`, want: "expired"},
		{claims: `"sub":"ann","exp":0`, want: "expired"},
		{claims: `"sub":"ann"`, want: "exp claim is required"},
		{claims: `"sub":"ann"`, want: "ann", lax: true},
		{claims: `"sub":"ann","exp":null`, want: "exp: not a number", lax: true},
		{claims: fmt.Sprintf(`"sub":"ann","exp":"%d"`, now+60), want: "exp: not a number"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":[%d]`, now+60), want: "exp: not a number"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d000`, now+60), want: "no time in seconds"}, // milliseconds
		{claims: `"sub":"ann","exp":1e300`, want: "no time in seconds"},
		{claims: `"sub":"ann","exp":1e999`, want: "no time in seconds"},
		{claims: `"sub":"ann","exp":-1`, want: "no time in seconds"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"nbf":%d`, now+60, now+10), want: "ann"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"nbf":%d.5`, now+600, now+300), want: "not valid yet"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"iat":%d`, now+600, now+300), want: "before issued"},
		{claims: fmt.Sprintf(`"exp":%d`, now+60), want: "name is empty"},
		{claims: fmt.Sprintf(`"sub":7,"exp":%d`, now+60), want: "sub: not a text"},
		{claims: fmt.Sprintf(`"sub":"a:b","exp":%d`, now+60), want: "no colon"},
		{claims: fmt.Sprintf(`"sub":"a\nb","exp":%d`, now+60), want: "single blanks only"},
		{claims: fmt.Sprintf(`"sub":%q,"exp":%d`, strings.Repeat("x", 256), now+60), want: "at most 255"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"groups":"a b  c"`, now+60), want: "ann"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"groups":[["a"]]`, now+60), want: "not a list of texts"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"groups":{"a":1}`, now+60), want: "neither a text"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"groups":["a,b"]`, now+60), want: "no name of a group"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"groups":["",null]`, now+60), want: "not a list of texts"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"groups":[%s,"z"]`, now+60, many), want: "at most 64"},
		{claims: fmt.Sprintf(`"sub":"ann","exp":%d,"x":%s%s`, now+60, strings.Repeat("[", 5000), strings.Repeat("]", 5000)), want: "levels"},
	} {
		check := strict
		if c.lax {
			check = lax
		}
		text := k.token(t, "HS256", "hs", "", rawClaims(`{"iss":"https://id.example","aud":["x","broker"],`+c.claims+`}`))
		p, err := check.check(text)
		if err == nil && p.user != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %.120s: %q, %v, want %s", i, c.claims, p.user, err, c.want)
		}
	}
	for _, claims := range []string{`"iss":"https://id.example"`, `"aud":"broker"`, `"iss":"https://id.example/","aud":"broker"`,
		`"iss":"https://id.example","aud":"brokers"`, `"iss":["https://id.example"],"aud":"broker"`} {
		text := k.token(t, "HS256", "hs", "", rawClaims(fmt.Sprintf(`{"sub":"ann","exp":%d,%s}`, now+60, claims)))
		if _, err := strict.check(text); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", claims, err)
		}
	}
}

// [faults C 49] the session may last as long as the token is good.
func TestTokenUntil(t *testing.T) {
	k := newKeyring(t)
	all := mustOpen(t, k.config("hs.key"))
	exp := time.Now().Add(time.Hour).Truncate(time.Second)
	p, err := all.check(k.token(t, "HS256", "hs", "", rawClaims(fmt.Sprintf(`{"sub":"ann","exp":%d.5}`, exp.Unix()))))
	if want := exp.Add(500*time.Millisecond + 30*time.Second); err != nil || !p.until.Equal(want) {
		t.Errorf("%v, want %v, %v", p.until, want, err)
	}
}

func TestBadTokenKeys(t *testing.T) {
	k := newKeyring(t)
	weak, _ := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // to be refused
	if weak != nil {
		k.add(t, "weak", weak)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k.sign["ed"])
	if err != nil {
		t.Fatal(err)
	}
	public := readIf(filepath.Join(k.dir, "rs.pem"))
	k.write(t, "private.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	k.write(t, "short.key", []byte("too short\n"))
	k.write(t, "empty.key", nil)
	k.write(t, "two.pem", []byte(public+public))
	k.write(t, "broken.pem", []byte(strings.Replace(public, "-----END", "-----FIN", 1)))
	k.write(t, "cut.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}))
	k.write(t, "hs.pem", []byte(hmacSecret))
	for name, want := range map[string]string{
		"private.pem": "a private key", "short.key": "at least 32", "empty.key": "at least 32", "two.pem": "not one PEM block",
		"broken.pem": "not one PEM block", "cut.pem": "PEM block", "none.pem": "no such file", ".": "not a regular file",
	} {
		_, err := k.config(name).open()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if weak != nil {
		if _, err := k.config("weak.pem").open(); err == nil || !strings.Contains(err.Error(), "at least 2048") {
			t.Error(err)
		}
	}
	if _, err := k.config("hs.key", "hs.pem").open(); err == nil || !strings.Contains(err.Error(), `a key "hs" already`) {
		t.Error(err)
	}
}

// FuzzClaims: what is read of a token is within the bounds, whatever it claims.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{`{"sub":"ann","exp":1.5e9,"groups":["a","b"]}`, `{"groups":"a b","aud":["x"],"nbf":0}`, `{"exp":1e999}`, `[]`, `{"exp":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := claims{user: "sub", groups: "groups"}
		if json.Unmarshal(b, &c) != nil {
			return
		}
		if len(c.members) > maxGroups || c.exp.Unix() > lastYear || !c.exp.IsZero() && c.exp.Unix() < 0 {
			t.Errorf("%s: %+v", b, c)
		}
		for _, g := range c.members {
			if CheckGroup(g) != nil {
				t.Errorf("group %q", g)
			}
		}
	})
}
