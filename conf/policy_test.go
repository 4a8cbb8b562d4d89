package conf

import (
	"reflect"
	"strings"
	"testing"

	"entrepot/core"
)

const twoPolicies = `
[[policies]]
name = "orders"
pattern = "^orders"
priority = 7
arguments = { x-message-ttl = 60_000, x-overflow = "reject-publish" }

[[policies]]
name = "all"
pattern = "."
[policies.arguments]
x-single-active-consumer = true
`

func TestPoliciesFromTheFile(t *testing.T) {
	c, err := Load(write(t, twoPolicies), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := core.PolicyConfigs{
		{Name: "orders", Pattern: "^orders", Priority: 7, Arguments: map[string]any{"x-message-ttl": int64(60000), "x-overflow": "reject-publish"}},
		{Name: "all", Pattern: ".", Arguments: map[string]any{"x-single-active-consumer": true}},
	}
	if !reflect.DeepEqual(c.Policies, want) {
		t.Errorf("%+v", c.Policies)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// The example in the sample is one that runs.
func TestSamplePolicy(t *testing.T) {
	_, example, _ := strings.Cut(Sample, "\n# [[policies]]\n")
	c, err := Load(write(t, "[[policies]]\n"+strings.ReplaceAll("\n"+example, "\n# ", "\n")), nil)
	if err == nil {
		err = c.Validate()
	}
	if err != nil || len(c.Policies) != 1 {
		t.Errorf("%+v: %v", c.Policies, err)
	}
}

func TestBadPolicies(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[[policies]]\nname = \"a\"\npatern = \"q\"\n", ":1: policies: 1: patern: no such key; is pattern meant?"},
		{"[[policies]]\nname = 3\n", ":1: policies: 1: name: wants a text in quotes, not 3"},
		{"[[policies]]\npriority = \"high\"\n", ":1: policies: 1: priority: wants a whole number"},
		{"[[policies]]\n[[policies]]\narguments = 5\n", ":1: policies: 2: arguments: wants a table such as"},
		{"[policies]\nname = \"a\"\n", ":1: policies: wants sections such as [[policies]]"},
		{"policies = [1]\n", ":1: policies: wants sections such as [[policies]]"},
		{"[[polices]]\nname = \"a\"\n", ":1: polices: no such key; is policies meant?"},
	} {
		path := write(t, c.text)
		if _, err := Load(path, nil); err == nil || !strings.HasPrefix(err.Error(), path+c.want) {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := Load("", []string{"ENTREPOT_POLICIES=x"}); err == nil || !strings.Contains(err.Error(), "ENTREPOT_POLICIES: stands in the settings file only") {
		t.Errorf("from the environment: %v", err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"60_000", "-1", `policies: "orders": arguments: invalid: argument x-message-ttl: from 0 to `},
		{"^orders", "(", `policies: "orders": pattern: invalid: `},
		{"x-overflow", "x-overfull", `policies: "orders": arguments: argument x-overfull: not supported`},
		{`name = "all"`, `name = "orders"`, `policies: "orders": name: invalid: two policies have it`},
	} {
		config, err := Load(write(t, strings.Replace(twoPolicies, c.old, c.new, 1)), nil)
		if err == nil {
			err = config.Validate()
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.new, err, c.want)
		}
	}
}
