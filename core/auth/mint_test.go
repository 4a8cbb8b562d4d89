package auth

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// readBy is the settings of a broker that has the other half of the keys, by the
// names of their files.
func readBy(t *testing.T, keys map[string]*Signer, secrets map[string][]byte) TokenConfig {
	t.Helper()
	c, dir := DefaultConfig().Token, t.TempDir()
	for name, s := range keys {
		public, err := s.Public()
		if err != nil {
			t.Fatal(err)
		}
		if public == nil {
			public = secrets[name]
		}
		path := filepath.Join(dir, name+".pem")
		if err := os.WriteFile(path, public, 0o600); err != nil {
			t.Fatal(err)
		}
		c.Keys = append(c.Keys, path)
	}
	return c
}

// What is made for an algorithm signs by it first, and what it signs is taken by
// who has its other half, by its own name among others and alone by any name.
func TestMint(t *testing.T) {
	keys, texts := map[string]*Signer{}, map[string][]byte{}
	for _, alg := range []string{"EdDSA", "ES256", "ES384", "ES512", "RS256", "HS256", "HS384", "HS512"} {
		s, text, err := NewSigner(alg)
		if err != nil {
			t.Fatal(err)
		}
		keys[alg], texts[alg] = s, text
	}
	c := readBy(t, keys, texts)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	signed := map[string]bool{}
	for name, s := range keys {
		if id, err := c.KeyID(s); err != nil || id != name {
			t.Errorf("%s: the broker calls it %q, %v", name, id, err)
		}
		for _, alg := range s.Algorithms() {
			g := Grant{User: "ann", Groups: []string{"ops", "night"}, Expires: until, Algorithm: alg, KeyID: name}
			text, err := c.Mint(s, g)
			if err != nil {
				t.Errorf("%s by %s: %v", alg, name, err)
				continue
			}
			signed[alg] = true
			p, err := c.Check(text)
			if err != nil || p.User != "ann" || !slices.Equal(p.Groups, g.Groups) || !p.Until.Equal(until.Add(c.Leeway)) {
				t.Errorf("%s by %s: %+v, %v", alg, name, p, err)
			}
		}
		if _, err := c.Mint(s, Grant{User: "ann", Algorithm: "none"}); err == nil || !strings.Contains(err.Error(), "a key of this kind signs by") {
			t.Errorf("%s: none: %v", name, err)
		}
	}
	if all := slices.Sorted(maps.Keys(signed)); !slices.Equal(all, slices.Sorted(slices.Values(KeyAlgorithms()))) {
		t.Errorf("signed by %v", all)
	}
	stranger, _, err := NewSigner("ES256")
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Mint(stranger, Grant{User: "ann", Expires: until, KeyID: "ES256"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(text); !errors.Is(err, ErrRefused) {
		t.Errorf("a stranger's: %v", err)
	}
	if id, err := c.KeyID(stranger); err == nil {
		t.Errorf("a stranger's key is called %s", id)
	}
}

// No token is signed that no broker of the settings could read.
func TestMintRefuses(t *testing.T) {
	c := DefaultConfig().Token
	c.UserClaim, c.GroupsClaim = "name", "roles"
	s, _, err := NewSigner("HS256")
	if err != nil {
		t.Fatal(err)
	}
	for want, g := range map[string]Grant{
		"name is empty":             {},
		"no colon":                  {User: "a:b"},
		"no name of a group":        {User: "a", Groups: []string{"x y,z"}},
		"at most 64":                {User: "a", Groups: slices.Repeat([]string{"x"}, maxGroups+1)},
		`claim "name": it is there`: {User: "a", Others: map[string]any{"name": "root"}},
		`claim "exp": it is there`:  {User: "a", Expires: time.Now(), Others: map[string]any{"exp": 1}},
		"nbf: not a number":         {User: "a", Others: map[string]any{"nbf": "tomorrow"}},
		"iss: not a text":           {User: "a", Others: map[string]any{"iss": 7}},
		"claims: json":              {User: "a", Others: map[string]any{"x": func() {}}},
		"a broker takes 16384":      {User: "a", Others: map[string]any{"x": strings.Repeat("x", maxToken)}},
	} {
		if text, err := c.Mint(s, g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %q, %v; want %s", g, text, err, want)
		}
	}
	text, err := c.Mint(s, Grant{User: "a", Groups: []string{"b"}, Issuer: "i", Audience: []string{"x", "y"}, Others: map[string]any{"iat": 1, "site": 7}})
	if err != nil || strings.Count(text, ".") != 2 || !looksLikeToken(text) {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := c.Check(text); err == nil || !strings.Contains(err.Error(), "no keys for tokens") {
		t.Error(err)
	}
}

// Private keys in all their PEM forms sign, and what is none is told from one, in
// words that do not show it. [fault 58]
func TestParseSigner(t *testing.T) {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	odd, _ := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	x, _ := ecdh.X25519().GenerateKey(rand.Reader)
	der := func(key any) []byte {
		b, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	public, _ := x509.MarshalPKIXPublicKey(ec.Public())
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	locked := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("Sesame")}))
	for _, c := range []struct{ text, want string }{
		{block("PRIVATE KEY", der(r)), "RS256"},
		{block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(r)), "RS256"},
		{"\n" + block("EC PRIVATE KEY", sec1) + "\n", "ES256"},
		{block("EC PARAMETERS", []byte("curve")) + block("EC PRIVATE KEY", sec1), "ES256"},
		{hmacSecret + "\r\n", "HS256"},
		{"Sesame, too short", "at least 32"},
		{"", "at least 32"},
		{block("PUBLIC KEY", public), "a public key"},
		{block("CERTIFICATE", []byte("Sesame")), "a public key"},
		{block("OPENSSH PRIVATE KEY", []byte("Sesame")), "not a private key"},
		{block("ENCRYPTED PRIVATE KEY", []byte("Sesame")), "is encrypted"},
		{locked, "is encrypted"},
		{block("PRIVATE KEY", der(x)), "signs no tokens"},
		{block("PRIVATE KEY", der(odd)), "signs no tokens"},
		{block("PRIVATE KEY", []byte("Sesame")), "asn1"},
		{block("PRIVATE KEY", der(ec)) + block("PRIVATE KEY", der(ec)), "not one PEM block"},
		{strings.Replace(block("PRIVATE KEY", der(ec)), "END", "FIN", 1), "not one PEM block"},
	} {
		s, err := ParseSigner([]byte(c.text))
		switch {
		case err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "Sesame") || strings.Contains(err.Error(), "U2VzYW1l")):
			t.Errorf("%.40q: %v, want %s", c.text, err, c.want)
		case err == nil && s.Algorithms()[0] != c.want:
			t.Errorf("%.40q: %v", c.text, s.Algorithms())
		}
	}
	if _, _, err := NewSigner("none"); err == nil || !strings.Contains(err.Error(), "one of EdDSA") {
		t.Error(err)
	}
	if s, text, err := NewSigner("HS512"); err != nil || len(bytes.TrimSpace(text)) < 64 || s.Algorithms()[0] != "HS256" {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
