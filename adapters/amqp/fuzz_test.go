package amqp

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// FuzzSession feeds a logged-in connection any bytes in any pieces: it may end,
// but nothing panics, hangs or stays behind, and what is sent are frames.
func FuzzSession(f *testing.F) {
	for _, line := range []string{
		"queue.declare queue=q", "queue.declare queue=q exclusive arguments={x-max-length:3}", "basic.publish routing-key=q size=9000 mode=2 headers={a:[1 {b:c}]}",
		"basic.consume queue=q consumer-tag=t", "basic.get queue=q", "basic.ack delivery-tag=1 multiple", "basic.nack delivery-tag=1 requeue",
		"tx.select", "tx.commit", "tx.rollback", "confirm.select", "channel.close", "channel.open ch=2", "connection.close",
		"exchange.declare exchange=x type=topic", "exchange.bind destination=x source=amq.topic routing-key=#", "queue.bind queue=q exchange=x routing-key=a.*",
		"basic.consume queue=amq.rabbitmq.reply-to no-ack", "basic.publish routing-key=q body=1 reply-to=amq.rabbitmq.reply-to", "basic.qos prefetch-count=1 global", "basic.recover requeue",
	} {
		m, err := parseMessage(line)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.encode(4096), uint8(7))
	}
	var all []byte
	for _, line := range []string{"queue.declare queue=q", "tx.select", "basic.publish routing-key=q size=10", "tx.commit", "basic.consume queue=q",
		"basic.ack delivery-tag=1", "tx.rollback", "queue.delete queue=q", "tx.commit"} {
		m, _ := parseMessage(line)
		all = append(all, m.encode(4096)...)
	}
	f.Add(all, uint8(100))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		synctest.Test(t, func(t *testing.T) {
			s := newTheatre(t, DefaultConfig())
			defer s.end()
			if err := s.line("a> connect"); err != nil {
				t.Fatal(err)
			}
			c := s.clients["a"]
			for len(b) > 0 {
				n := min(len(b), int(step)+1)
				c.write(b[:n], false)
				b = b[n:]
			}
			for {
				line, err := c.next()
				if err != nil {
					t.Fatal(err)
				}
				if line == "" {
					return
				}
			}
		})
	})
}

// FuzzHello feeds any bytes before the log-in.
func FuzzHello(f *testing.F) {
	f.Add([]byte(frame.ProtocolHeader))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	m, _ := parseMessage(`connection.start-ok mechanism=AMQPLAIN response="\x05LOGINS\x00\x00\x00\x01a"`)
	f.Add(append([]byte(frame.ProtocolHeader), m.encode(4096)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := newTheatre(t, DefaultConfig())
			defer s.end()
			s.client("a").write(b, false)
		})
	})
}

// FuzzHeld compares what is out for acknowledgement with a plain list.
func FuzzHeld(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0x12, 0x80, 0, 0, 0x91})
	f.Fuzz(func(t *testing.T, ops []byte) {
		var h held
		s := &consumer{}
		var plain []uint64
		taken := []heldMessage{}
		for _, op := range ops {
			switch {
			case op < 0x40:
				h.last++
				h.add(s, core.Delivery{Message: &core.Message{}, Seq: h.last})
				plain = append(plain, h.last)
			case op == 0xff:
				h.restore(taken)
				for _, m := range taken {
					plain = append(plain, m.tag)
				}
				slices.Sort(plain)
				taken = nil
			default:
				multiple := op&0x80 != 0
				tag := h.last - min(h.last, uint64(op&0x3f))
				want, ok := expected(plain, tag, multiple)
				got, had := h.take(nil, tag, multiple)
				if had != ok || len(got) != len(want) {
					t.Fatalf("tag %d multiple %v: %v %v, want %v %v", tag, multiple, got, had, want, ok)
				}
				for i, m := range got {
					if m.tag != want[i] || m.seq != want[i] {
						t.Fatalf("tag %d multiple %v: %v, want %v", tag, multiple, got, want)
					}
				}
				plain = slices.DeleteFunc(plain, func(n uint64) bool { return slices.Contains(want, n) })
				taken = append(taken, got...)
			}
			if h.live != len(plain) || len(h.list) > 2*h.live+65 {
				t.Fatalf("%d live in %d, want %d", h.live, len(h.list), len(plain))
			}
		}
	})
}

func expected(plain []uint64, tag uint64, multiple bool) ([]uint64, bool) {
	if multiple && tag == 0 {
		return slices.Clone(plain), true
	}
	i := slices.Index(plain, tag)
	switch {
	case i < 0:
		return nil, false
	case multiple:
		return slices.Clone(plain[:i+1]), true
	}
	return []uint64{tag}, true
}

// Keys and reply addresses come back as they were.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "q", "a.b", "a.%2E.b", "amq.rabbitmq.reply-to.x", "/exchange/a%2Fb/c.d", "/exchange//x", "amqp-reply-x"} {
		f.Add("x", seed)
		f.Add("", seed)
	}
	f.Fuzz(func(t *testing.T, exchange, key string) {
		a, err := parseAddress(exchange, key)
		if err != nil || strings.HasPrefix(key, exchangePrefix) {
			return
		}
		want := key
		if exchange == "" {
			want = key
		}
		if got := printKey(a); got != want || a.Exchange != exchange {
			t.Errorf("%q %q became %q %q", exchange, key, a.Exchange, got)
		}
		text, ok := printReply(a)
		if !ok {
			return
		}
		back, err := parseQueueKey(text)
		if err != nil || back != a {
			t.Errorf("%+v as a reply-to is %q, which is %+v, %v", a, text, back, err)
		}
	})
}
