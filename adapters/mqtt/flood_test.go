package mqtt

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// [MQTT-3.12.4-1] A flood of PINGREQ is read at the rate that is allowed, and all
// are answered; others are served at once.
// It shows fault 67.
func TestPingFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, testConfig())
		defer s.end()
		s.must("a> connect id=a keepalive=5", "a< connack ...", "b> connect id=b", "b< connack ...")
		a, pings := s.client("a"), bytes.Repeat([]byte{0xC0, 0}, 1000)
		start := time.Now()
		for range 30 {
			if _, err := a.conn.Write(pings); err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			if s.must("b> pingreq", "b< pingresp"); time.Since(before) > 0 {
				t.Error("another client had to wait")
			}
		}
		if d := time.Since(start); d < 25*time.Second || d > 32*time.Second {
			t.Errorf("30,000 pings were read in %v, at 1000 a second", d)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		a.mu.Lock()
		n := len(a.got) / 2
		a.got = nil
		a.mu.Unlock()
		if n != 30_000 {
			t.Errorf("%d answers", n)
		}
		// One a second never waits.
		for range 3000 {
			s.must("a> pingreq", "a< pingresp", "wait 1s", "b> pingreq", "b< pingresp")
		}
	})
}
