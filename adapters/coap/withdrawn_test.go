package coap

import (
	"testing"
	"testing/synctest"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// [RFC 7641, 4.2] an observation whose right is withdrawn ends with 4.03 and
// without Observe, over datagrams and streams, of a topic and of a filter.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		c, w := s.client("a"), newWire(s.server)
		defer w.close()
		observe := message.Option{ID: message.Observe}
		c.ask(c.request(message.Confirmable, codes.GET, 1, []string{"t", "a"}, "", observe))
		c.ask(c.request(message.Confirmable, codes.GET, 2, []string{"t"}, "", observe, message.Option{ID: message.URIQuery, Value: []byte("filter=b/#")}))
		w.write(framed(csm(2000)))
		w.write(framed(&outgoingPacket{code: codes.GET, token: makeToken([]byte{1}), options: options([]string{"t", "a"}, observe)}))
		w.got(t)
		var bindings []*core.BindSpec
		for key := range s.server.queued {
			bindings = append(bindings, &core.BindSpec{Queue: key})
		}
		if len(bindings) != 3 {
			t.Fatalf("%d watches", len(bindings))
		}
		for _, b := range bindings {
			s.server.withdrawn(core.Withdrawal{Binding: b})
			synctest.Wait()
		}
		last := func(all []packet) {
			t.Helper()
			if len(all) != 1 || all[0].code != codes.Forbidden || hasOption(all[0].options, message.Observe) {
				t.Errorf("%+v", all)
			}
		}
		last(c.got())
		c.send(appendEmpty(nil, message.Acknowledgement, c.last.id))
		last(c.got())
		c.send(appendEmpty(nil, message.Acknowledgement, c.last.id))
		last(w.got(t))
		if n := s.server.observers.Load(); n != 0 || len(s.server.queued) != 0 {
			t.Errorf("%d observers, %d watches are left", n, len(s.server.queued))
		}
	})
}

// When the clients that proved nothing have to go, those that observe are told to
// log in, and the next request begins a session again.
func TestAnonymousEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		c := s.client("a")
		c.ask(c.request(message.Confirmable, codes.GET, 1, []string{"t", "a"}, "", message.Option{ID: message.Observe}))
		session := s.server.anonymous.session
		s.server.anonymous.kicked(core.EndRefused)
		synctest.Wait()
		if got := c.got(); len(got) != 1 || got[0].code != codes.Unauthorized {
			t.Errorf("%+v", got)
		}
		c.send(appendEmpty(nil, message.Acknowledgement, c.last.id))
		session.Close(core.CloseNormal)
		if got := c.ask(c.request(message.Confirmable, codes.POST, 2, []string{"t", "a"}, "1")); len(got) != 1 || got[0].code != codes.Changed {
			t.Errorf("%+v", got)
		}
	})
}
