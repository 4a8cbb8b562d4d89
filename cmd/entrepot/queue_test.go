package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Queues are looked into and put in order by commands, found by the data
// directory.
func TestQueueCommands(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	b := start(t, "--data", data)
	for _, text := range []string{"one", "two", "three"} {
		well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", text)
	}
	well(t, "pub", "-q", "1", b.mqtt+"/$queue/parked", "four")
	on := func(args ...string) string { return well(t, append(args, "--data", data)...) }
	if out := on("queue", "list"); !strings.Contains(out, "        3         0           11         0            0  -                orders\n") {
		t.Errorf("list:\n%s", out)
	}
	out := on("queue", "peek", "orders", "--count", "2")
	if n := strings.Count(out, "\n"); n != 2 || !strings.Contains(out, `"payload":"one"`) || !strings.Contains(out, `"topic":"orders"`) {
		t.Errorf("peek:\n%s", out)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"1 purged\n", []string{"queue", "purge", "orders", "--contains", "tw"}},
		{"1 moved\n", []string{"queue", "move", "orders", "parked", "--most", "1"}},
		{"0 replayed\n", []string{"queue", "replay", "parked"}},
		{"2 purged\n", []string{"queue", "purge", "parked"}},
	} {
		if out := on(c.args...); out != c.want {
			t.Errorf("%q: %q, want %q", c.args, out, c.want)
		}
	}
	refusedWith(t, `queue "none": not found`, "queue", "purge", "none", "--data", data)
	refusedWith(t, "the token is not the one", "queue", "list", "--http", strings.TrimPrefix(b.http, "http://"))
	b.stop()
	b.ended(t)
	refusedWith(t, "no broker to ask", "queue", "list", "--data", data)
}

// What waits for its time is listed, taken back and sent on.
func TestDelayedCommands(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	b := start(t, "--data", data)
	well(t, "pub", "-q", "1", b.mqtt+"/$queue/q", "now")
	for _, text := range []string{"one", "two"} {
		well(t, "pub", "-q", "1", b.mqtt+"/$delayed/3600/$queue/q", text)
	}
	on := func(args ...string) string { return well(t, append(args, "--data", data)...) }
	lines := strings.Split(strings.TrimSpace(on("delayed", "list")), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"payload":"one"`) {
		t.Fatalf("list: %q", lines)
	}
	id := func(line string) string {
		_, rest, _ := strings.Cut(line, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	if out := on("delayed", "fire", id(lines[0])); out != id(lines[0])+" sent on\n" {
		t.Errorf("fire: %q", out)
	}
	on("delayed", "cancel", id(lines[1]))
	refusedWith(t, "not found", "delayed", "cancel", id(lines[1]), "--data", data)
	if out := on("delayed", "list"); out != "" {
		t.Errorf("left: %q", out)
	}
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(on("queue", "peek", "q"), `"payload":"one"`) {
		if time.Now().After(deadline) {
			t.Fatal("it was not sent on")
		}
	}
	b.stop()
	b.ended(t)
}
