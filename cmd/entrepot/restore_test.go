package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRestoreRefused(t *testing.T) {
	dir := t.TempDir()
	data, new := filepath.Join(dir, "data"), filepath.Join(dir, "new")
	refusedWith(t, "no such file or directory", "restore", "--data", new, filepath.Join(dir, "none"))
	refusedWith(t, dir+" is no backup", "restore", "--data", new, dir)
	b := start(t, "--data", data)
	backup := filepath.Join(dir, "backup")
	well(t, "backup", "--data", data, backup)
	b.stop()
	b.ended(t)
	refusedWith(t, "is inside the backup", "restore", "--data", filepath.Join(backup, "data"), backup)
	for _, manifest := range named(t, backup, "MANIFEST-*") {
		if err := os.Truncate(manifest, 5); err != nil {
			t.Fatal(err)
		}
	}
	refusedWith(t, "data damaged", "restore", "--data", new, backup)
	if left := named(t, new, "*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func named(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A damaged manifest: serve refuses and names the command, the command saves
// all, and a broker on what it saved serves that.
func TestRepair(t *testing.T) {
	dir := t.TempDir()
	data, saved := filepath.Join(dir, "data"), filepath.Join(dir, "saved")
	b := start(t, "--data", data)
	for _, order := range []string{"1", "2", "3"} {
		well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", order)
	}
	refusedWith(t, "in use: is another entrepot running on it?", "repair", "--data", data, saved)
	b.stop()
	b.ended(t)
	out := well(t, "repair", "--data", data, filepath.Join(dir, "sound"))
	if !strings.HasPrefix(out, "saved from "+data+" into ") || !strings.HasSuffix(out, "lost: nothing\n") {
		t.Errorf("of a sound directory: %q", out)
	}
	for _, manifest := range named(t, data, "MANIFEST-*") {
		if err := os.Truncate(manifest, 20); err != nil {
			t.Fatal(err)
		}
	}
	refusedWith(t, `"entrepot repair NEW-DIR" saves what can be saved`, "serve", "--data", data, "--mqtt", "127.0.0.1:0")
	out = well(t, "repair", "--data", data, saved)
	if !strings.Contains(out, "lost: MANIFEST-") || !strings.Contains(out, "may be there again") {
		t.Errorf("%q", out)
	}
	refusedWith(t, saved+" is not empty", "repair", "--data", data, saved)
	b = start(t, "--data", saved)
	if out := well(t, "sub", "-C", "3", b.stomp+"/queue/orders"); out != "1\n2\n3\n" {
		t.Errorf("saved: %q", out)
	}
}

// What a table lost is told by key range.
func TestRepairReportsRanges(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	b := start(t, "--data", data)
	for i := range 20 {
		well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", strings.Repeat(string(rune('a'+i)), 10_000))
	}
	b.stop()
	b.ended(t)
	tables := named(t, data, "*.sst")
	if len(tables) == 0 {
		t.Fatal("no tables")
	}
	for _, table := range tables {
		f, err := os.OpenFile(table, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := []byte{0}
		if _, err := f.ReadAt(b, 100); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x10
		if _, err := f.WriteAt(b, 100); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	out := well(t, "repair", "--data", data, filepath.Join(dir, "saved"))
	if !strings.Contains(out, ".sst: ") || !strings.Contains(out, "; from ") || strings.Contains(out, ": 0 entries") {
		t.Errorf("%q", out)
	}
}

func TestRepairRefused(t *testing.T) {
	dir := t.TempDir()
	refusedWith(t, "no such file or directory", "repair", "--data", filepath.Join(dir, "none"), filepath.Join(dir, "new"))
	refusedWith(t, dir+" is no data directory", "repair", "--data", dir, filepath.Join(dir, "new"))
}
