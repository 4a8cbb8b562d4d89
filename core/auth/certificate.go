package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// CertificateConfig says whom a client's TLS certificate names.
type CertificateConfig struct {
	// User is the user's name, with {cn} (the subject's common name), {dns},
	// {email} or {uri} (the only such name of the certificate; of a URI, host and
	// path) put in; "": certificates name nobody.
	User string `toml:"user"`
	// Always takes the name from the certificate even where the client brings a
	// password; another name that it brings is refused.
	Always bool `toml:"always"`
	// Listed lets in only users that stand in the users file.
	Listed bool `toml:"listed"`
}

// Validate returns an error for a setting that makes no sense.
func (c CertificateConfig) Validate() error {
	if c.User == "" {
		return nil
	}
	rest := holes().ReplaceAllString(c.User, "")
	switch {
	case rest == c.User:
		return errors.New("user: one of {cn}, {dns}, {email}, {uri} has to stand in it")
	case strings.ContainsAny(rest, "{}:"):
		return errors.New("user: braces around cn, dns, email or uri only, and no colon")
	}
	return nil
}

func holes() *regexp.Regexp { return regexp.MustCompile(`\{(cn|dns|email|uri)\}`) }

// name is whom a verified certificate names.
func (c CertificateConfig) name(of *x509.Certificate) (string, error) {
	var bad error
	name := holes().ReplaceAllStringFunc(c.User, func(hole string) string {
		values := valuesOf(of, hole)
		if len(values) != 1 || values[0] == "" {
			bad = fmt.Errorf("the certificate has %d names for %s: one is needed", len(values), hole)
			return ""
		}
		return values[0]
	})
	if bad != nil {
		return "", bad
	}
	return name, CheckName(name)
}

// valuesOf are all names of a kind, so that two are not mistaken for one.
func valuesOf(c *x509.Certificate, hole string) (values []string) {
	switch hole {
	case "{dns}":
		return c.DNSNames
	case "{email}":
		return c.EmailAddresses
	case "{uri}":
		for _, u := range c.URIs {
			values = append(values, u.Host+u.EscapedPath())
		}
		return values
	}
	for _, n := range c.Subject.Names {
		if text, ok := n.Value.(string); ok && n.Type.String() == "2.5.4.3" {
			values = append(values, text)
		}
	}
	return values
}
