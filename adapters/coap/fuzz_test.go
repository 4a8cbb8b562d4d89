package coap

import (
	"bytes"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

func seeds(f *testing.F) {
	for _, p := range []*outgoingPacket{
		{kind: message.Confirmable, code: codes.PUT, id: 1, token: makeToken([]byte{1}), options: options([]string{"t", "a", "b"}), payload: []byte("x")},
		{kind: message.NonConfirmable, code: codes.GET, id: 2, options: options([]string{"t", "a"}, message.Option{ID: message.Observe}, message.Option{ID: message.Block2, Value: []byte{6}})},
		{kind: message.Confirmable, code: codes.POST, id: 3, options: options([]string{"t", "a"}, message.Option{ID: message.Block1, Value: []byte{8}}, message.Option{ID: message.URIQuery, Value: []byte("retain=true")}), payload: make([]byte, 16)},
		{kind: message.Confirmable, code: codes.DELETE, id: 4, options: options([]string{"t", "a"})},
		{kind: message.Acknowledgement, id: 5}, {kind: message.Reset, id: 6},
	} {
		f.Add(p.append(nil))
	}
}

// What can be decoded is the same after it was written and decoded again.
func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, q packet
		if p.decode(b) != nil {
			return
		}
		out := outgoingPacket{kind: p.kind, code: p.code, id: p.id, token: p.token, options: p.options, payload: p.payload}
		again := out.append(nil)
		if err := q.decode(again); err != nil {
			t.Fatalf("%x written as %x: %v", b, again, err)
		}
		if p.kind != q.kind || p.code != q.code || p.id != q.id || p.token != q.token || !bytes.Equal(p.payload, q.payload) || len(p.options) != len(q.options) {
			t.Fatalf("%x written as %x", b, again)
		}
		for i := range p.options {
			if p.options[i].ID != q.options[i].ID || !bytes.Equal(p.options[i].Value, q.options[i].Value) {
				t.Fatalf("option %d of %x", i, b)
			}
		}
	})
}

// Options are read without a fault, and a copy reads the same.
func FuzzOptions(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p packet
		if p.decode(b) != nil {
			return
		}
		r := request{}
		r.reset()
		r.exchange, r.code, r.options, r.payload, r.body = &exchange{}, p.code, p.options, p.payload, p.body
		if r.read() != nil {
			return
		}
		c := r.detach()
		if c.observe != r.observe || c.format != r.format || c.accept != r.accept || c.block1 != r.block1 || c.block2 != r.block2 ||
			len(c.path) != len(r.path) || len(c.query) != len(r.query) || !bytes.Equal(c.payload, r.payload) {
			t.Fatalf("%+v is not %+v", c, r)
		}
		var cache topicCache
		one, err1 := cache.find(r.path)
		two, err2 := topicOf(r.path)
		if one != two || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q %v, %q %v", one, err1, two, err2)
		}
	})
}

// Whatever comes, the server lives, leaves nothing behind, and goes on
// answering.
func FuzzSession(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, DefaultConfig())
			defer s.end()
			c := s.client("a")
			for len(b) > 0 { // a length, and a datagram
				n := min(int(b[0])+1, len(b))
				c.mesh.carry(b[1:n], c.at, netip.MustParseAddrPort(serverAddr))
				b = b[n:]
			}
			c.send(appendEmpty(nil, message.Confirmable, 7))
			alive := false
			for _, p := range c.got() {
				alive = alive || p.kind == message.Reset && p.id == 7
			}
			if !alive {
				t.Error("no answer to a ping")
			}
		})
	})
}
