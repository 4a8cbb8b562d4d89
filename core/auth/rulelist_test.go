package auth

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// somewhere is a random object of rules or of questions.
func somewhere(r *rand.Rand, rule bool) string {
	levels := []string{"a", "b", "ann", "%25u", "%2F", "", "+"}
	if rule {
		levels = append(levels, "%u", "%c", "#")
	}
	kind := []string{"", "", "", "rpc:", "queue:", "exchange:"}[r.IntN(6)]
	if kind == "queue:" || kind == "exchange:" {
		names := []string{"a", "b", "a/b", "annq", "q"}
		if rule {
			names = append(names, "a*", "*", "%uq", "*/b")
		}
		return kind + names[r.IntN(len(names))]
	}
	var all []string
	for range 1 + r.IntN(4) {
		all = append(all, levels[r.IntN(len(levels))])
	}
	if r.IntN(3) == 0 {
		all = append(all, "#")
	}
	return kind + strings.Join(all, "/")
}

// The rule that is found by its start is the one that a look at every rule finds.
func TestRulesAreFoundByTheirStart(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 10))
	who := Principal{User: "ann", ClientID: "b", Groups: []string{"ops", "night"}}
	actions := []string{"publish", "subscribe", "all"}
	decided := 0
	for range 300 {
		var text strings.Builder
		for range 60 {
			line := fmt.Sprintf("%s %s %s %s\n", []string{"allow", "deny"}[r.IntN(2)],
				[]string{"anyone", "user:ann", "group:ops", "authenticated", "user:bob"}[r.IntN(5)], actions[r.IntN(3)], somewhere(r, true))
			if _, err := ParseRules([]byte(line)); err == nil { // not every action is for every object
				text.WriteString(line)
			}
		}
		rules, err := ParseRules([]byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			p, err := parsePattern(somewhere(r, false))
			if err != nil {
				continue
			}
			o := Object{Kind: p.kind, Name: p.name + p.filter.String()}
			q := question{name: o.Name, filter: p.filter}
			a := []Action{Publish, Subscribe, Call, Register, Consume, Declare}[r.IntN(6)]
			var want *rule
			rules.kinds[o.Kind][a].lists(&who, func(l *ruleList) {
				for _, one := range l.all {
					if one.object.covers(&who, &q) && (want == nil || one.order(want) < 0) {
						want = one
					}
				}
			})
			d, err := rules.Explain(who, a, o)
			if err != nil || want == nil && d.Line != 0 || want != nil && d.Line != want.line {
				t.Fatalf("%s %+v is decided by line %d, %v; want %+v of\n%s", a, o, d.Line, err, want, &text)
			}
			if want != nil {
				decided++
			}
		}
	}
	if decided < 1000 {
		t.Errorf("%d questions decided", decided)
	}
}

// The start is whole levels, and no more than all that is covered has.
func TestStartOfAPattern(t *testing.T) {
	for object, want := range map[string]string{
		"a/b/+": "a/b", "a/b/#": "a/b", "a": "a", "+/a": "", "#": "", "a/%u/b": "a", "%c": "", "a/%25u/b": "a/%25u/b", "/a/#": "/a", "/#": "",
		"a/b/c/d/e/f/g/h/i/#": "a/b/c/d/e/f/g/h", "queue:a.b": "a.b", "queue:a*": "", "exchange:%u": "", "rpc:dev/#": "dev", "a/%2F/+": "a/%2F",
	} {
		p, err := parsePattern(object)
		if err != nil {
			t.Errorf("%s: %v", object, err)
			continue
		}
		if got := p.start(); got != want {
			t.Errorf("%s begins with %q, want %q", object, got, want)
		}
	}
	everything := pattern{any: true}
	if got := everything.start(); got != "" {
		t.Errorf("everything begins with %q", got)
	}
}
