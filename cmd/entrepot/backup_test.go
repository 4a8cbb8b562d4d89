package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"entrepot/core/store"
)

// well runs a command that has to end well and returns its output. Clients may
// have a word to say beside it.
func well(t *testing.T, args ...string) string {
	t.Helper()
	r := do(t, "", args...)
	if r.code != 0 {
		t.Fatalf("%q: code %d, %s", args, r.code, r.errors)
	}
	return r.out
}

// refusedWith runs a command that has to fail with a text.
func refusedWith(t *testing.T, want string, args ...string) {
	t.Helper()
	r := do(t, "", args...)
	if r.code != exitFailed || !strings.Contains(r.errors, want) {
		t.Errorf("%q: code %d, %q; want %q", args, r.code, r.errors, want)
	}
}

// A backup of a running broker has what was confirmed before it, and a broker
// on the restored data serves that.
// It shows fault 95.
func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	data, backup, restored := filepath.Join(dir, "data"), filepath.Join(dir, "backup"), filepath.Join(dir, "restored")
	b := start(t, "--data", data)
	well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", "before")
	well(t, "pub", "-q", "1", "-r", b.mqtt+"/plant/state", "on")
	out := well(t, "backup", "--data", data, backup)
	if !strings.HasPrefix(out, "backup in "+backup+": 0.") || !strings.HasSuffix(out, " s\n") {
		t.Errorf("%q", out)
	}
	b.log.await(t, "msg=backup path="+backup+" bytes=")
	well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", "after")
	refusedWith(t, "not written to: "+backup+" is not empty", "backup", "--data", data, backup)
	refusedWith(t, "in use: is another entrepot running on it?", "restore", "--data", data, backup)
	b.stop()
	b.ended(t)
	if _, err := os.Stat(filepath.Join(data, controlName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	refusedWith(t, data+" is not empty", "restore", "--data", data, backup)
	if out := well(t, "restore", "--data", restored, backup); !strings.HasPrefix(out, restored+" restored from "+backup+": 0.") {
		t.Errorf("%q", out)
	}
	b = start(t, "--data", restored)
	if out := well(t, "sub", "-C", "1", b.stomp+"/queue/orders"); out != "before\n" {
		t.Errorf("first in the queue: %q", out)
	}
	if out := well(t, "sub", "-C", "1", b.mqtt+"/plant/state"); out != "on\n" {
		t.Errorf("last value: %q", out)
	}
	well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", "new")
	if out := well(t, "sub", "-C", "1", b.stomp+"/queue/orders"); out != "new\n" {
		t.Errorf("second in the queue: %q", out)
	}
}

// The broker is found where it is, be it on a unix socket.
func TestBackupOverUnixSocket(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	start(t, "--data", data, "--http", "unix:"+filepath.Join(dir, "http.sock"), "--http", "127.0.0.1:0")
	well(t, "backup", "--data", data, filepath.Join(dir, "backup"))
}

func TestBackupRefused(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	full := filepath.Join(dir, "full")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(full, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(dir, "backup")
	refusedWith(t, "no data directory "+data+": name the broker's with --data; one that runs with --memory has none", "backup", "--data", data, backup)
	b := start(t, "--data", data)
	refusedWith(t, full+" is not empty", "backup", "--data", data, full)
	refusedWith(t, "not a directory", "backup", "--data", data, file)
	refusedWith(t, "not a directory", "backup", "--data", data, filepath.Join(file, "below"))
	for _, inside := range []string{data, filepath.Join(data, "backup")} {
		refusedWith(t, inside+" is inside the data directory", "backup", "--data", data, inside)
	}
	if os.Getuid() != 0 { // root may write everywhere
		closed := filepath.Join(dir, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		refusedWith(t, "permission denied", "backup", "--data", data, filepath.Join(closed, "backup"))
	}
	b.stop()
	b.ended(t)
	refusedWith(t, "no broker to ask runs on data directory "+data, "backup", "--data", data, backup)
	t.Setenv("ENTREPOT_STORE_DATA", "")
	if r := do(t, "", "backup", "--data", "", backup); r.code != exitUsage || !strings.Contains(r.errors, "everything in memory") {
		t.Errorf("in memory: %+v", r)
	}
	if _, err := os.Stat(backup); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

// What a killed broker leaves behind is told from one that runs.
func TestBackupOfAKilledBroker(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	p := launch(t, nil, "--data", data)
	p.signal(t, syscall.SIGKILL)
	p.code()
	refusedWith(t, "is not running any more", "backup", "--data", data, filepath.Join(dir, "backup"))
	p = launch(t, nil, "--data", data)
	well(t, "backup", "--data", data, filepath.Join(dir, "backup"))
	p.signal(t, syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.log)
	}
}

// A disk that is too small for the backup is named, and what was written goes.
func TestBackupOntoAFullDisk(t *testing.T) {
	small := t.TempDir()
	if err := mountSmall(small); err != nil {
		t.Skipf("no small disk to be had: %v", err)
	}
	t.Cleanup(func() { _ = unmount(small) })
	data := filepath.Join(t.TempDir(), "data")
	b := start(t, "--data", data)
	for range 3 {
		well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", strings.Repeat("x", 20_000))
	}
	target := filepath.Join(small, "backup")
	refusedWith(t, "no space left on device", "backup", "--data", data, target)
	if left, err := os.ReadDir(target); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	well(t, "pub", "-q", "1", b.mqtt+"/$queue/orders", "goes on")
}

// What only the one who may read the data directory may ask for.
func TestBackupNeedsTheToken(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	b := start(t, "--data", data)
	file := filepath.Join(data, controlName)
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", i, err)
	}
	at, err := readControl(data)
	if err != nil {
		t.Fatal(err)
	}
	memory := start(t)
	for _, c := range []struct {
		name, url, token, kind, body, header string
		status                               int
		want                                 string
	}{
		{"no token", b.http, "", "application/json", `{"dir": "/x"}`, "", 401, "token"},
		{"another token", b.http, "Bearer x", "application/json", `{"dir": "/x"}`, "", 401, "token"},
		{"relative", b.http, "Bearer " + at.Token, "application/json", `{"dir": "x"}`, "", 400, "ABSOLUTE"},
		{"no JSON", b.http, "Bearer " + at.Token, "application/json", `x`, "", 400, "ABSOLUTE"},
		{"a form", b.http, "Bearer " + at.Token, "text/plain", `{"dir": "/x"}`, "", 415, ""},
		{"a page", b.http, "Bearer " + at.Token, "application/json", `{"dir": "/x"}`, "http://127.0.0.1", 403, ""},
		{"in memory", memory.http, "", "application/json", `{"dir": "/x"}`, "", 409, "--memory"},
	} {
		r, err := http.NewRequest("POST", c.url+backupPath, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.kind)
		for name, value := range map[string]string{"Authorization": c.token, "Origin": c.header} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, text)
		}
	}
}

func TestBackupStatus(t *testing.T) {
	for want, errs := range map[int][]error{
		409: {store.ErrBusy}, 422: {store.ErrTarget, fs.ErrPermission, syscall.ENOTDIR}, 507: {syscall.ENOSPC},
		503: {store.ErrFailed, store.ErrClosed}, 500: {errors.New("another")},
	} {
		for _, err := range errs {
			if got := backupStatus(fmt.Errorf("backup: %w", err)); got != want {
				t.Errorf("%v: %d", err, got)
			}
		}
	}
}

// An answer that is none of a broker's is shown as it came.
func TestBackupAnsweredByAnother(t *testing.T) {
	dir := t.TempDir()
	l, address := freePort(t)
	go http.Serve(l, http.NotFoundHandler())
	text, err := json.Marshal(control{HTTP: address, Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, controlName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "the broker answers 404 Not Found: 404 page not found", "backup", "--data", dir, filepath.Join(dir, "x"))
	if err := os.WriteFile(filepath.Join(dir, controlName), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "control file: invalid character", "backup", "--data", dir, filepath.Join(dir, "x"))
}
