package adapters

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a log at info.
func lines() (*slog.Logger, func() []string) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, nil)), func() []string {
		all := strings.Split(strings.TrimSpace(out.String()), "\n")
		out.Reset()
		return all
	}
}

// A flood of clients that are not let in makes one line in a minute, with their
// number.
func TestReportsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, told := lines()
		var r reports
		flood := func(n int) []string {
			for range n {
				r.tell(log, "not let in", "remote", "10.0.0.1")
			}
			return told()
		}
		if got := flood(1000); len(got) != 1 || strings.Contains(got[0], "more_since") {
			t.Errorf("at first: %q", got)
		}
		time.Sleep(reportEvery)
		if got := flood(1000); len(got) != 1 || !strings.Contains(got[0], "more_since_last_line=999") {
			t.Errorf("a minute later: %q", got)
		}
		time.Sleep(reportEvery - time.Second)
		if got := flood(10); len(got) != 1 || got[0] != "" {
			t.Errorf("too soon: %q", got)
		}
		time.Sleep(time.Second)
		if got := flood(1); len(got) != 1 || !strings.Contains(got[0], "more_since_last_line=1009") {
			t.Errorf("at last: %q", got)
		}
	})
}
