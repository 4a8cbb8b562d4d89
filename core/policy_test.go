package core

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"entrepot/routing"
)

func policies(t *testing.T, all ...PolicyConfig) *Policies {
	t.Helper()
	p, err := NewPolicies(all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func argsOf(t *testing.T, pairs ...any) QueueArgs {
	t.Helper()
	var hs routing.Headers
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, header(pairs[i].(string), pairs[i+1]))
	}
	a, err := ParseQueueArgs(hs)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// What the maker of a queue says goes before, of two limits the lower counts.
func TestPolicyUnderDeclaredArguments(t *testing.T) {
	type pairs = []any
	for _, c := range []struct {
		title                  string
		declared, policy, want pairs
	}{
		{"only the policy's", nil, pairs{"x-message-ttl", 5, "x-overflow", "reject-publish", "x-max-priority", 9},
			pairs{"x-message-ttl", 5, "x-overflow", "reject-publish", "x-max-priority", 9}},
		{"only the maker's", pairs{"x-expires", 7}, pairs{"x-max-length", 1}, pairs{"x-expires", 7, "x-max-length", 1}},
		{"limits, the policy's lower", pairs{"x-message-ttl", 5, "x-expires", 6, "x-max-length", 7, "x-max-length-bytes", 8, "x-delivery-limit", 9},
			pairs{"x-message-ttl", 1, "x-expires", 2, "x-max-length", 3, "x-max-length-bytes", 4, "x-delivery-limit", 5},
			pairs{"x-message-ttl", 1, "x-expires", 2, "x-max-length", 3, "x-max-length-bytes", 4, "x-delivery-limit", 5}},
		{"limits, the maker's lower", pairs{"x-message-ttl", 0, "x-max-length", 0, "x-delivery-limit", 0},
			pairs{"x-message-ttl", 1, "x-max-length", 3, "x-delivery-limit", 5},
			pairs{"x-message-ttl", 0, "x-max-length", 0, "x-delivery-limit", 0}},
		{"no delivery limit is the highest, in the maker's", pairs{"x-delivery-limit", -1}, pairs{"x-delivery-limit", 5}, pairs{"x-delivery-limit", 5}},
		{"no delivery limit is the highest, in the policy's", pairs{"x-delivery-limit", 5}, pairs{"x-delivery-limit", -1}, pairs{"x-delivery-limit", 5}},
		{"no delivery limit from a policy", nil, pairs{"x-delivery-limit", -1}, pairs{"x-delivery-limit", -1}},
		{"what is no limit is the maker's", pairs{"x-overflow", "reject-publish-dlx", "x-redelivery-delay", 50, "x-max-priority", 3},
			pairs{"x-overflow", "reject-publish", "x-redelivery-delay", 5, "x-max-priority", 2},
			pairs{"x-overflow", "reject-publish-dlx", "x-redelivery-delay", 50, "x-max-priority", 3}},
		{"a dead-letter exchange goes with its key", pairs{"x-dead-letter-exchange", "mine"},
			pairs{"x-dead-letter-exchange", "", "x-dead-letter-routing-key", "k"}, pairs{"x-dead-letter-exchange", "mine"}},
		{"no priorities for a last-value queue", pairs{"x-last-value-key", "id"}, pairs{"x-max-priority", 9}, pairs{"x-last-value-key", "id"}},
		{"no last values for a queue with priorities", pairs{"x-max-priority", 9}, pairs{"x-last-value-key", "id"}, pairs{"x-max-priority", 9}},
	} {
		t.Run(c.title, func(t *testing.T) {
			arguments := map[string]any{}
			for i := 0; i < len(c.policy); i += 2 {
				arguments[c.policy[i].(string)] = numbers(c.policy[i+1])
			}
			p := policies(t, PolicyConfig{Name: "p", Pattern: ".", Arguments: arguments})
			got, name := p.Apply(Named("q"), argsOf(t, allNumbers(c.declared)...))
			if want := argsOf(t, allNumbers(c.want)...); name != "p" || !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %+v, want %+v", name, got, want)
			}
		})
	}
}

// numbers makes an int what the reader of settings makes of it.
func numbers(v any) any {
	if n, ok := v.(int); ok {
		return int64(n)
	}
	return v
}

func allNumbers(vs []any) []any {
	out := make([]any, len(vs))
	for i, v := range vs {
		out[i] = numbers(v)
	}
	return out
}

func TestWhichPolicy(t *testing.T) {
	ttl := func(ms int64) map[string]any { return map[string]any{"x-message-ttl": ms} }
	p := policies(t, PolicyConfig{"all", "a", 0, ttl(1)}, PolicyConfig{"orders", "^orders", 5, ttl(2)},
		PolicyConfig{"first", `\.eu$`, 3, ttl(3)}, PolicyConfig{"second", "eu", 3, ttl(4)})
	for name, want := range map[string]string{"bar": "all", "orders.eu": "orders", "my.orders.eu": "first", "europe": "second", "x": ""} {
		if args, got := p.Apply(Named(name), QueueArgs{}); got != want || (want == "") != (args.MessageTTL == time.Duration(0)) {
			t.Errorf("queue %q has policy %q, want %q", name, got, want)
		}
	}
	for _, k := range []QueueKey{Key(SessionQueue, "orders"), Key(GroupQueue, "orders", "f"), Key(TopicQueue, "orders")} {
		if args, got := p.Apply(k, QueueArgs{}); got != "" || args.HasMessageTTL {
			t.Errorf("%v has policy %q", k, got)
		}
	}
	var none *Policies
	if _, got := none.Apply(Named("orders"), QueueArgs{}); got != "" {
		t.Errorf("policy %q of none", got)
	}
}

// with is the policy with another pattern and arguments.
func (c PolicyConfig) with(pattern string, args map[string]any) PolicyConfig {
	c.Pattern, c.Arguments = pattern, args
	return c
}

func TestNewPoliciesRefuses(t *testing.T) {
	good := PolicyConfig{Name: "p", Pattern: "q", Arguments: map[string]any{"x-max-length": int64(1)}}
	with := func(name string, v any) []PolicyConfig {
		return []PolicyConfig{good.with("q", map[string]any{name: v})}
	}
	for title, c := range map[string]struct {
		in   []PolicyConfig
		want string
	}{
		"no name":        {[]PolicyConfig{{Pattern: "q", Arguments: good.Arguments}}, "name: "},
		"name twice":     {[]PolicyConfig{good, good}, `"p": name: `},
		"no pattern":     {[]PolicyConfig{good.with("", good.Arguments)}, `"p": pattern: `},
		"long pattern":   {[]PolicyConfig{good.with(strings.Repeat("a", 1025), good.Arguments)}, `"p": pattern: `},
		"broken pattern": {[]PolicyConfig{good.with("a(", good.Arguments)}, `"p": pattern: `},
		"no arguments":   {[]PolicyConfig{good.with("q", nil)}, `"p": arguments: `},
		"unknown":        {with("x-max-lenght", int64(1)), `"p": arguments: argument x-max-lenght`},
		"no x-":          {with("max-length", int64(1)), `"p": arguments: invalid: argument max-length`},
		"no effect":      {with("x-queue-type", "quorum"), `"p": arguments: invalid: argument x-queue-type`},
		"wrong type":     {with("x-max-length", true), `"p": arguments: invalid: argument x-max-length`},
		"out of range":   {with("x-max-length", int64(-1)), `"p": arguments: invalid: argument x-max-length`},
		"overtakes":      {with("x-max-overtakes", int64(1)), `"p": arguments: invalid: argument x-max-overtakes`},
		"both": {[]PolicyConfig{good.with("q", map[string]any{"x-max-priority": int64(1), "x-last-value-key": "k"})},
			`"p": arguments: argument x-max-priority with x-last-value-key`},
		"dead-letter key": {[]PolicyConfig{good.with("q", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": ""})},
			`"p": arguments: argument x-dead-letter-routing-key`},
		"dead-letter key alone": {with("x-dead-letter-routing-key", "k"), `"p": arguments: invalid: argument x-dead-letter-routing-key`},
	} {
		_, err := NewPolicies(c.in)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: error %v, want %s", title, err, c.want)
		}
	}
}
