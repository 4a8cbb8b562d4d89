package auth

import (
	"errors"
	"fmt"
	"slices"

	"entrepot/routing"
)

// Config is what can be set about users and rights.
type Config struct {
	// Users is the path of a file for ReadUsers; empty welcomes everybody.
	Users string `toml:"users"`
	// DenySubscribe holds filters in canonical text. Nobody may subscribe to
	// one of them or to a part of one; a filter that only overlaps is granted.
	DenySubscribe []string `toml:"deny_subscribe"`
	// DenyPublish holds filters in canonical text. Nobody may publish to a
	// topic that one of them matches.
	DenyPublish []string `toml:"deny_publish"`
}

// DefaultConfig is what runs when nothing is set: everybody may do everything.
func DefaultConfig() Config {
	return Config{DenySubscribe: []string{}, DenyPublish: []string{}}
}

// Validate returns an error for a setting that makes no sense. It does not look
// for the users' file.
func (c Config) Validate() error {
	_, err := c.Policy()
	return err
}

// Policy is the settings' list of what nobody may do; nil when it is empty.
func (c Config) Policy() (Policy, error) {
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
		return d.decideSubscribe(o.Name)
	case Publish:
		return d.decidePublish(o.Name)
	}
	return nil
}

func (d deny) decideSubscribe(name string) error {
	f, err := routing.ParseFilter(name)
	if err != nil {
		return err
	}
	for _, no := range d.subscribe {
		if no.Covers(f) {
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
