package core

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"entrepot/routing"
)

// PolicyConfig is one [[policies]] of the settings: arguments for the named
// queues that a pattern matches, whoever made them.
type PolicyConfig struct {
	// Name is shown with the queues that have the policy; each its own.
	Name string `toml:"name"`
	// Pattern is a regular expression (RE2) that is looked for in a queue's
	// name: ^ and $ stand for its ends.
	Pattern string `toml:"pattern"`
	// Priority decides where several match: the highest alone counts, among
	// equals the one that stands first.
	Priority int `toml:"priority"`
	// Arguments are those of ParseQueueArgs that begin with "x-".
	Arguments map[string]any `toml:"arguments"`
}

// PolicyConfigs are all of them, as they stand in the file.
type PolicyConfigs []PolicyConfig

// Validate returns the error of NewPolicies.
func (cs PolicyConfigs) Validate() error {
	_, err := NewPolicies(cs)
	return err
}

// Policies find the arguments that the settings give to a queue. They are
// never changed, so they may be used from any goroutine. Nil is none.
type Policies struct {
	list []policy // highest priority first
}

type policy struct {
	name    string
	pattern *regexp.Regexp
	args    QueueArgs
}

// maxPatternBytes bounds a policy's pattern.
const maxPatternBytes = 1024

// NewPolicies returns an error that names the policy and its key for each that
// makes no sense; they wrap ErrInvalid or ErrUnsupported.
func NewPolicies(configs PolicyConfigs) (*Policies, error) {
	ordered := slices.Clone(configs)
	slices.SortStableFunc(ordered, func(a, b PolicyConfig) int { return cmp.Compare(b.Priority, a.Priority) })
	p := &Policies{}
	for i, c := range ordered {
		if err := checkName("policy", c.Name); err != nil {
			return nil, fmt.Errorf("name: %w", err)
		}
		if slices.ContainsFunc(ordered[:i], func(o PolicyConfig) bool { return o.Name == c.Name }) {
			return nil, fmt.Errorf("%q: name: %w: two policies have it", c.Name, ErrInvalid)
		}
		one, err := newPolicy(c)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", c.Name, err)
		}
		p.list = append(p.list, one)
	}
	return p, nil
}

func newPolicy(c PolicyConfig) (policy, error) {
	if c.Pattern == "" || len(c.Pattern) > maxPatternBytes {
		return policy{}, fmt.Errorf("pattern: %w: from 1 to %d bytes", ErrInvalid, maxPatternBytes)
	}
	pattern, err := regexp.Compile(c.Pattern)
	if err != nil {
		return policy{}, fmt.Errorf("pattern: %w: %w", ErrInvalid, err)
	}
	args, err := policyArgs(c.Arguments)
	if err != nil {
		return policy{}, fmt.Errorf("arguments: %w", err)
	}
	return policy{c.Name, pattern, args}, nil
}

// policyArgs reads the arguments, which all have to have an effect.
func policyArgs(from map[string]any) (QueueArgs, error) {
	if len(from) == 0 {
		return QueueArgs{}, invalid("none are given")
	}
	var hs routing.Headers
	for _, name := range slices.Sorted(maps.Keys(from)) {
		hs = append(hs, routing.Header{Name: name, Value: from[name]})
	}
	args, err := ParseQueueArgs(hs)
	switch {
	case err != nil:
		return args, err
	case len(args.Shown) > 0 && strings.HasPrefix(args.Shown[0].Name, "x-"):
		return args, invalid("argument %s has no effect in a policy", args.Shown[0].Name)
	case len(args.Shown) > 0:
		return args, invalid("argument %s: names begin with x-", args.Shown[0].Name)
	case args.MaxPriority > 0 && args.LastValueKey != "":
		return args, fmt.Errorf("argument x-max-priority with x-last-value-key: %w", ErrUnsupported)
	case args.MaxOvertakes > 0 && args.MaxPriority == 0:
		return args, invalid("argument x-max-overtakes needs x-max-priority")
	}
	return args, args.DeadLetter.Validate()
}

// Apply joins what was declared of a queue with the policy for its name, and
// tells which that is; "" is none. Numeric limits are the lower of both, in
// everything else what was declared goes before; a dead-letter exchange and its
// key go together. Only named queues have policies.
func (p *Policies) Apply(k QueueKey, declared QueueArgs) (args QueueArgs, name string) {
	if p == nil || k.Kind != NamedQueue {
		return declared, ""
	}
	for i := range p.list {
		if p.list[i].pattern.MatchString(k.Name) {
			return declared.under(&p.list[i].args), p.list[i].name
		}
	}
	return declared, ""
}

// under is a with a policy's arguments.
func (a QueueArgs) under(p *QueueArgs) QueueArgs {
	a.HasMessageTTL = lower(&a.MessageTTL, a.HasMessageTTL, p.MessageTTL, p.HasMessageTTL)
	lower(&a.Expires, a.Expires > 0, p.Expires, p.Expires > 0)
	a.HasMaxLength = lower(&a.MaxLength, a.HasMaxLength, p.MaxLength, p.HasMaxLength)
	a.HasMaxBytes = lower(&a.MaxBytes, a.HasMaxBytes, p.MaxBytes, p.HasMaxBytes)
	// A limit below 0 is none, so any other is lower.
	limited := a.HasLimit && a.DeliveryLimit >= 0
	if p.HasLimit && (p.DeliveryLimit >= 0 || !a.HasLimit) {
		lower(&a.DeliveryLimit, limited, p.DeliveryLimit, true)
		a.HasLimit = true
	}
	if a.Overflow == DropHead {
		a.Overflow = p.Overflow
	}
	if a.DeadLetter == nil {
		a.DeadLetter = p.DeadLetter
	}
	a.RedeliverWait = cmp.Or(a.RedeliverWait, p.RedeliverWait)
	a.SingleActive = a.SingleActive || p.SingleActive
	// The two exclude each other.
	switch {
	case a.MaxPriority > 0 || a.LastValueKey == "" && p.MaxPriority > 0:
		a.MaxPriority = cmp.Or(a.MaxPriority, p.MaxPriority)
		a.MaxOvertakes = cmp.Or(a.MaxOvertakes, p.MaxOvertakes)
	default:
		a.LastValueKey = cmp.Or(a.LastValueKey, p.LastValueKey)
	}
	return a
}

// lower makes v the lower of two limits, of which each may be missing, and
// tells whether there is one.
func lower[T cmp.Ordered](v *T, have bool, other T, more bool) bool {
	if more && (!have || other < *v) {
		*v = other
	}
	return have || more
}
