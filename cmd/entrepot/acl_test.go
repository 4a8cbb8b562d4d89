package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each spelling of a name gets the same answer, with the rule that gives it.
// It shows fault 38.
func TestExplain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules")
	rules := "allow user:ann publish plant/#\ndeny user:ann publish plant/+/valve\nallow user:ann publish queue:a/b\n" +
		"allow user:ann publish exchange:x\nallow user:ann call rpc:dev/#\nallow group:ops subscribe #\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, name string
		line       string
	}{
		{"publish plant/7/temp", "plant/7/temp", ":1:"},
		{"publish topic:plant/7/temp", "plant/7/temp", ":1:"},
		{"publish /topic/plant.7.temp", "plant/7/temp", ":1:"},
		{"--as stomp publish /topic/plant.7.temp", "plant/7/temp", ":1:"},
		{"--as stomp publish plant.7.temp", "plant/7/temp", ":1:"},
		{"--as amqp publish plant.7.temp", "plant/7/temp", ":1:"},
		{"--as wamp publish plant.7.temp", "plant/7/temp", ":1:"},
		{"--as coap publish plant/7/temp", "plant/7/temp", ":1:"},
		{"publish /t/plant/7/temp", "plant/7/temp", ":1:"},
		{"publish $exchange/amq.topic/plant/7/temp", "plant/7/temp", ":1:"},
		{"publish /exchange/amq.topic/plant.7.temp", "plant/7/temp", ":1:"},
		{"publish /t/plant/7/valve", "plant/7/valve", ":2:"},
		{"publish /topic/plant.7.valve", "plant/7/valve", ":2:"},
		{"--as mqtt publish /topic/plant.7.valve", "/topic/plant.7.valve", "no rule"},
		{"publish plant.7.temp", "plant.7.temp", "no rule"},
		{"publish queue:a/b", "queue:a/b", ":3:"},
		{"publish $queue/a%2Fb", "queue:a/b", ":3:"},
		{"publish /queue/a%2Fb", "queue:a/b", ":3:"},
		{"publish /amq/queue/a%2Fb", "queue:a/b", ":3:"},
		{"publish /q/a/b", "queue:a/b", ":3:"},
		{"publish exchange:x", "exchange:x", ":4:"},
		{"publish $exchange/x/k", "exchange:x", ":4:"},
		{"publish /exchange/x/k", "exchange:x", ":4:"},
		{"publish /x/x/k", "exchange:x", ":4:"},
		{"call rpc:dev/reboot", "rpc:dev/reboot", ":5:"},
		{"call /rpc/dev.reboot", "rpc:dev/reboot", ":5:"},
		{"call $rpc/dev/reboot", "rpc:dev/reboot", ":5:"},
		{"--group ops --as amqp subscribe plant.*.temp", "plant/+/temp", ":6:"},
		{"subscribe plant/+/temp", "plant/+/temp", "no rule"},
	} {
		r := do(t, "", append([]string{"acl", "explain", "--rules", file, "--user", "ann"}, strings.Fields(c.args)...)...)
		if r.code != 0 || !strings.Contains(r.out, c.name+"\n") || !strings.Contains(r.out, c.line) {
			t.Errorf("%s: %d %s%s", c.args, r.code, r.out, r.errors)
		}
	}
	for args, want := range map[string]string{
		"publish /queue/a/b": "one level", "fly plant": "fly", "--as smoke publish a": "no spelling", "subscribe a#": "a#",
	} {
		r := do(t, "", append([]string{"acl", "explain", "--rules", file}, strings.Fields(args)...)...)
		if r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%s: %d %s%s", args, r.code, r.out, r.errors)
		}
	}
}

// With settings the lists, the rules and the users file decide together, as in a
// broker that reads them. Which one it was is told.
func TestExplainBySettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := write("rules", "allow group:ops publish,subscribe plant/#\nallow user:bob all\nallow user:bob register rpc:dev/#\ndeny user:bob register rpc:dev/no\n"+
		"allow anonymous publish open\n")
	users := write("users", "ann:* groups=ops\nbob:*\n")
	both := write("both.toml", fmt.Sprintf("[auth]\nusers = %q\nrules = %q\nanonymous = [\"coap\"]\n"+
		"deny_publish = [\"plant/9/#\"]\ndeny_subscribe = [\"plant/+/secret\"]\n", users, rules))
	lists := write("lists.toml", "[auth]\ndeny_publish = [\"plant/9/#\"]\n")
	empty := write("empty.toml", "")
	for _, c := range []struct{ args, want string }{
		{"--config BOTH --user ann publish plant/7", "allowed: user:ann publish plant/7\nby RULES:1: allow group:ops publish,subscribe plant/#\nuser ann is in the groups of USERS: ops\n"},
		{"--config BOTH --user bob publish plant/7", "allowed: user:bob publish plant/7\nby RULES:2: allow user:bob all\n"},
		{"--config BOTH --user carl publish plant/7", "denied: user:carl publish plant/7\nno rule in RULES stands for it\nuser carl is not in USERS\n"},
		{"--config BOTH --user bob publish plant/9/x", "denied: user:bob publish plant/9/x\nby auth.deny_publish of BOTH: plant/9/#\n"},
		{"--config BOTH --user bob publish /topic/plant.9.x", "denied: user:bob publish plant/9/x\nby auth.deny_publish of BOTH: plant/9/#\n"},
		{"--config BOTH --user bob publish /t/plant/9/x", "denied: user:bob publish plant/9/x\nby auth.deny_publish of BOTH: plant/9/#\n"},
		{"--config BOTH --user bob --as amqp publish plant.9.x", "denied: user:bob publish plant/9/x\nby auth.deny_publish of BOTH: plant/9/#\n"},
		{"--config BOTH --user bob --as wamp publish plant.9.x", "denied: user:bob publish plant/9/x\nby auth.deny_publish of BOTH: plant/9/#\n"},
		{"--config BOTH --user bob publish $delayed/5/plant/9/x", "denied: user:bob publish plant/9/x\nby auth.deny_publish of BOTH: plant/9/#\n"},
		{"--config BOTH --user bob subscribe plant/#", "allowed: user:bob subscribe plant/#\nby RULES:2: allow user:bob all\na part of it is denied by auth.deny_subscribe plant/+/secret, and is left out\n"},
		{"--config BOTH --user bob subscribe $share/g/plant/#", "denied: user:bob subscribe plant/#\nby RULES:2: allow user:bob all\n" +
			"a part of it is denied by auth.deny_subscribe plant/+/secret, and it is had as a whole or not at all\n"},
		{"--config BOTH --user bob subscribe $rpc/dev/#", "denied: user:bob register rpc:dev/#\nby RULES:3: allow user:bob register rpc:dev/#\na part of it is denied by line 4, and it is had as a whole or not at all\n"},
		{"--config BOTH --user bob publish $rpc/dev/no", "allowed: user:bob call rpc:dev/no\nby RULES:2: allow user:bob all\n"},
		{"--config BOTH --user bob subscribe $queue/q", "allowed: user:bob consume queue:q\nby RULES:2: allow user:bob all\n"},
		{"--config BOTH --user bob publish $SYS/x", "denied: user:bob publish $SYS/x\nby the broker: topics that begin with $ are its own\n"},
		{"--config BOTH --user bob declare queue:amq.x", "denied: user:bob declare queue:amq.x\nby the broker: names that begin with amq. or $ are its own\n"},
		{"--config BOTH publish open", "allowed: anonymous publish open\nby RULES:5: allow anonymous publish open\nwithout a log-in clients come in by coap only\n"},
		{"--config BOTH --rules OTHER --user bob publish plant/7", "denied: user:bob publish plant/7\nno rule in OTHER stands for it\n"},
		{"--config LISTS publish plant/9", "denied: anonymous publish plant/9\nby auth.deny_publish of LISTS: plant/9/#\n"},
		{"--config LISTS publish plant/7", "allowed: anonymous publish plant/7\nthere are no rules of LISTS, and no list denies it\n"},
		{"--config EMPTY publish plant/7", "allowed: anonymous publish plant/7\nthere are no rules of EMPTY, and no list denies it\n"},
	} {
		names := strings.NewReplacer("BOTH", both, "LISTS", lists, "EMPTY", empty, "RULES", rules, "USERS", users, "OTHER", write("other", "allow user:ann all\n"))
		r := do(t, "", append([]string{"acl", "explain"}, strings.Fields(names.Replace(c.args))...)...)
		if r.code != 0 || r.out != names.Replace(c.want) {
			t.Errorf("%s: %d %s%s, want %s", c.args, r.code, r.out, r.errors, c.want)
		}
	}
	for args, want := range map[string]string{"consume plant": "goes not with", "publish plant": "no rules: --rules FILE"} {
		r := do(t, "", append([]string{"acl", "explain"}, strings.Fields(args)...)...)
		if r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%s: %d %s%s", args, r.code, r.out, r.errors)
		}
	}
}
