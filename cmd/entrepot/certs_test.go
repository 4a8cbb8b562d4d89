package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What certs prints is a settings file that serves MQTT over TLS, and what it made
// stays when it is called again.
func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	r := do(t, "", "certs", dir, "--client", "ann")
	if r.code != 0 || !strings.Contains(r.errors, "made "+filepath.Join(dir, "ca.pem")) {
		t.Fatalf("%+v", r)
	}
	for _, name := range []string{"ca", "server", "ann"} {
		if i, err := os.Stat(filepath.Join(dir, name+".key")); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
	file := filepath.Join(t.TempDir(), "e.toml")
	if err := os.WriteFile(file, []byte(r.out), 0o600); err != nil {
		t.Fatal(err)
	}
	well(t, "check", file)
	before, err := os.ReadFile(filepath.Join(dir, "server.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if r := do(t, "", "certs", dir, "--client", "ann", "--client", "bob"); r.code != 0 || strings.Contains(r.errors, "ann") || !strings.Contains(r.errors, "bob") {
		t.Errorf("%+v", r)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "server.pem")); err != nil || string(after) != string(before) {
		t.Errorf("the certificate is another, %v", err)
	}
	if r := do(t, "", "certs", dir, "--client", "../x"); r.code != exitUsage || !strings.Contains(r.errors, "cannot be the name") {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "its certificate is there, but not its key", "certs", dir, "--client", "eve")
}
