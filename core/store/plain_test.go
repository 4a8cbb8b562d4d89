package store

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// talkative is an error that prints where it comes from, as the database's do.
type talkative struct{}

func (talkative) Error() string { return "checksum mismatch\n<corruption detail carrier>" }

func (talkative) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "checksum mismatch\n-- stack trace:\n | a.go:1")
}

// Damage is told on one line, without the database's stack.
func TestDamageIsToldPlainly(t *testing.T) {
	var log bytes.Buffer
	s, err := Open("data", Options{Disk: MemoryDisk(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.corrupted(pebble.DataCorruptionInfo{Path: "1.sst", Details: talkative{}})
	if text := log.String(); strings.Contains(text, "stack") || !strings.Contains(text, `error="checksum mismatch"`) {
		t.Errorf("log: %s", text)
	}
}
