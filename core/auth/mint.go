package auth

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Grant is what a token is to say.
type Grant struct {
	User    string
	Groups  []string
	Expires time.Time // the zero time: never
	// Issuer and Audience; empty are not claimed.
	Issuer   string
	Audience []string
	// Others are claims beside those that the fields stand for.
	Others map[string]any
	// Algorithm is one of the key's; "" is its first. KeyID is the header kid, "" is
	// none.
	Algorithm, KeyID string
}

// Mint signs a token. The settings say which claims have the user and the groups.
// What a broker could make nothing of, whenever, is an error.
func (c TokenConfig) Mint(s *Signer, g Grant) (string, error) {
	if g.Algorithm == "" {
		g.Algorithm = s.methods[0]
	}
	if !slices.Contains(s.methods, g.Algorithm) {
		return "", fmt.Errorf("algorithm %.40q: a key of this kind signs by %s", g.Algorithm, strings.Join(s.methods, ", "))
	}
	all, err := c.claimed(g)
	if err != nil {
		return "", err
	}
	t := jwt.NewWithClaims(jwt.GetSigningMethod(g.Algorithm), jwt.MapClaims(all))
	if g.KeyID != "" {
		t.Header["kid"] = g.KeyID
	}
	text, err := t.SignedString(s.private)
	switch {
	case err != nil:
		return "", fmt.Errorf("token: %w", err)
	case len(text) > maxToken:
		return "", fmt.Errorf("token: %d bytes, a broker takes %d", len(text), maxToken)
	}
	return text, nil
}

// claimed is a token's claims, read as a broker reads them.
func (c TokenConfig) claimed(g Grant) (map[string]any, error) {
	if err := CheckName(g.User); err != nil {
		return nil, err
	}
	all := map[string]any{"iat": time.Now().Unix(), c.UserClaim: g.User}
	if len(g.Groups) > 0 {
		all[c.GroupsClaim] = g.Groups
	}
	if !g.Expires.IsZero() {
		all["exp"] = g.Expires.Unix()
	}
	if g.Issuer != "" {
		all["iss"] = g.Issuer
	}
	if len(g.Audience) > 0 {
		all["aud"] = g.Audience
	}
	for name := range g.Others {
		if _, twice := all[name]; twice && name != "iat" {
			return nil, fmt.Errorf("claim %.40q: it is there already", name)
		}
	}
	maps.Copy(all, g.Others)
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	if err := json.Unmarshal(text, &claims{user: c.UserClaim, groups: c.GroupsClaim}); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	return all, nil
}

// KeyID is what a broker of these settings calls the key that verifies what s
// signs; an error when it has none.
func (c TokenConfig) KeyID(s *Signer) (string, error) {
	keys, err := readTokenKeys(c.Keys)
	if err != nil {
		return "", err
	}
	for _, k := range keys {
		if s.verifiedBy(k.key) {
			return k.id, nil
		}
	}
	return "", fmt.Errorf("none of the %d keys for tokens in the settings is the other half of this one", len(keys))
}

// Check verifies a token as a broker of these settings does when a client logs in,
// and says who it makes the client, and until when; its errors are refusals.
func (c TokenConfig) Check(text string) (Principal, error) {
	t, err := c.open()
	if err != nil {
		return Principal{}, err
	}
	if t == nil {
		return Principal{}, refuse(BadToken, "", "the settings have no keys for tokens")
	}
	p, err := t.check(text)
	return Principal{User: p.user, Groups: p.groups, Until: p.until, by: byToken, key: p.key}, err
}
