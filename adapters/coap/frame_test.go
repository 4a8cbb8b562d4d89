package coap

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// [RFC 8323, 3.2] the forms of the length, at their ends.
func TestFrameLengths(t *testing.T) {
	for _, n := range []int{0, 1, 11, 12, 13, 267, 268, 269, 65803, 65804, 65805, 1 << 20} {
		m := outgoingPacket{code: codes.Content, token: makeToken([]byte{1, 2}), payload: bytes.Repeat([]byte("x"), n)}
		b := framed(&m)
		h, ok, err := readFrameHeader(b)
		if err != nil || !ok || h.size != uint64(len(b)) {
			t.Fatalf("%d: %+v %v %v, frame of %d", n, h, ok, err, len(b))
		}
		var p packet
		if err := p.decodeFrame(b, h); err != nil || len(p.payload) != n || p.code != m.code || p.token != m.token {
			t.Errorf("%d: %v, %+v", n, err, p.token)
		}
		for i := range min(len(b), 6) {
			if _, ok, err := readFrameHeader(b[:i]); err != nil || ok && i < 5 && n >= 65804 {
				t.Errorf("%d: %d bytes: %v, %v", n, i, ok, err)
			}
		}
	}
}

// [RFC 8323, 3.2] what can be read is the same after it was written and read
// again, and no header claims less than itself.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0x01, 0x43, 0x7f})
	f.Add([]byte{0x41, 0x01, 0xaa, 0xb1, 0x74, 0x01, 0x61})
	f.Add(framed(csm(70_000)))
	f.Add([]byte{0xf8, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok, err := readFrameHeader(b)
		if err != nil || !ok || h.size > uint64(len(b)) {
			return
		}
		if h.size < uint64(h.bodyAt) {
			t.Fatalf("%+v", h)
		}
		var p, q packet
		if p.decodeFrame(b[:h.size], h) != nil {
			return
		}
		again := framed(&outgoingPacket{code: p.code, token: p.token, options: p.options, payload: p.payload})
		h, ok, err = readFrameHeader(again)
		if err != nil || !ok || h.size != uint64(len(again)) {
			t.Fatalf("%x written as %x: %v", b, again, err)
		}
		if err := q.decodeFrame(again, h); err != nil || p.code != q.code || p.token != q.token || !bytes.Equal(p.payload, q.payload) {
			t.Fatalf("%x written as %x: %v", b, again, err)
		}
	})
}

// Whatever comes over a stream, however it is cut, the broker answers or ends
// it, leaves nothing behind, and serves the next one.
func FuzzStream(f *testing.F) {
	hello := framed(csm(2000))
	for _, b := range [][]byte{{0x41, 0x01, 0xaa, 0xb1, 0x74, 0x01, 0x61}, {0x00, 0xe2}, {0x10, 0xe2, 0x20}, {0x00, 0xe4}, {0x09}, {0xf0, 0xff, 0xff, 0xff, 0xff}} {
		f.Add(append(bytes.Clone(hello), b...), byte(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut byte) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, DefaultConfig())
			defer s.end()
			w := newWire(s.server)
			for len(b) > 0 {
				n := min(int(cut)+1, len(b))
				w.write(b[:n])
				b = b[n:]
			}
			w.close()
			next := newWire(s.server)
			defer next.close()
			next.write(framed(csm(2000)))
			next.write(framed(&outgoingPacket{code: codes.Ping, token: makeToken([]byte{7})}))
			if got := next.got(t); len(got) != 2 || got[1].code != codes.Pong {
				t.Errorf("%+v", got)
			}
		})
	})
}

// A message that is claimed to be large takes no memory until it is there, and
// comes through then.
func TestLargeFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		w := newWire(s.server)
		defer w.close()
		w.write(framed(csm(32 << 20)))
		body := strings.Repeat("x", 4<<20)
		b := framed(&outgoingPacket{code: codes.PUT, options: options([]string{"t", "a"}), payload: []byte(body)})
		before := heap()
		w.write(b[:20])
		if grew := int64(heap()) - int64(before); grew > 1<<20 {
			t.Errorf("%d bytes for the beginning of a message", grew)
		}
		w.write(b[20:])
		if got := w.got(t); len(got) != 2 || got[1].code != codes.Created {
			t.Fatalf("%+v", got)
		}
		if m, err := s.session().Retained(topicNamed(t, "a")); err != nil || len(m.Payload) != len(body) {
			t.Errorf("%v", err)
		}
	})
}

// session is one of the core's own.
func (s *scene) session() *core.Session {
	s.t.Helper()
	session, _, err := s.broker.Connect(s.t.Context(), core.Hello{Protocol: "test", ClientID: "watcher"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.sessions = append(s.sessions, session)
	return session
}

// [RFC 7252, 5.9.2.2] each stream is a client of its own; those that have to
// log in and cannot are told so, and the stream goes on.
func TestStreamIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		sessions := func() int { return s.broker.Stats().Protocols[protocol].Connections }
		a, b := newWire(s.server), newWire(s.server)
		defer b.close()
		for _, w := range []*wire{a, b} {
			w.write(framed(csm(2000)))
			w.write(framed(&outgoingPacket{code: codes.GET, options: options([]string{"t", "a"})}))
		}
		if n := sessions(); n != 2 {
			t.Errorf("%d sessions of two clients", n)
		}
		a.close()
		synctest.Wait()
		if n := sessions(); n != 1 {
			t.Errorf("%d sessions after one left", n)
		}
	})
}
