package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"entrepot/conf"
)

// Nothing counts before everything was read and is good.
// It shows fault 46.
func TestReloadIsAllOrNothing(t *testing.T) {
	log := newText()
	r := &reloads{log: newLog(conf.Log{Level: "info", Format: "text"}, log)}
	var applied []string
	var bad error
	r.add("one", func() (func(), error) { return func() { applied = append(applied, "one") }, nil })
	r.add("two", func() (func(), error) { return func() { applied = append(applied, "two") }, bad })
	bad = errors.New("line 7 is no rule")
	if names, err := r.all(); err == nil || err.Error() != "two: line 7 is no rule" || names != nil || applied != nil {
		t.Errorf("%q, %v; applied %q", names, err, applied)
	}
	log.await(t, `level=ERROR msg="not reloaded, all stays as it was" error="two: line 7 is no rule"`)
	bad = nil
	if names, err := r.all(); err != nil || !slices.Equal(names, []string{"one", "two"}) || !slices.Equal(applied, names) {
		t.Errorf("%q, %v; applied %q", names, err, applied)
	}
	log.await(t, `msg=reloaded what="one, two"`)
}

func TestReloadCommand(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	b := start(t, "--data", data)
	if out := well(t, "reload", "--data", data); !strings.HasPrefix(out, "reloaded: ") || !strings.Contains(out, "tls") {
		t.Errorf("%q", out)
	}
	b.log.await(t, "msg=reloaded")
	memory := start(t)
	if out := well(t, "reload", "--http", strings.TrimPrefix(memory.http, "http://")); !strings.HasPrefix(out, "reloaded: ") {
		t.Errorf("in memory: %q", out)
	}
	b.stop()
	b.ended(t)
	refusedWith(t, "no broker to ask runs on data directory "+data, "reload", "--data", data)
}

func TestReloadBySignal(t *testing.T) {
	p := launch(t, nil)
	p.signal(t, syscall.SIGHUP)
	p.log.await(t, "msg=reloaded")
	p.signal(t, syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.log)
	}
}
