package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustRules(t *testing.T, lines ...string) *Rules {
	t.Helper()
	r, err := ParseRules([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var ann = Principal{User: "ann", ClientID: "c1", Groups: []string{"ops", "dev"}}

// decided is a question with the line that decides it, 0 for none, negative for
// a line that denies.
type decided struct {
	who    Principal
	action Action
	kind   ObjectKind
	name   string
	line   int
}

func (d *decided) check(t *testing.T, r *Rules) {
	t.Helper()
	got, err := r.Explain(d.who, d.action, Object{Kind: d.kind, Name: d.name})
	line := got.Line
	if !got.Allowed {
		line = -line
	}
	if err != nil || line != d.line {
		t.Errorf("%s %s %q: line %d, want %d (%v)", d.who.User, d.action, d.name, line, d.line, err)
	}
	refused := r.Decide(d.who, d.action, Object{Kind: d.kind, Name: d.name})
	if (refused == nil) != (d.line > 0) {
		t.Errorf("%s %s %q: %v", d.who.User, d.action, d.name, refused)
	}
}

func TestMostSpecificRuleDecides(t *testing.T) {
	r := mustRules(t,
		"allow anyone publish plant/#",
		"deny anyone publish plant/+/set",
		"allow user:ann publish plant/7/set",
		"deny group:ops publish plant/7/#",
		"allow anyone subscribe a/#",
		"deny anyone subscribe a/#/z",
		"allow user:bob all a/b",
		"deny user:bob publish a/b",
		"deny anyone declare queue:*",
		"allow anyone declare queue:ab*",
		"deny anyone declare queue:ab*z",
		"allow anyone declare queue:abz",
		"allow anonymous call rpc:open/#",
		"allow authenticated call rpc:in/#",
		"deny anyone call rpc:in/#",
	)
	bob, none := Principal{User: "bob"}, Principal{}
	for _, c := range []decided{
		{ann, Publish, Topic, "plant/8/temp", 1},
		{ann, Publish, Topic, "plant/7/set", 3},
		{ann, Publish, Topic, "plant/7/temp", -4},
		{ann, Publish, Topic, "plant/8/set", -2},
		{bob, Publish, Topic, "plant/7/set", -2},
		{bob, Publish, Topic, "plant/7/temp", 1},
		{ann, Publish, Topic, "plants", 0},
		{ann, Subscribe, Topic, "a/b/z", -6},
		{ann, Subscribe, Topic, "a/b/y", 5},
		{ann, Subscribe, Topic, "a/+", 5},
		{ann, Subscribe, Topic, "#", 0},
		{bob, Subscribe, Topic, "a/b", 7},
		{bob, Publish, Topic, "a/b", -8},
		{bob, Declare, Topic, "a/b", 7},
		{ann, Declare, Queue, "other", -9},
		{ann, Declare, Queue, "abc", 10},
		{ann, Declare, Queue, "abcz", -11},
		{ann, Declare, Queue, "abz", 12},
		{none, Call, Procedure, "open/x", 13},
		{ann, Call, Procedure, "open/x", 0},
		{ann, Call, Procedure, "in/x", 14},
		{none, Call, Procedure, "in/x", -15},
		{ann, Admin, Topic, "", 0},
	} {
		c.check(t, r)
	}
}

// Fault 42: what begins with $ has rules of its own.
func TestSystemTopicsNeedARuleOfTheirOwn(t *testing.T) {
	r := mustRules(t, "allow anyone subscribe #", "allow group:ops admin", "allow user:eve subscribe $SYS/broker/#",
		"allow user:carl admin $SYS/queues", "allow user:carl admin queue:a*")
	carl := Principal{User: "carl"}
	eve, bob := Principal{User: "eve"}, Principal{User: "bob"}
	for _, c := range []decided{
		{bob, Subscribe, Topic, "#", 1},
		{bob, Subscribe, Topic, "$SYS/#", 0},
		{bob, Subscribe, Topic, "$SYS/broker/uptime", 0},
		{ann, Subscribe, Topic, "$SYS/#", 2},
		{ann, Admin, Topic, "", 2},
		{bob, Admin, Topic, "", 0},
		{carl, Admin, Topic, "", 0},
		{carl, Admin, Topic, "$SYS/queues", 4},
		{carl, Admin, Topic, "$SYS/backup", 0},
		{carl, Subscribe, Topic, "$SYS/queues", 4},
		{carl, Admin, Queue, "ab", 5},
		{carl, Admin, Queue, "b", 0},
		{ann, Admin, Queue, "b", 2},
		{eve, Subscribe, Topic, "$SYS/broker/uptime", 3},
		{eve, Subscribe, Topic, "$SYS/other", 0},
		{ann, Publish, Topic, "a", 0},
	} {
		c.check(t, r)
	}
}

// Faults 39 and 40: what a client is called is one literal level.
func TestNamesInRulesNeitherWidenNorEscape(t *testing.T) {
	r := mustRules(t,
		"allow anyone publish home/%u/#",
		"allow anyone subscribe dev/%c",
		"allow anyone consume queue:inbox-%u",
		"allow anyone call rpc:of/%u/do",
	)
	for _, c := range []struct{ name, level string }{
		{"ann", "ann"}, {"+", "%2B"}, {"#", "%23"}, {"a/b", "a%2Fb"}, {"*", "*"}, {">", ">"}, {"a.b", "a.b"},
		{"..", ".."}, {"%2B", "%252B"}, {"a-b[c]", "a-b[c]"}, {"%u", "%u"}, {"%c", "%c"}, {" ", " "}, {"$SYS", "$SYS"},
	} {
		who := Principal{User: c.name, ClientID: c.name}
		for _, d := range []decided{
			{who, Publish, Topic, "home/" + c.level + "/x", 1},
			{who, Publish, Topic, "home/other/x", 0},
			{who, Publish, Topic, "home/" + c.level + "x/x", 0},
			{who, Publish, Topic, "home", 0},
			{who, Subscribe, Topic, "dev/" + c.level, 2},
			{who, Subscribe, Topic, "dev/+", 0},
			{who, Subscribe, Topic, "dev/#", 0},
			{who, Subscribe, Topic, "dev/other", 0},
			{who, Consume, Queue, "inbox-" + c.name, 3},
			{who, Consume, Queue, "inbox-" + c.name + "x", 0},
			{who, Call, Procedure, "of/" + c.level + "/do", 4},
			{who, Call, Procedure, "of/other/do", 0},
		} {
			if d.name == "dev/other" && c.name == "other" {
				continue
			}
			d.check(t, r)
		}
	}
	for _, d := range []decided{
		{Principal{}, Publish, Topic, "home//x", 0},
		{Principal{}, Subscribe, Topic, "dev/", 0},
		{Principal{}, Consume, Queue, "inbox-", 0},
		{Principal{User: "a\x00b"}, Publish, Topic, "home/a/x", 0},
	} {
		d.check(t, r)
	}
}

// Faults 39 and 42: who calls himself $SYS is not let in to the broker's own
// topics by a rule that begins with his name.
func TestNamesOfTheBrokersOwn(t *testing.T) {
	r := mustRules(t, "allow anyone subscribe %c/#", "allow anyone publish %u/x", "allow anyone subscribe +/%c/#")
	for _, c := range []decided{
		{Principal{ClientID: "$SYS"}, Subscribe, Topic, "$SYS/broker/uptime", 0},
		{Principal{ClientID: "$SYS"}, Subscribe, Topic, "$SYS/#", 0},
		{Principal{User: "$SYS"}, Publish, Topic, "$SYS/x", 0},
		{Principal{ClientID: "broker"}, Subscribe, Topic, "$SYS/broker/x", 0},
		{Principal{ClientID: "c"}, Subscribe, Topic, "c/x", 1},
	} {
		c.check(t, r)
	}
}

// Fault 44: a file without rules denies everything.
func TestEmptyRulesDenyAll(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing\n", " \t\n", "\ufeff"} {
		r, err := ParseRules([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for kind := Topic; kind <= Procedure; kind++ {
			for a := Publish; a <= Admin; a++ {
				if r.Decide(ann, a, Object{Kind: kind, Name: "a"}) == nil {
					t.Errorf("%q allows %s", text, a)
				}
			}
		}
	}
}

func TestEverything(t *testing.T) {
	r := mustRules(t, "allow group:ops all", "deny anyone publish queue:x")
	for kind := Topic; kind <= Procedure; kind++ {
		for _, a := range append(kind.Actions(), Admin) {
			if err := r.Decide(ann, a, Object{Kind: kind, Name: "$SYS"}); err != nil {
				t.Errorf("%s: %v", a, err)
			}
		}
	}
	if r.Decide(ann, Publish, Object{Kind: Queue, Name: "x"}) == nil {
		t.Error("all beats a rule about the queue")
	}
}

func TestPartsThatAreDenied(t *testing.T) {
	r := mustRules(t, "allow anyone subscribe a/#", "deny anyone subscribe a/+/secret", "deny user:bob subscribe a/x",
		"allow anyone subscribe b/#", "deny anyone subscribe #/secret")
	for filter, want := range map[string][]int{
		"a/#": {2}, "a/b": nil, "a/b/secret": nil, "a/+": nil, "a/+/x": nil, "a/+/+": {2}, "b/#": nil, "b/+/c": nil,
	} {
		d, err := r.Explain(ann, Subscribe, Object{Name: filter})
		if err != nil || !slices.Equal(d.Inside, want) {
			t.Errorf("%s: %v, want %v (%v)", filter, d.Inside, want, err)
		}
		whole := r.Decide(ann, Subscribe, Object{Name: filter, Whole: true}) == nil
		if whole != (d.Allowed && len(want) == 0) {
			t.Errorf("%s: whole %v", filter, whole)
		}
	}
}

// All queues, as dead letters with keys of their own reach them, are for whom no
// queue is denied; a right to exchanges is none to them.
func TestEveryQueue(t *testing.T) {
	star := Principal{User: "*"}
	for _, c := range []struct {
		rules string
		who   Principal
		want  bool
	}{
		{"allow anyone publish queue:*", ann, true},
		{"allow anyone all", ann, true},
		{"allow anyone publish queue:a*", ann, false},
		{"allow anyone publish queue:%u", star, false},
		{"allow anyone publish exchange:*", ann, false},
		{"allow anyone all exchange:*", ann, false},
		{"allow anyone publish queue:*\ndeny anyone publish queue:secret", ann, false},
		{"allow anyone publish queue:*\ndeny user:bob publish queue:secret", ann, true},
		{"allow anyone publish queue:*\ndeny anyone consume queue:secret", ann, true},
		{"allow anyone all\ndeny anyone publish queue:s*", ann, false},
		{"allow anyone publish queue:*\ndeny group:ops publish queue:%u", ann, false},
	} {
		got := mustRules(t, c.rules).Decide(c.who, Publish, Object{Kind: Queue, Whole: true}) == nil
		if got != c.want {
			t.Errorf("%q, %s: %v", c.rules, c.who.User, got)
		}
	}
}

func TestBadRules(t *testing.T) {
	for line, want := range map[string]string{
		"permit anyone all #":                                    "begins with allow or deny",
		"allow":                                                  "who it is for is missing",
		"allow ann publish a":                                    "user:NAME, group:NAME",
		"allow everyone publish a":                               "user:NAME, group:NAME",
		"allow user: publish a":                                  "without a name",
		"allow group:":                                           "without a name",
		`allow user:"" publish a`:                                "without a name",
		`allow user:"ann publish a`:                              "not closed",
		`allow user:"ann"x publish a`:                            "ends at the quote",
		"allow anyone":                                           "what it is about is missing",
		"allow anyone write a":                                   `no action "write"`,
		"allow anyone publish,,subscribe a":                      `no action ""`,
		"allow anyone Publish a":                                 `no action "Publish"`,
		"allow anyone publish":                                   "on what it is done is missing",
		"allow anyone publish,admin":                             "on what",
		"allow anyone admin a":                                   "below $SYS",
		"allow anyone publish a/b#":                              "a/b#",
		"allow anyone publish $queue/x":                          "write queue:NAME",
		"allow anyone subscribe $share/g/x":                      "write the topic behind it",
		"allow anyone publish rpc:a":                             "publish goes not with",
		"allow anyone consume a":                                 "consume goes not with",
		"allow anyone subscribe queue:a":                         "subscribe goes not with",
		"allow anyone consume queue:":                            "no name behind the colon",
		"allow anyone consume queue:%u*":                         "once, and then no *",
		"allow anyone consume queue:%u-%c":                       "once, and then no *",
		"allow anyone publish a/x%u":                             "a whole level",
		"allow anyone publish #/#/#":                             "#/#/#",
		"allow anyone call rpc:":                                 `""`,
		"allow anyone publish a\x00":                             "without NUL",
		"allow anyone publish \xff":                              "not UTF-8",
		"allow anyone publish exchange:\xffa":                    "not UTF-8",
		"allow anyone consume queue:" + strings.Repeat("x", 256): "255 bytes",
	} {
		_, err := ParseRules([]byte("allow anyone all\n\n" + line))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "line 3: ") {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

func TestRuleSpellings(t *testing.T) {
	r := mustRules(t, "\ufeff# comment", `  allow  user:"ann smith"`+"\tpublish,subscribe   com/my app/on news  \r",
		"allow user:a:b publish topic:queue:x", "deny group:g all #")
	smith := Principal{User: "ann smith"}
	for _, c := range []decided{
		{smith, Publish, Topic, "com/my app/on news", 2},
		{smith, Subscribe, Topic, "com/my app/on news", 2},
		{Principal{User: "a:b"}, Publish, Topic, "queue:x", 3},
	} {
		c.check(t, r)
	}
	if r.Len() != 3 {
		t.Error(r.Len())
	}
}

func TestReadRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	if _, err := ReadRules(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("allow anyone all\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadRules(path)
	if err == nil || !strings.Contains(err.Error(), path+": line 2: ") {
		t.Error(err)
	}
	if _, err := (Config{Rules: path}).Policy(); err == nil {
		t.Error("bad rules make a policy")
	}
}

// Fault 28: the number of rules is bounded, and fault 27: matching takes no
// longer than both lengths allow.
func TestRulesAreBounded(t *testing.T) {
	line := "allow user:u%d consume queue:%s\n"
	star := strings.Repeat("a*", 120) + "b"
	var b strings.Builder
	for i := range maxRules {
		fmt.Fprintf(&b, line, i%100, star)
	}
	r, err := ParseRules([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if r.Decide(Principal{User: "u7"}, Consume, Object{Kind: Queue, Name: strings.Repeat("a", 255)}) == nil {
		t.Error("matched")
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := ParseRules([]byte(b.String() + "allow anyone all\n")); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
	if _, err := ParseRules(make([]byte, maxRuleFile+1)); err == nil {
		t.Error("a file without end")
	}
}

// The lists of the settings hold beside the rules.
func TestListsAndRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(path, []byte("allow anyone all a/#\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Config{Rules: path, DenySubscribe: []string{"a/secret/#"}}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		whole, allow bool
	}{{"a/b", true, true}, {"a/secret", false, false}, {"a/#", false, true}, {"a/#", true, false}, {"b", false, false}} {
		if err := p(ann, Subscribe, Object{Name: c.name, Whole: c.whole}); (err == nil) != c.allow {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzParseRules(f *testing.F) {
	f.Add("allow user:ann publish,subscribe plant/%u/#\ndeny anyone all\n", "plant/ann/x")
	f.Add(`allow group:"a b" consume queue:x*y`, "xay")
	f.Fuzz(func(t *testing.T, text, name string) {
		r, err := ParseRules([]byte(text))
		if err != nil {
			return
		}
		for kind := Topic; kind <= Procedure; kind++ {
			for _, a := range kind.Actions() {
				o := Object{Kind: kind, Name: name}
				d, err := r.Explain(ann, a, o)
				if (r.Decide(ann, a, o) == nil) != (err == nil && d.Allowed) {
					t.Errorf("%s %q: %+v, %v", a, name, d, err)
				}
			}
		}
	})
}
