package coap

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// [RFC 8323, 3.4 and 5.4] Floods of empty messages and Pings on a stream are read
// at the rate that is allowed.
// It shows fault 67.
func TestSignalFlood(t *testing.T) {
	for name, one := range map[string]*outgoingPacket{"empty": {code: codes.Empty}, "ping": {code: codes.Ping}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, DefaultConfig())
				defer s.end()
				a, b := newWire(s.server), newWire(s.server)
				defer a.close()
				defer b.close()
				a.write(framed(csm(1 << 20)))
				b.write(framed(csm(1 << 20)))
				b.got(t)
				flood := bytes.Repeat(framed(one), 1000)
				start := time.Now()
				for range 30 {
					if _, err := a.Write(flood); err != nil {
						t.Fatal(err)
					}
					before := time.Now()
					b.write(framed(&outgoingPacket{code: codes.Ping}))
					if got := b.got(t); len(got) != 1 || got[0].code != codes.Pong || time.Since(before) > 0 {
						t.Errorf("another client got %+v after %v", got, time.Since(before))
					}
				}
				if d := time.Since(start); d < 25*time.Second || d > 32*time.Second {
					t.Errorf("30,000 messages were read in %v, at 1000 a second", d)
				}
			})
		})
	}
}
