package auth

import (
	"errors"
	"fmt"
	"time"
)

// Config is what can be set about users and rights.
type Config struct {
	// Users is the path of a file for ReadUsers. Without it, and without tokens
	// and certificates, everybody is welcome.
	Users string `toml:"users"`
	// Anonymous are the protocols by which clients may come in that say nothing
	// of who they are, although there are users.
	Anonymous []string `toml:"anonymous"`
	// DenySubscribe holds filters in canonical text. Nobody may subscribe to
	// one of them or to a part of one; a filter that only overlaps is granted
	// without their topics.
	DenySubscribe []string `toml:"deny_subscribe"`
	// DenyPublish holds filters in canonical text. Nobody may publish to a
	// topic that one of them matches.
	DenyPublish []string `toml:"deny_publish"`
	// Rules is the path of a file for ReadRules; empty allows everything that
	// the lists do not deny. The lists hold beside the rules, which do not
	// overrule them.
	Rules string `toml:"rules"`

	Token       TokenConfig       `toml:"token"`
	Certificate CertificateConfig `toml:"certificate"`
	Backoff     BackoffConfig     `toml:"backoff"`
}

// DefaultConfig is what runs when nothing is set: everybody may do everything.
func DefaultConfig() Config {
	return Config{Anonymous: []string{}, DenySubscribe: []string{}, DenyPublish: []string{},
		Token:   TokenConfig{Keys: []string{}, UserClaim: "sub", GroupsClaim: "groups", Leeway: 30 * time.Second, RequireExp: true},
		Backoff: DefaultBackoffConfig()}
}

// Validate returns an error for a setting that makes no sense. It does not look
// for the users' file, nor for keys.
func (c Config) Validate() error {
	_, err := c.lists()
	return errors.Join(err, under("anonymous", checkProtocols(c.Anonymous)),
		under("token", c.Token.Validate()), under("certificate", c.Certificate.Validate()),
		under("backoff", c.Backoff.Validate()))
}

func under(key string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return err
}

// Door reads the files that say who may come in; nil when there are none, and
// everybody is welcome.
func (c Config) Door() (*Door, error) {
	tokens, err := c.Token.open()
	if err != nil || c.Users == "" && tokens == nil && c.Certificate.User == "" {
		return nil, err
	}
	d := &Door{users: newUsers(nil, nil), tokens: tokens, certificate: c.Certificate, anonymous: c.Anonymous,
		backoff: c.Backoff}
	if c.Users != "" {
		d.users, err = ReadUsers(c.Users)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Policy is Rights' answer, whose file it reads; nil when they say nothing.
func (c Config) Policy() (Policy, error) {
	r, err := c.Rights()
	if err != nil || r.None() {
		return nil, err
	}
	return r.Decide, nil
}
