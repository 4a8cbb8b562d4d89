package main

import (
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
