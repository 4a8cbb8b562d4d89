package coap

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/core/local"
)

// sink is a link to clients that are not there.
type sink struct {
	server *Server
	sent   atomic.Int64
}

func (k *sink) send(*outgoingPacket, netip.AddrPort) { k.sent.Add(1) }
func (k *sink) write([]byte, netip.AddrPort)         { k.sent.Add(1) }
func (k *sink) identity() (*core.Session, error)     { return k.server.anonymous.get() }
func (k *sink) proven(netip.AddrPort) bool           { return true }

func newSink(t testing.TB, cfg Config) (*sink, *core.Broker) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := core.NewBroker(core.DefaultConfig(), "/", local.New(log), nil, log)
	s := New(cfg, core.NewRealms(b), log)
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		b.Close()
	})
	return &sink{server: s}, b
}

// until polls with a deadline.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// An observer costs less than 2 KiB, and one publish reaches all.
func TestTenThousandObservers(t *testing.T) {
	const n = 10_000
	k, b := newSink(t, DefaultConfig())
	in := receiver{server: k.server}
	before := heap()
	for i := range n {
		p := &outgoingPacket{kind: message.Confirmable, code: codes.GET, id: 1, token: makeToken([]byte{1, 2, 3, 4}),
			options: options([]string{"t", "plant", "temp"}, message.Option{ID: message.Observe})}
		in.receive(p.append(nil), route{k, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), uint16(1024+i))})
	}
	until(t, "all registered", func() bool { return k.sent.Load() == n && k.server.waiting.Load() == 0 })
	each := int64(heap()-before) / n
	t.Logf("%d bytes an observer", each)
	if each > 2<<10 {
		t.Errorf("%d bytes an observer, at most 2 KiB", each)
	}
	k.sent.Store(0)
	b.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: topicNamed(t, "plant/temp"), Payload: []byte("21.5")})
	until(t, "all notified", func() bool { return k.sent.Load() == n })
}

// A message id costs at most 64 bytes while it is remembered: 10,000 devices at
// one message a second are 2.5 million.
func TestMessageIDsAreSmall(t *testing.T) {
	count := 250_000
	if os.Getenv("ENTREPOT_SOAK") != "" {
		count *= 10
	}
	cfg := DefaultConfig()
	before := heap()
	d := newIDs(cfg.exchangeLifetime(), cfg.MaxMessageIDs)
	now := time.Now()
	step := cfg.exchangeLifetime() / time.Duration(count)
	most := uint64(0)
	for i := range 2 * count { // so that the oldest are forgotten meanwhile
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8 & 31), byte(i)}), 5683)
		key := d.key(1, at, uint16(i/8192))
		if _, _, seen := d.begin(key, now); seen {
			t.Fatalf("id %d is known", i)
		}
		d.end(key, bareAnswer|answer(codes.Changed), nil)
		if now = now.Add(step); i == count || i == 2*count-1 {
			most = max(most, heap()-before)
		}
	}
	each := float64(most) / float64(count)
	t.Logf("%.1f bytes a message id within its lifetime, %d known", each, d.count)
	if each > 64 {
		t.Errorf("%.1f bytes a message id, at most 64", each)
	}
}

// The metrics tell what is remembered: an id for a PUT, none for a GET, which may
// be carried out again; an observer and its peer.
func TestKept(t *testing.T) {
	k, _ := newSink(t, DefaultConfig())
	in := receiver{server: k.server}
	at := route{k, netip.MustParseAddrPort("192.0.2.1:1024")}
	send := func(code codes.Code, id uint16, more ...message.Option) {
		p := &outgoingPacket{kind: message.Confirmable, code: code, id: id, options: options([]string{"t", "a"}, more...), payload: []byte("1")}
		in.receive(p.append(nil), at)
	}
	send(codes.PUT, 1)
	send(codes.PUT, 1)
	send(codes.PUT, 2)
	send(codes.GET, 3, message.Option{ID: message.Observe})
	until(t, "the observer", func() bool { return k.server.waiting.Load() == 0 && k.server.Kept()["observers"] == 1 })
	if got := k.server.Kept(); got["message_ids"] != 2 || got["peers"] != 1 {
		t.Errorf("%v", got)
	}
}

// Too many ids: the oldest are forgotten, and counted.
// It shows fault 26.
func TestMessageIDsAreBounded(t *testing.T) {
	d := newIDs(100*time.Second, 1000)
	now := time.Now()
	for i := range uint64(10_000) {
		d.begin(i, now)
		now = now.Add(50 * time.Millisecond)
		if d.count > 1000 {
			t.Fatalf("%d ids are kept", d.count)
		}
	}
	if d.early == 0 {
		t.Error("nothing was counted as forgotten early")
	}
}

// Answers that are kept are bounded, too; beyond, a repetition is not answered
// but is not carried out either.
// It shows fault 26.
func TestAnswersAreBounded(t *testing.T) {
	d := newIDs(time.Minute, 1000)
	now := time.Now()
	for i := range uint64(70) {
		d.begin(i, now)
		d.end(i, bodyAnswer, make([]byte, 1<<20))
	}
	if a, _, seen := d.begin(69, now); !seen || a != ignoredAnswer || d.bytes > maxAnswers {
		t.Errorf("%x %v, %d bytes", a, seen, d.bytes)
	}
	d.sweep(now.Add(time.Hour))
	if d.count != 0 || d.bytes != 0 {
		t.Errorf("left: %d ids, %d bytes", d.count, d.bytes)
	}
}

// What is kept of answers for their later blocks is bounded in bytes, too.
// It shows fault 26.
func TestPagesAreBounded(t *testing.T) {
	p := &pages{open: map[transfer]*page{}, most: 1000, room: maxListBytes}
	k := &sink{}
	at := func(i int) transfer { return transfer{route{k, netip.AddrPort{}}, uint64(i)} }
	const size = 1 << 20
	for i := range 100 {
		p.keep(at(i), response{payload: make([]byte, size)}, time.Minute)
		p.keep(at(0), response{payload: make([]byte, size)}, time.Minute) // in its own place
	}
	if len(p.open) != maxListBytes/size || p.bytes != maxListBytes {
		t.Errorf("%d answers of %d bytes", len(p.open), p.bytes)
	}
	if _, ok := p.get(at(0)); !ok {
		t.Error("the first is gone")
	}
	if p.drop(at(0)); p.bytes != maxListBytes-size {
		t.Errorf("%d bytes when one was dropped", p.bytes)
	}
	if p.leave(at(0).to); len(p.open) != 0 || p.bytes != 0 {
		t.Errorf("left: %d, %d bytes", len(p.open), p.bytes)
	}
}

// Many requests for long lists of links are answered one after the other: not all
// of the lists are in memory at once, and other requests go between.
func TestLinksOneListAtATime(t *testing.T) {
	k, _ := newSink(t, DefaultConfig())
	s := k.server
	s.documents.Lock()
	in := receiver{server: s}
	ask := func(id uint16, path ...string) {
		m := outgoingPacket{kind: message.Confirmable, code: codes.GET, id: id, options: options(path)}
		in.receive(m.append(nil), route{k, netip.MustParseAddrPort("127.0.0.1:40000")})
	}
	for i := range uint16(20) {
		ask(i, ".well-known", "core")
		ask(i+100, "ps")
	}
	ask(50, "t", "x")
	if n, waiting := k.sent.Load(), s.waiting.Load(); n != 1 || waiting != 40 {
		t.Errorf("%d answers, %d requests wait", n, waiting)
	}
	s.documents.Unlock()
	until(t, "all are answered", func() bool { return s.waiting.Load() == 0 })
	if n := k.sent.Load(); n < 41 {
		t.Errorf("%d answers", n)
	}
}

// The texts of a topic's configuration are short: they are kept, and listed.
// It shows fault 26.
func TestPropertyTextsAreBounded(t *testing.T) {
	for _, key := range []int64{keyName, keyData, keyKind, keyTopicType} {
		for _, c := range []struct {
			size int
			good bool
		}{{maxPropertyText, true}, {maxPropertyText + 1, false}, {1 << 20, false}} {
			b, err := cbor.Marshal(strings.Repeat("x", c.size))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decodeProperty(key, b); (err == nil) != c.good {
				t.Errorf("property %d of %d bytes: %v", key, c.size, err)
			}
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	k, _ := newSink(b, DefaultConfig())
	in := receiver{server: k.server}
	p := outgoingPacket{kind: message.Confirmable, code: codes.PUT, token: makeToken([]byte{1, 2, 3, 4}),
		options: options([]string{"t", "plant", "temp"}), payload: []byte("21.5")}
	from := route{k, netip.MustParseAddrPort("127.0.0.1:40000")}
	var buf []byte
	b.ReportAllocs()
	for i := range b.N {
		p.id = uint16(i)
		if p.id == 0 {
			from.addr = netip.AddrPortFrom(from.addr.Addr(), from.addr.Port()+1)
		}
		buf = p.append(buf[:0])
		in.receive(buf, from)
	}
}

func ExampleConfig_Validate() {
	c := DefaultConfig()
	c.MaxBlock = 100
	fmt.Println(c.Validate())
	// Output: coap: max_block 100: a power of two
}
