package auth

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What decides is told: a list of the settings goes before the rules, and says
// which filter, a rule which line; and Decide says the same.
func TestRightsExplain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules")
	rules := "allow user:ann publish,subscribe plant/#\nallow user:ann subscribe own/%u/#\nallow user:ann consume queue:in-%u\n" +
		"deny user:ann subscribe plant/+/valve\n"
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	lists := Config{DenySubscribe: []string{"plant/+/secret"}, DenyPublish: []string{"plant/9/#", "own/ann/no"}}
	both := lists
	both.Rules = file
	ann := Principal{User: "ann"}
	for _, c := range []struct {
		name   string
		config Config
		a      Action
		o      Object
		want   Decision
		decide bool
	}{
		{"nothing is said", Config{}, Publish, Object{Name: "plant/9"}, Decision{Allowed: true}, true},
		{"nothing of it is said", lists, Publish, Object{Name: "plant/7"}, Decision{Allowed: true}, true},
		{"a list denies", lists, Publish, Object{Name: "plant/9/x"}, Decision{List: denyPublish, Rule: "plant/9/#"}, false},
		{"a list denies, whatever the rules say", both, Publish, Object{Name: "plant/9/x"}, Decision{List: denyPublish, Rule: "plant/9/#"}, false},
		{"a list denies a part of what is published", both, Publish, Object{Name: "plant/#", Whole: true},
			Decision{Allowed: true, Line: 1, Rule: "allow user:ann publish,subscribe plant/#", Without: []string{denyPublish + " plant/9/#"}}, false},
		{"a list denies a part", lists, Subscribe, Object{Name: "plant/#"},
			Decision{Allowed: true, Without: []string{denySubscribe + " plant/+/secret"}}, true},
		{"both deny a part", both, Subscribe, Object{Name: "plant/#"},
			Decision{Allowed: true, Line: 1, Rule: "allow user:ann publish,subscribe plant/#", Inside: []int{4}, Without: []string{denySubscribe + " plant/+/secret"}}, true},
		{"both deny a part of all", both, Subscribe, Object{Name: "plant/#", Whole: true},
			Decision{Allowed: true, Line: 1, Rule: "allow user:ann publish,subscribe plant/#", Inside: []int{4}, Without: []string{denySubscribe + " plant/+/secret"}}, false},
		{"a rule denies", both, Subscribe, Object{Name: "plant/1/valve"}, Decision{Line: 4, Rule: "deny user:ann subscribe plant/+/valve"}, false},
		{"no rule", both, Subscribe, Object{Name: "other"}, Decision{}, false},
		{"the client's own", both, Subscribe, Object{Name: "own/ann/x", Own: true},
			Decision{Allowed: true, Line: 2, Rule: "allow user:ann subscribe own/%u/#", Own: true}, true},
		{"the client's own queue", both, Consume, Object{Kind: Queue, Name: "in-ann", Own: true},
			Decision{Allowed: true, Line: 3, Rule: "allow user:ann consume queue:in-%u", Own: true}, true},
		{"where nobody may publish", both, Subscribe, Object{Name: "own/ann/no", Own: true},
			Decision{Allowed: true, Line: 2, Rule: "allow user:ann subscribe own/%u/#"}, false},
		{"not its own", both, Subscribe, Object{Name: "plant/7", Own: true},
			Decision{Allowed: true, Line: 1, Rule: "allow user:ann publish,subscribe plant/#"}, false},
		{"without rules nothing is its own", lists, Subscribe, Object{Name: "plant/7", Own: true}, Decision{Allowed: true}, false},
	} {
		r, err := c.config.Rights()
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Explain(ann, c.a, c.o)
		if err != nil || d.Allowed != c.want.Allowed || d.Line != c.want.Line || d.Rule != c.want.Rule || d.List != c.want.List ||
			d.Own != c.want.Own || !slices.Equal(d.Inside, c.want.Inside) || !slices.Equal(d.Without, c.want.Without) {
			t.Errorf("%s: %+v %v, want %+v", c.name, d, err, c.want)
		}
		if err := r.Decide(ann, c.a, c.o); (err == nil) != c.decide {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A file that is not there, or a filter that is none, is an error, and no rights.
func TestBadRights(t *testing.T) {
	for _, c := range []Config{{Rules: filepath.Join(t.TempDir(), "none")}, {DenyPublish: []string{"a#"}}, {DenySubscribe: []string{"$queue/x"}}} {
		if p, err := c.Policy(); err == nil || p != nil {
			t.Errorf("%+v", c)
		}
	}
}
