package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds on what a token may claim.
const (
	maxGroups = 64
	maxDepth  = 16                 // of its JSON
	lastYear  = 253402300799       // seconds: the end of the year 9999
	blanks    = "\x20\x09\x0a\x0d" // JSON's white space
)

// claims reads what a token claims (RFC 7519, 4), within bounds. It implements
// jwt.Claims; user and groups name the claims that are read as such.
type claims struct {
	user, groups string

	name          string
	members       []string
	exp, nbf, iat time.Time // zero: not claimed
	iss, sub      string
	aud           []string
}

// UnmarshalJSON implements json.Unmarshaler. A claim of another type than its
// name says is an error, never one that is not there.
func (c *claims) UnmarshalJSON(b []byte) error {
	if depth(b) > maxDepth {
		return fmt.Errorf("JSON of more than %d levels", maxDepth)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return err
	}
	if all == nil {
		return errors.New("not an object")
	}
	var errs [8]error
	c.exp, errs[0] = date(all, "exp")
	c.nbf, errs[1] = date(all, "nbf")
	c.iat, errs[2] = date(all, "iat")
	c.iss, errs[3] = oneText(all, "iss")
	c.sub, errs[4] = oneText(all, "sub")
	c.aud, errs[5] = texts(all, "aud", "")
	c.name, errs[6] = oneText(all, c.user)
	c.members, errs[7] = texts(all, c.groups, blanks)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	for _, g := range c.members {
		if err := CheckGroup(g); err != nil {
			return fmt.Errorf("%s: %w", c.groups, err)
		}
	}
	return nil
}

// depth is how deep a JSON text is nested; more for one that is none.
func depth(b []byte) (most int) {
	now, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\':
			i++
		case b[i] == '"':
			quoted = !quoted
		case quoted:
		case b[i] == '[' || b[i] == '{':
			now++
			most = max(most, now)
		case b[i] == ']' || b[i] == '}':
			now--
		}
	}
	return most
}

// date reads seconds since 1970, with or without a fraction.
func date(all map[string]any, name string) (t time.Time, err error) {
	v, ok := all[name]
	if !ok {
		return t, nil
	}
	n, ok := v.(json.Number)
	if !ok {
		return t, fmt.Errorf("%s: not a number", name)
	}
	f, err := n.Float64()
	if err != nil || !(f >= 0 && f <= lastYear) {
		return t, fmt.Errorf("%s: no time in seconds since 1970", name)
	}
	whole, part := math.Modf(f)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

func oneText(all map[string]any, name string) (string, error) {
	v, ok := all[name]
	text, is := v.(string)
	if ok && !is {
		return "", fmt.Errorf("%s: not a text", name)
	}
	return text, nil
}

// texts reads a list of texts, or one text, which parts cuts.
func texts(all map[string]any, name, parts string) ([]string, error) {
	v, ok := all[name]
	if !ok {
		return nil, nil
	}
	var out []string
	switch v := v.(type) {
	case string:
		out = []string{v}
		if parts != "" {
			out = strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(parts, r) })
		}
	case []any:
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("%s: not a list of texts", name)
			}
			out = append(out, text)
		}
	default:
		return nil, fmt.Errorf("%s: neither a text nor a list of texts", name)
	}
	if len(out) > maxGroups {
		return nil, fmt.Errorf("%s: %d, at most %d", name, len(out), maxGroups)
	}
	return out, nil
}

func dateOf(t time.Time) *jwt.NumericDate {
	if t.IsZero() {
		return nil
	}
	return &jwt.NumericDate{Time: t}
}

// GetExpirationTime implements jwt.Claims.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return dateOf(c.exp), nil }

// GetNotBefore implements jwt.Claims.
func (c *claims) GetNotBefore() (*jwt.NumericDate, error) { return dateOf(c.nbf), nil }

// GetIssuedAt implements jwt.Claims.
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error) { return dateOf(c.iat), nil }

// GetIssuer implements jwt.Claims.
func (c *claims) GetIssuer() (string, error) { return c.iss, nil }

// GetSubject implements jwt.Claims.
func (c *claims) GetSubject() (string, error) { return c.sub, nil }

// GetAudience implements jwt.Claims.
func (c *claims) GetAudience() (jwt.ClaimStrings, error) { return c.aud, nil }
