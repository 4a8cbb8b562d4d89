package amqp

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/adapters/amqp/frame"
)

// [AMQP-4.2.7] Floods of heartbeats and of bodies in tiny parts are read at the
// rate that is allowed; others are served at once.
// It shows fault 67.
func TestFrameFlood(t *testing.T) {
	part := []byte{frame.BodyKind, 0, 1, 0, 0, 0, 1, 'x', 0xCE}
	for name, flood := range map[string][]byte{
		"heartbeats": bytes.Repeat(frame.AppendHeartbeat(nil), 500),
		"tiny parts": bytes.Repeat(part, 500),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTheatre(t, DefaultConfig())
				defer s.end()
				must := func(lines ...string) {
					t.Helper()
					for _, l := range lines {
						if err := s.line(l); err != nil {
							t.Fatalf("%s: %v", l, err)
						}
					}
				}
				must("a> connect", "b> connect")
				a := s.client("a")
				// A publish whose body of 1 MiB never comes to its end.
				must("a> hex 01 00 01 00 00 00 09 00 3c 00 28 00 00 00 00 00 ce", "a> hex 02 00 01 00 00 00 0e 00 3c 00 00 00 00 00 00 00 10 00 00 00 00 ce")
				start := time.Now()
				for range 60 {
					if _, err := a.conn.Write(flood); err != nil {
						t.Fatal(err)
					}
					before := time.Now()
					if must("b> queue.declare queue=q", "b< queue.declare-ok queue=q ..."); time.Since(before) > 0 {
						t.Error("another client had to wait")
					}
				}
				if d := time.Since(start); d < 25*time.Second || d > 32*time.Second {
					t.Errorf("30,000 frames were read in %v, at 1000 a second", d)
				}
			})
		})
	}
}
