package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of rules counts for everybody, who is there too, as soon as it is read
// again; a bad one changes nothing, and one without rules denies everything.
// It shows faults 44, 46 and 48.
func TestRulesAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("allow anyone all\n")
	t.Setenv("ENTREPOT_AUTH_RULES", file)
	data := filepath.Join(t.TempDir(), "data")
	b := start(t, "--data", data)
	both := map[string]*subscriber{}
	both["mqtt"] = subscribe(t, b.mqtt+"/plant/#", "-q", "1")
	both["stomp"] = subscribe(t, b.stomp+"/topic/plant.#")

	write("allow anyone all\nallow anyone fly plant/#\n")
	refusedWith(t, "line 2", "reload", "--data", data)
	pub(t, b.mqtt+"/plant/7", "1")

	write("allow anyone all\ndeny anyone subscribe plant/#\n")
	if out := well(t, "reload", "--data", data); !strings.Contains(out, "rules") {
		t.Errorf("%q", out)
	}
	for name, s := range both {
		if got := s.ends(t, exitFailed); got != "1\n" {
			t.Errorf("%s: printed %q", name, got)
		}
	}
	pub(t, b.mqtt+"/plant/7", "2")

	write("")
	well(t, "reload", "--data", data)
	refusedWith(t, "not authorized", "pub", "-q", "1", b.mqtt+"/plant/7", "3")
	write("allow nobody\n")
	refusedWith(t, "line 1", "reload", "--data", data)
	refusedWith(t, "not authorized", "pub", "-q", "1", b.mqtt+"/plant/7", "3")
}
