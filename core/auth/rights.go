package auth

import (
	"errors"
	"fmt"
	"slices"

	"entrepot/routing"
)

// Rights are all that the settings say of who may do what: the lists of what
// nobody may do, and the file of rules. They do not change; all methods may be
// called from any goroutine.
type Rights struct {
	lists deny
	rules *Rules // nil: all is allowed that the lists do not deny
}

// Rights reads the lists, and the file of rules if there is one.
func (c Config) Rights() (*Rights, error) {
	lists, err := c.lists()
	if err != nil || c.Rules == "" {
		return &Rights{lists: lists}, err
	}
	rules, err := ReadRules(c.Rules)
	return &Rights{lists, rules}, err
}

// None tells whether they say nothing: everybody may do everything.
func (r *Rights) None() bool { return r.rules == nil && r.lists.none() }

// Decide is a Policy.
func (r *Rights) Decide(who Principal, a Action, o Object) error {
	d, err := r.Explain(who, a, o)
	if err != nil {
		return err
	}
	return d.refusal(o)
}

// Explain decides as Decide does, and says what does: a list, or else a rule. The
// error is for a name that cannot be read.
func (r *Rights) Explain(who Principal, a Action, o Object) (Decision, error) {
	d, err := r.lists.explain(a, o)
	if err != nil || !d.Allowed || r.rules == nil {
		return d, err
	}
	by, err := r.rules.Explain(who, a, o)
	by.Without = d.Without
	// What nobody may publish to is nobody's own.
	by.Own = by.Own && (!o.Own || o.Kind != Topic || r.lists.publishes(o.Name))
	return by, err
}

// refusal is the Policy's answer.
func (d *Decision) refusal(o Object) error {
	switch {
	case !d.Allowed && d.List != "":
		return fmt.Errorf("%s has %s", d.List, d.Rule)
	case !d.Allowed && d.Line == 0:
		return errNoRule
	case !d.Allowed:
		return fmt.Errorf("rule in line %d: %s", d.Line, d.Rule)
	case o.Whole && len(d.Without) > 0:
		return fmt.Errorf("%s denies a part", d.Without[0])
	case o.Whole && len(d.Inside) > 0:
		return fmt.Errorf("rule in line %d denies a part", d.Inside[0])
	case o.Own && !d.Own:
		return errNotOwn
	}
	return nil
}

var (
	errNoRule = errors.New("no rule allows it")
	errNotOwn = errors.New("no rule allows it for the client's own name")
)

// Names of the lists.
const (
	denySubscribe = "deny_subscribe"
	denyPublish   = "deny_publish"
)

// lists is what the settings themselves deny.
func (c Config) lists() (deny, error) {
	subscribe, err1 := denied(denySubscribe, c.DenySubscribe)
	publish, err2 := denied(denyPublish, c.DenyPublish)
	return deny{subscribe, publish}, errors.Join(err1, err2)
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

// deny is the same for everybody.
type deny struct{ subscribe, publish []routing.Filter }

func (d *deny) none() bool { return len(d.subscribe)+len(d.publish) == 0 }

// explain says which filter of a list denies it. One that is asked about as a
// whole or in part, and of which the list only denies a part, is allowed without
// that. A name that cannot be read is an error.
func (d *deny) explain(a Action, o Object) (Decision, error) {
	name, list := "", []routing.Filter(nil)
	switch {
	case o.Kind == Topic && a == Subscribe:
		name, list = denySubscribe, d.subscribe
	case o.Kind == Topic && a == Publish:
		name, list = denyPublish, d.publish
	}
	by := Decision{Allowed: true}
	if len(list) == 0 {
		return by, nil
	}
	f, err := routing.ParseFilter(o.Name)
	if err != nil {
		return Decision{}, err
	}
	for _, no := range list {
		switch {
		case no.Covers(f):
			return Decision{List: name, Rule: no.String()}, nil
		case f.HasWildcard() && no.Overlaps(f):
			by.Without = append(by.Without, name+" "+no.String())
		}
	}
	return by, nil
}

// publishes tells whether the list leaves a topic to publishers.
func (d *deny) publishes(name string) bool {
	by, err := d.explain(Publish, Object{Name: name})
	return err == nil && by.Allowed
}
