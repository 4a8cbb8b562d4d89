package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A policy gives a queue, made over MQTT, what MQTT cannot say; another one
// after a restart counts for the queue that is there.
func TestPoliciesOverMQTT(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "e.toml")
	with := func(policy string) *broker {
		t.Helper()
		if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := well(t, "check", file); out != file+": ok\n" {
			t.Fatal(out)
		}
		return start(t, "--data", data, "--config", file)
	}
	list := func() string { t.Helper(); return well(t, "queue", "list", "--data", data) }
	b := with("[[policies]]\nname = \"few\"\npattern = \"^orders$\"\narguments = { x-max-length = 3 }\n")
	for _, text := range []string{"1", "2", "3", "4", "5"} {
		well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", text)
		well(t, "pub", "-q", "1", b.mqtt+"/$queue/others", text)
	}
	out := list()
	for _, want := range []string{"        3         0            3         0            0  few              orders\n",
		"        5         0            5         0            0  -                others\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("list:\n%s", out)
		}
	}
	b.stop()
	b.ended(t)
	b = with("[[policies]]\nname = \"fewer\"\npattern = \"^orders$\"\narguments = { x-max-length = 2, x-overflow = \"reject-publish\" }\n")
	refusedWith(t, "", "pub", "-q", "1", b.mqtt+"/$queue/orders", "6")
	if out := list(); !strings.Contains(out, "        3         0            3         0            0  fewer            orders\n") {
		t.Errorf("list:\n%s", out)
	}
	b.stop()
	b.ended(t)
	b = with("")
	well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", "7")
	if out := list(); !strings.Contains(out, "        4         0            4         0            0  -                orders\n") {
		t.Errorf("list:\n%s", out)
	}
}
