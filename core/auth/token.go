package auth

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TokenConfig is what can be set about JSON Web Tokens (RFC 7519) that clients
// bring in place of a password.
type TokenConfig struct {
	// Keys are paths of files, one key each: a public key or certificate in PEM
	// form for RS, PS, ES and EdDSA, or a secret of 32 bytes or more for HS. With
	// several, a token's kid names the file without its ending. None: no tokens.
	Keys []string `toml:"keys"`
	// Issuer and Audience have to be a token's iss and one of its aud; "" does
	// not ask.
	Issuer   string `toml:"issuer"`
	Audience string `toml:"audience"`
	// UserClaim names the user, GroupsClaim the groups: a list of texts, or one
	// text with blanks between.
	UserClaim   string `toml:"user_claim"`
	GroupsClaim string `toml:"groups_claim"`
	// Leeway is what clocks may differ by.
	Leeway time.Duration `toml:"leeway"`
	// RequireExp refuses tokens that do not say when they expire.
	RequireExp bool `toml:"require_exp"`
}

// Validate returns an error for a setting that makes no sense. It does not look
// for the files.
func (c TokenConfig) Validate() error {
	switch {
	case c.UserClaim == "" || c.GroupsClaim == "":
		return errors.New("user_claim and groups_claim: not empty")
	case c.Leeway < 0 || c.Leeway > 10*time.Minute:
		return errors.New("leeway: from 0 to 10m")
	}
	return nil
}

// maxToken bounds a token, in bytes.
const maxToken = 16 << 10

// tokens checks JSON Web Tokens. It does not change.
type tokens struct {
	cfg    TokenConfig
	keys   []tokenKey
	parser *jwt.Parser
}

// open reads the keys; nil when there are none.
func (c TokenConfig) open() (*tokens, error) {
	if len(c.Keys) == 0 {
		return nil, nil
	}
	t := &tokens{cfg: c}
	var err error
	if t.keys, err = readTokenKeys(c.Keys); err != nil {
		return nil, err
	}
	var methods []string
	for _, k := range t.keys {
		methods = append(methods, k.methods...)
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(methods), jwt.WithLeeway(c.Leeway), jwt.WithIssuedAt(), jwt.WithStrictDecoding()}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	if c.RequireExp {
		options = append(options, jwt.WithExpirationRequired())
	}
	t.parser = jwt.NewParser(options...)
	return t, nil
}

// looksLikeToken tells a token from a password: three parts, of which the first
// begins with {" in base64.
func looksLikeToken(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// proved is what a token says when all of it is good.
type proved struct {
	user   string
	groups []string
	until  time.Time
	key    mark
}

// check verifies a token; its errors are refusals and do not show it.
func (t *tokens) check(text string) (p proved, err error) {
	if len(text) > maxToken {
		return p, refuse(BadToken, "", "%d bytes, at most %d", len(text), maxToken)
	}
	c := claims{user: t.cfg.UserClaim, groups: t.cfg.GroupsClaim}
	parsed, err := t.parser.ParseWithClaims(text, &c, func(token *jwt.Token) (any, error) { return t.find(token.Header) })
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return p, refuse(BadExpired, c.name, "the token expired")
	case err != nil:
		return p, refuse(BadToken, "", "%v", err)
	}
	p.user, p.groups = c.name, c.members
	if err := CheckName(p.user); err != nil {
		return p, refuse(BadToken, p.user, "claim %s: %v", t.cfg.UserClaim, err)
	}
	if !c.exp.IsZero() {
		p.until = c.exp.Add(t.cfg.Leeway)
	}
	p.key = t.signer(parsed)
	return p, nil
}

// find is the keys that may have signed a token.
func (t *tokens) find(header map[string]any) (any, error) {
	if _, ok := header["crit"]; ok { // RFC 7515, 4.1.11: what is not understood
		return nil, errors.New("header crit is not supported")
	}
	var set jwt.VerificationKeySet
	for _, k := range t.candidates(header) {
		set.Keys = append(set.Keys, k.key)
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("no key of that kid and alg")
	}
	return set, nil
}

// candidates are the keys whose kind has the alg, and among several the one
// that kid names.
func (t *tokens) candidates(header map[string]any) []tokenKey {
	alg, _ := header["alg"].(string)
	kid, named := header["kid"]
	var all []tokenKey
	for _, k := range t.keys {
		if slices.Contains(k.methods, alg) && (!named || kid == k.id || len(t.keys) == 1) {
			all = append(all, k)
		}
	}
	return all
}

// signer is the mark of the key that verifies a token which was verified.
func (t *tokens) signer(parsed *jwt.Token) (m mark) {
	signed := parsed.Raw[:strings.LastIndexByte(parsed.Raw, '.')]
	for _, k := range t.candidates(parsed.Header) {
		if m = k.mark; parsed.Method.Verify(signed, parsed.Signature, k.key) == nil {
			break
		}
	}
	return m
}

// has tells whether a key is still there, and tokens mean what they meant.
func (t *tokens) has(key mark) bool {
	return t != nil && slices.ContainsFunc(t.keys, func(k tokenKey) bool { return k.mark == key })
}
