package coap

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// While memory is short, publishers by datagrams are told to wait (RFC 7252,
// 5.10.5), those with a stream are read slowly, and what frees memory goes on.
// It shows fault 87.
func TestMemoryAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		var used atomic.Uint64
		s.broker.Probe(core.Probes{MemoryUsed: func(uint64) uint64 { return used.Load() }, MemoryLimit: 1000 << 20})
		c, w := s.client("a"), newWire(s.server)
		defer w.close()
		w.write(framed(csm(1 << 20)))
		put := framed(&outgoingPacket{code: codes.PUT, token: makeToken([]byte{1}), options: options([]string{"t", "b"}), payload: []byte("1")})
		ping := framed(&outgoingPacket{code: codes.Ping})
		w.write(put)
		c.ask(c.request(message.Confirmable, codes.POST, 1, []string{"q", "work"}, "1"))
		w.got(t)
		used.Store(700 << 20)
		time.Sleep(time.Second)

		for i, path := range [][]string{{"t", "a"}, {"q", "work"}, {"x", "amq.direct", "k"}, {"rpc", "p"}, {"ps"}} {
			got := c.ask(c.request(message.Confirmable, codes.POST, uint16(10+i), path, "1"))
			if len(got) != 1 || got[0].code != codes.ServiceUnavailable || got[0].options[0].ID != message.MaxAge {
				t.Errorf("POST to %v: %+v", path, got)
			}
		}
		got := c.ask(c.request(message.Confirmable, codes.POST, 20, []string{"q", "work", "take"}, ""))
		if len(got) != 1 || got[0].code != codes.Created {
			t.Errorf("taking from a queue: %+v", got)
		}

		w.write(put) // answered, and then not read for a second
		if got := w.got(t); len(got) != 1 || got[0].code != codes.Changed {
			t.Errorf("%+v", got)
		}
		go w.write(ping)
		time.Sleep(900 * time.Millisecond)
		if got := w.got(t); len(got) != 0 {
			t.Errorf("read at once: %+v", got)
		}
		time.Sleep(200 * time.Millisecond)
		if got := w.got(t); len(got) != 1 || got[0].code != codes.Pong {
			t.Errorf("after the pause: %+v", got)
		}

		// What makes something that is kept counts as a publish.
		for name, m := range map[string]*outgoingPacket{
			"POST /ps": {code: codes.POST, options: options([]string{"ps"}), payload: []byte("1")},
			"iPATCH":   {code: codes.IPATCH, options: options([]string{"ps", "x"}), payload: []byte("1")},
			"a block": {code: codes.PUT, options: options([]string{"t", "b"}, message.Option{ID: message.Block1, Value: []byte{0x08}}),
				payload: make([]byte, 16)},
			"POST /q":   {code: codes.POST, options: options([]string{"q", "work"}), payload: []byte("1")},
			"POST /x":   {code: codes.POST, options: options([]string{"x", "amq.direct", "k"}), payload: []byte("1")},
			"DELETE /t": {code: codes.DELETE, options: options([]string{"t", "b"})},
		} {
			time.Sleep(2 * time.Second)
			w.got(t) // the Pong
			w.write(framed(m))
			if got := w.got(t); len(got) != 1 || got[0].code == codes.ServiceUnavailable {
				t.Errorf("%s: %+v", name, got)
			}
			go w.write(ping)
			time.Sleep(900 * time.Millisecond)
			if got := w.got(t); len(got) != 0 {
				t.Errorf("%s: read at once: %+v", name, got)
			}
		}

		used.Store(0)
		time.Sleep(2 * time.Second)
		if got := c.ask(c.request(message.Confirmable, codes.POST, 30, []string{"t", "a"}, "1")); len(got) != 1 || got[0].code != codes.Changed {
			t.Errorf("after the alarm: %+v", got)
		}
	})
}
