package auth

import (
	"strings"
	"testing"
	"time"
)

func TestNothingDenied(t *testing.T) {
	p, err := DefaultConfig().Policy()
	if p != nil || err != nil {
		t.Error(p, err)
	}
}

func TestDenySubscribe(t *testing.T) {
	p, err := Config{DenySubscribe: []string{"test/nosubscribe", "plant/+/secret/#", "$SYS/#", "all/#/x"}}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for filter, allowed := range map[string]bool{
		"test/nosubscribe":        false,
		"test/nosubscribe/x":      true,
		"test":                    true,
		"test/+":                  true, // overlaps only
		"#":                       true,
		"test/nosubscrib%65":      true, // another topic
		"plant/7/secret":          false,
		"plant/7/secret/door":     false,
		"plant/+/secret/+":        false,
		"plant/#":                 true,
		"plant/7/other":           true,
		"$SYS/broker/connections": false,
		"$SYS/#":                  false,
		"$SYS/+/x":                false,
		"+/broker":                true,
		"all/x":                   false,
		"all/a/b/x":               false,
		"all/#/y/x":               false,
		"all/a":                   true,
		"not a filter/#x":         false, // cannot be read
	} {
		if err := p(Principal{}, Subscribe, Object{Kind: Topic, Name: filter}); (err == nil) != allowed {
			t.Errorf("%s: %v", filter, err)
		}
	}
	for _, free := range []struct {
		a Action
		o Object
	}{
		{Publish, Object{Kind: Topic, Name: "test/nosubscribe"}},
		{Consume, Object{Kind: Queue, Name: "test/nosubscribe"}},
		{Subscribe, Object{Kind: Exchange, Name: "test/nosubscribe"}},
		{Declare, Object{Kind: Queue, Name: "test/nosubscribe"}},
	} {
		if err := p(Principal{}, free.a, free.o); err != nil {
			t.Errorf("%v: %v", free, err)
		}
	}
}

// A wildcard in front denies what begins with $ too: a binding may ask for it.
func TestDenyBeginsWithAWildcard(t *testing.T) {
	p, err := Config{DenySubscribe: []string{"+/secret"}, DenyPublish: []string{"#"}}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Object{{Name: "a/secret"}, {Name: "$x/secret"}, {Name: "+/secret"}} {
		if p(Principal{}, Subscribe, o) == nil {
			t.Errorf("subscribed to %s", o.Name)
		}
	}
	for _, o := range []Object{{Name: "a"}, {Name: "$SYS/a"}, {Name: "a//b"}} {
		if p(Principal{}, Publish, o) == nil {
			t.Errorf("published to %s", o.Name)
		}
	}
}

func TestDenyPublish(t *testing.T) {
	p, err := Config{DenyPublish: []string{"cmd/#", "a/+"}}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for topic, allowed := range map[string]bool{
		"cmd": false, "cmd/x": false, "cmd/x/y": false, "command": true,
		"a/b": false, "a/": false, "a": true, "a/b/c": true, "a#": false, // no topic
	} {
		if err := p(Principal{}, Publish, Object{Kind: Topic, Name: topic}); (err == nil) != allowed {
			t.Errorf("%s: %v", topic, err)
		}
	}
	if err := p(Principal{}, Publish, Object{Kind: Topic, Name: "a/#", Whole: true}); err == nil {
		t.Error("all of a/#")
	}
	if err := p(Principal{}, Subscribe, Object{Kind: Topic, Name: "cmd/x"}); err != nil {
		t.Error(err)
	}
}

func TestBadDenyLists(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   []string
	}{
		{Config{DenySubscribe: []string{""}}, []string{`deny_subscribe: ""`}},
		{Config{DenyPublish: []string{"a/b#"}}, []string{`deny_publish: "a/b#"`}},
		{Config{DenySubscribe: []string{"#/#/#"}}, []string{`deny_subscribe: "#/#/#"`}},
		{Config{DenySubscribe: []string{"a", "$share/g/a"}}, []string{`"$share/g/a": filters of topics only, and $share is none`}},
		{Config{DenyPublish: []string{"$queue/orders"}}, []string{"$queue is none"}},
		{Config{DenyPublish: []string{"$exchange/x/y"}}, []string{"$exchange is none"}},
		{Config{DenySubscribe: []string{"a+"}, DenyPublish: []string{"b+", "$delayed/5/a"}}, []string{"a+", "b+", "$delayed is none"}},
	} {
		err := c.config.Validate()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", c.config, err, want)
			}
		}
	}
	good := DefaultConfig()
	good.Users = "/no/such/file"
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// What makes no sense is said with its key, before any file is looked for.
func TestBadLogInSettings(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"anonymous: ":          func(c *Config) { c.Anonymous = []string{"mqtt", "telnet"} },
		"token: user_claim":    func(c *Config) { c.Token.UserClaim = "" },
		"token: leeway":        func(c *Config) { c.Token.Leeway = -time.Second },
		"certificate: user":    func(c *Config) { c.Certificate.User = "ann" },
		"backoff: user":        func(c *Config) { c.Backoff.User = -1 },
		"backoff: longest":     func(c *Config) { c.Backoff.Longest = time.Millisecond },
		"backoff: longest: fr": func(c *Config) { c.Backoff.Longest = 2 * time.Hour },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

// A door may be of tokens or certificates alone; a users file without lines is
// one of nobody.
func TestDoorsWithoutUsers(t *testing.T) {
	k := newKeyring(t)
	tokens, certificates := DefaultConfig(), DefaultConfig()
	tokens.Token = k.config("ed.pem")
	certificates.Certificate.User = "{cn}"
	for i, c := range []Config{tokens, certificates} {
		d, err := c.Door()
		if err != nil || d == nil || d.Users() != 0 {
			t.Fatal(d, err)
		}
		for _, from := range []Credentials{{}, {User: "ann"}, {User: "ann", Password: "x"}, {Password: "x"}} {
			if _, err := d.Admit(t.Context(), from); err == nil {
				t.Errorf("%d: %+v is let in", i, from)
			}
		}
	}
	empty := doorOf(t, "", nil)
	if _, err := empty.Admit(t.Context(), Credentials{User: "ann", Password: "x"}); err == nil {
		t.Error("let in by an empty file")
	}
}
