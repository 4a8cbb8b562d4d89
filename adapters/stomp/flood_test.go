package stomp

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/local"
)

// A flood of line ends (STOMP 1.2, Heart-beating) is read at the rate that is
// allowed; those that follow frames cost nothing, and others are served at once.
// It shows fault 67.
func TestLineEndFlood(t *testing.T) {
	send := []byte("SEND\ndestination:/topic/t\n\nx\x00\r\n")
	for _, c := range []struct {
		title    string
		bytes    []byte
		from, to time.Duration // for 30 times
	}{
		{"line ends", bytes.Repeat([]byte{'\n'}, 1000), 25 * time.Second, 32 * time.Second},
		{"frames with line ends", bytes.Repeat(send, 100), 0, 0},
	} {
		t.Run(c.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := slog.New(slog.DiscardHandler)
				tr := &transcript{t: t, clients: map[string]*pipeClient{}, vars: map[string]string{}, cfg: DefaultConfig()}
				tr.broker = core.NewBroker(core.DefaultConfig(), "default", local.New(log), nil, log)
				tr.server = New(tr.cfg, core.NewRealms(tr.broker), log)
				defer tr.end()
				tr.step("a connects 1.2", "")
				tr.step("b connects 1.2", "")
				a := tr.client("a")
				start := time.Now()
				for range 30 {
					if _, err := a.conn.Write(c.bytes); err != nil {
						t.Fatal(err)
					}
					before := time.Now()
					tr.step("b sends", "SEND\ndestination:/topic/other\nreceipt:r\n\nx^@")
					if tr.step("b gets receipt r", ""); time.Since(before) > 0 {
						t.Error("another client had to wait")
					}
				}
				if d := time.Since(start); d < c.from || d > c.to {
					t.Errorf("read in %v", d)
				}
			})
		})
	}
}
