package coap

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

func hurriedConfig() core.Config {
	cfg := core.DefaultConfig()
	cfg.Clients.Messages, cfg.Clients.Bytes, cfg.Clients.Burst = 1, 100, 2*time.Second
	return cfg
}

// [RFC 8516, 3] what a client publishes beyond its rate is answered 4.29 with the
// time to wait, another client is not concerned, and who asks only never is. It
// shows fault 85.
func TestRateOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOf(t, DefaultConfig(), hurriedConfig(), nil)
		defer s.end()
		a, b, id := s.client("a"), s.client("b"), uint16(0)
		ask := func(c *client, kind message.Type, code codes.Code, path []string, payload string) (got packet) {
			t.Helper()
			id++
			if all := c.ask(c.request(kind, code, id, path, payload)); len(all) == 1 {
				got = all[0]
			}
			return got
		}
		refused := func(got packet, wait byte) {
			t.Helper()
			if got.code != codes.TooManyRequests || len(got.options) != 1 || got.options[0].ID != message.MaxAge || got.options[0].Value[0] != wait {
				t.Errorf("%+v", got)
			}
		}
		for range 2 {
			if got := ask(a, message.Confirmable, codes.PUT, []string{"t", "x"}, "1"); got.code>>5 != 2 {
				t.Fatalf("%+v", got)
			}
		}
		for _, path := range [][]string{{"t", "x"}, {"q", "work"}, {"x", "amq.direct", "k"}, {"rpc", "p"}, {"ps"}} {
			refused(ask(a, message.Confirmable, codes.POST, path, "1"), 1)
		}
		if got := ask(a, message.NonConfirmable, codes.PUT, []string{"t", "x"}, "2"); got.code != 0 {
			t.Errorf("what is not confirmable is answered %+v", got)
		}
		if got := ask(a, message.Confirmable, codes.GET, []string{"t", "x"}, ""); string(got.payload) != "1" {
			t.Errorf("%+v", got)
		}
		if got := ask(b, message.Confirmable, codes.PUT, []string{"t", "x"}, "3"); got.code != codes.Changed {
			t.Errorf("another client: %+v", got)
		}
		if n := s.server.Told()["hurried"]; n != 6 {
			t.Errorf("%d counted", n)
		}

		time.Sleep(time.Second)
		// Larger than what ever is there: it is owed.
		if got := ask(a, message.Confirmable, codes.PUT, []string{"t", "x"}, string(make([]byte, 300))); got.code != codes.Changed {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Second)
		if got := ask(a, message.Confirmable, codes.PUT, []string{"t", "x"}, string(make([]byte, 100))); got.code != codes.TooManyRequests {
			t.Errorf("%+v", got)
		}
		if n := s.broker.Limited(); n["messages"] != 6 || n["bytes"] != 1 {
			t.Errorf("counted %v", n)
		}

		time.Sleep(time.Minute)
		if n := s.server.Kept()["rates"]; n != 0 {
			t.Errorf("%d rates known", n)
		}
	})
}

// The table of rates is bounded: clients beyond it have one together.
func TestRatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOf(t, DefaultConfig(), hurriedConfig(), nil)
		defer s.end()
		r := newRates(s.broker, 1)
		at := func(port uint16) route { return route{addr: netip.AddrPortFrom(netip.IPv6Loopback(), port)} }
		admit := func(port uint16, want bool) {
			t.Helper()
			if wait := r.admit(at(port), 1, 1); (wait == 0) != want {
				t.Errorf("client %d waits %v", port, wait)
			}
		}
		admit(1, true)
		admit(2, true)
		admit(3, true)
		admit(4, false)
		admit(1, true)
		if r.size() != 1 {
			t.Errorf("%d known", r.size())
		}
	})
}

// Without limits nothing is kept of anybody.
func TestNoRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		for i := range uint16(100) {
			c := s.client("a")
			c.ask(c.request(message.NonConfirmable, codes.PUT, i, []string{"t", "x"}, "1"))
		}
		if told, kept := s.server.Told()["hurried"], s.server.Kept()["rates"]; told+kept != 0 {
			t.Errorf("%d refused, %d kept", told, kept)
		}
	})
}

// [RFC 8516, 3] an association over DTLS has the rate of its session.
func TestRateOverDTLS(t *testing.T) {
	cfg := core.DefaultConfig()
	cfg.Clients.Bytes = 1
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSecuredOf(t, DefaultConfig(), cfg, l, nil)
	put := func(c net.Conn, id uint16) packet {
		return exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.PUT, id: id, options: options([]string{"t", "a"}), payload: make([]byte, 900)})
	}
	ann := mustDial(t, s.at, asAnn()...)
	if p := put(ann, 1); p.code != codes.Created {
		t.Fatalf("%+v", p)
	}
	if p := put(ann, 2); p.code != codes.TooManyRequests || len(p.options) != 1 || p.options[0].ID != message.MaxAge || len(p.options[0].Value) != 2 {
		t.Errorf("%+v", p)
	}
	bob := mustDial(t, s.at, as("bob", strings.Repeat("\x01\x23\x45\x67\x89\xab\xcd\xef", 2))...)
	if p := put(bob, 1); p.code != codes.Changed {
		t.Errorf("another client: %+v", p)
	}
	if n := s.Kept()["rates"]; n != 0 {
		t.Errorf("%d rates of addresses", n)
	}
}
