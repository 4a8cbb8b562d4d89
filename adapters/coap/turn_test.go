package coap

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core/auth"
)

// slow is a scene in which what asks for the queue "slow" waits until the channel
// is closed, as for a disk.
func slow(t *testing.T, cfg Config) (*scene, chan struct{}) {
	t.Helper()
	disk := make(chan struct{})
	return newSceneWith(t, cfg, func(_ auth.Principal, _ auth.Action, o auth.Object) error {
		if o.Kind == auth.Queue && o.Name == "slow" {
			<-disk
		}
		return nil
	}), disk
}

// [RFC 8323, 1] a stream whose requests wait for the disk is not read on when there
// are as many as may wait, or as many bytes; other clients are, and all are
// answered in the end.
func TestStreamIsHeldUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		body   int
		taken  int // before it is held up
	}{
		"by number": {func(c *Config) { c.MaxStreamRequests = 5 }, 10, 5},
		"by bytes":  {func(c *Config) { c.MaxStreamBytes = 3000 }, 1000, 3},
		"by one":    {func(c *Config) { c.MaxStreamBytes = 2000 }, 5000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				c.change(&cfg)
				s, disk := slow(t, cfg)
				defer s.end()
				w, other := newWire(s.server), newWire(s.server)
				defer w.close()
				defer other.close()
				w.write(framed(csm(1 << 20)))
				other.write(framed(csm(1 << 20)))
				const n = 20
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for i := range n {
						_, _ = w.Write(framed(&outgoingPacket{code: codes.POST, token: makeToken([]byte{byte(i)}),
							options: options([]string{"q", "slow", "take"}), payload: make([]byte, c.body)}))
					}
				}()
				synctest.Wait()
				if got := s.server.waiting.Load(); got != int64(c.taken) {
					t.Errorf("%d requests were taken, want %d", got, c.taken)
				}
				select {
				case <-sent:
					t.Error("all was read")
				default:
				}
				w.got(t)
				other.write(framed(&outgoingPacket{code: codes.PUT, options: options([]string{"t", "a"}), payload: []byte("1")}))
				if got := other.got(t); len(got) != 2 || got[1].code != codes.Created {
					t.Errorf("another client got %+v", got)
				}
				close(disk)
				<-sent
				synctest.Wait()
				if got := w.got(t); len(got) != n {
					t.Errorf("%d answers", len(got))
				}
				if n := s.server.Told()["held_up"]; n == 0 {
					t.Error("not counted")
				}
			})
		})
	}
}

// Calls hold nobody up: the answer may come by the same stream.
func TestCallsDoNotHoldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.MaxStreamRequests = 2
		s := newScene(t, cfg)
		defer s.end()
		w := newWire(s.server)
		defer w.close()
		w.write(framed(csm(1 << 20)))
		w.write(framed(&outgoingPacket{code: codes.GET, options: options([]string{"rpc", "p"}, message.Option{ID: message.Observe})}))
		w.got(t)
		for i := range 5 {
			w.write(framed(&outgoingPacket{code: codes.POST, token: makeToken([]byte{1}), options: options([]string{"rpc", "p"}), payload: fmt.Append(nil, i)}))
		}
		answered := 0
		for range 10 {
			for _, p := range w.got(t) {
				if len(p.token.bytes()) > 0 {
					answered++
					continue
				}
				reply := []string{"reply"}
				for _, o := range p.options {
					if o.ID == message.LocationPath && string(o.Value) != "reply" {
						reply = append(reply, string(o.Value))
					}
				}
				w.write(framed(&outgoingPacket{code: codes.POST, token: makeToken(nil), options: options(reply)}))
			}
		}
		if answered != 5 {
			t.Errorf("%d calls were answered", answered)
		}
	})
}
