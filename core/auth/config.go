package auth

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"entrepot/routing"
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

// Policy is what the lists deny and the file of rules says, which it reads; nil
// when there is neither.
func (c Config) Policy() (Policy, error) {
	lists, err := c.lists()
	if err != nil || c.Rules == "" {
		return lists, err
	}
	rules, err := ReadRules(c.Rules)
	if err != nil {
		return nil, err
	}
	return lists.and(rules.Decide), nil
}

// and asks both.
func (p Policy) and(o Policy) Policy {
	if p == nil {
		return o
	}
	return func(who Principal, a Action, obj Object) error {
		if err := p(who, a, obj); err != nil {
			return err
		}
		return o(who, a, obj)
	}
}

// lists is what the settings themselves deny; nil when that is nothing.
func (c Config) lists() (Policy, error) {
	subscribe, err1 := denied("deny_subscribe", c.DenySubscribe)
	publish, err2 := denied("deny_publish", c.DenyPublish)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if len(subscribe)+len(publish) == 0 {
		return nil, nil
	}
	return deny{subscribe, publish}.decide, nil
}

// notTopics are the first levels that stand for something else than a topic.
func notTopics() []string { return []string{"$queue", "$exchange", "$share", "$delayed", "$rpc"} }

func denied(key string, texts []string) ([]routing.Filter, error) {
	var all []routing.Filter
	var errs []error
	for _, text := range texts {
		f, err := routing.ParseFilter(text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %q: %w", key, text, err))
		case slices.Contains(notTopics(), f.First()):
			errs = append(errs, fmt.Errorf("%s: %q: filters of topics only, and %s is none", key, text, f.First()))
		}
		// What is denied is denied under $ too, for those who can ask for it.
		all = append(all, f.WithDollars())
	}
	return all, errors.Join(errs...)
}

// deny is a policy that is the same for everybody.
type deny struct{ subscribe, publish []routing.Filter }

// decide is a Policy. A name that cannot be read is refused.
func (d deny) decide(_ Principal, a Action, o Object) error {
	if o.Kind != Topic {
		return nil
	}
	switch a {
	case Subscribe:
		return d.decideSubscribe(o)
	case Publish:
		return d.decidePublish(o.Name)
	}
	return nil
}

func (d deny) decideSubscribe(o Object) error {
	f, err := routing.ParseFilter(o.Name)
	if err != nil {
		return err
	}
	for _, no := range d.subscribe {
		if no.Covers(f) || o.Whole && no.Overlaps(f) {
			return fmt.Errorf("deny_subscribe has %s", no)
		}
	}
	return nil
}

func (d deny) decidePublish(name string) error {
	t, err := routing.ParseTopic(name)
	if err != nil {
		return err
	}
	for _, no := range d.publish {
		if no.Match(t) {
			return fmt.Errorf("deny_publish has %s", no)
		}
	}
	return nil
}
