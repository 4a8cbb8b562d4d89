package coap

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/local"
)

// secured is a server with DTLS on the loopback, keys of two clients, and one place
// at its door for handshakes.
type secured struct {
	*Server
	door   *adapters.Door
	broker *core.Broker
	at     *net.UDPAddr
}

func newSecured(t testing.TB, cfg Config) *secured {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newSecuredOn(t, cfg, l, nil)
}

func newSecuredOn(t testing.TB, cfg Config, l net.PacketConn, m *adapters.TLSMaterial) *secured {
	t.Helper()
	return newSecuredOf(t, cfg, core.DefaultConfig(), l, m)
}

func newSecuredOf(t testing.TB, cfg Config, of core.Config, l net.PacketConn, m *adapters.TLSMaterial) *secured {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := core.NewBroker(of, "/", local.New(log), nil, log)
	cfg.PSKFile = filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(cfg.PSKFile, []byte("ann:00112233445566778899aabbccddeeff\nbob:0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	places := adapters.DefaultDoorConfig()
	places.Handshakes = 1
	s := &secured{Server: New(cfg, core.NewRealms(b), log), door: adapters.NewDoor(places), broker: b}
	s.Behind(s.door)
	apply, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	apply()
	s.at = l.LocalAddr().(*net.UDPAddr)
	if err := s.ServeDTLS(l, adapters.Address{Name: "dtls"}, m); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if k := s.secure[0]; len(k.byCID)+len(k.byAddr)+len(k.opening) > 0 {
			t.Errorf("left behind: %d, %d, %d", len(k.byCID), len(k.byAddr), len(k.opening))
		}
		if c := s.crowd; c.size()+len(c.hosts)+len(c.users)+len(c.ranks)+s.streams.Open() > 0 {
			t.Errorf("left behind: %d, %d, %d, %d, %d", c.size(), len(c.hosts), len(c.users), len(c.ranks), s.streams.Open())
		}
		if s.door.Open()+s.door.Waiting() > 0 {
			t.Errorf("left at the door: %d, %d", s.door.Open(), s.door.Waiting())
		}
		b.Close()
	})
	return s
}

// asAnn are a client's options with the key of ann.
func asAnn(more ...dtls.ClientOption) []dtls.ClientOption {
	return as("ann", "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", more...)
}

func as(identity, key string, more ...dtls.ClientOption) []dtls.ClientOption {
	return append([]dtls.ClientOption{dtls.WithPSK(func([]byte) ([]byte, error) { return []byte(key), nil }),
		dtls.WithPSKIdentityHint([]byte(identity)), dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_CCM_8)}, more...)
}

// dial makes an association, through at.
func dial(t testing.TB, at *net.UDPAddr, options ...dtls.ClientOption) (*dtls.Conn, error) {
	t.Helper()
	c, err := dtls.DialWithOptions("udp", at, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c, c.HandshakeContext(ctx)
}

func mustDial(t testing.TB, at *net.UDPAddr, options ...dtls.ClientOption) *dtls.Conn {
	t.Helper()
	c, err := dial(t, at, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// [RFC 7252, 9.1.3.1] [RFC 6347, 4.2.1] a client with a key, through the cookie
// exchange, with each of the suites.
func TestDTLSWithKeys(t *testing.T) {
	s := newSecured(t, DefaultConfig())
	for _, suite := range suites(true, false) {
		t.Run(suite.String(), func(t *testing.T) {
			c := mustDial(t, s.at, asAnn(dtls.WithCipherSuites(suite))...)
			path := []string{"t", suite.String()}
			if p := exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.PUT, id: 1, options: options(path), payload: []byte("21.5")}); p.code != codes.Created {
				t.Fatalf("%+v", p)
			}
			if p := exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.GET, id: 2, options: options(path)}); string(p.payload) != "21.5" {
				t.Fatalf("%+v", p)
			}
		})
	}
	if n := s.Told()["malformed"]; n != 0 {
		t.Errorf("%d malformed", n)
	}
}

// [RFC 4279, 2] who has the wrong key, or an identity that is not known, gets
// nowhere, and neither can be told from the other.
// It shows fault 37.
func TestDTLSWrongKey(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Limits.LoginTimeout = time.Second
	s := newSecured(t, cfg)
	for _, c := range [][]dtls.ClientOption{as("ann", "00112233445566"), as("nobody", "0123456789abcdef")} {
		client, err := dtls.DialWithOptions("udp", s.at, c...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if err := client.HandshakeContext(ctx); err == nil {
			t.Error("a client got in")
		}
		cancel()
		client.Close()
	}
	until(t, "all are forgotten", func() bool { return s.secure[0].count() == 0 })
}

// [RFC 6347, 4.2.1] a flood of ClientHellos from ever new addresses takes no
// memory and no goroutine, and is answered by less than it sent. Those with
// cookies of others are no better. It shows fault 32.
func TestDTLSHelloFlood(t *testing.T) {
	var answered, asked int
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSecuredOn(t, DefaultConfig(), counting{l, &answered}, nil)
	k := s.secure[0]
	hello := capturedHello(t)
	first, err := readHello(hello)
	if err != nil {
		t.Fatal(err)
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	const n = 50_000
	for i := range n {
		_, _ = rand.Read(first.random)
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), uint16(1024+i%50_000))
		asked += len(hello)
		k.receive(hello, from)
	}
	if got := runtime.NumGoroutine(); got > goroutines+5 {
		t.Errorf("%d goroutines, %d before", got, goroutines)
	}
	if grew := int64(heap()) - int64(before); grew > 1<<20 {
		t.Errorf("%d bytes for %d strangers", grew, n)
	}
	if k.count() != 0 || answered == 0 || answered > asked {
		t.Errorf("%d associations, %d bytes for %d", k.count(), answered, asked)
	}
	// The cookie of one address is of no use at another, or for another hello.
	at, other := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.1:2")
	now := time.Now()
	with := *first
	with.message, with.sequence = 1, 1
	with.cookie = k.cookies.make(first, at, now)
	if !k.cookies.valid(&with, at, now) || !k.cookies.valid(&with, at, now.Add(cookieLife)) || k.cookies.valid(&with, other, now) ||
		k.cookies.valid(&with, at, now.Add(2*cookieLife)) {
		t.Error("cookies are not what they should be")
	}
	first.random[0]++
	if k.cookies.valid(&with, at, now) {
		t.Error("a cookie is taken for another hello")
	}
	c := mustDial(t, s.at, asAnn()...) // and others are served
	if p := exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.Empty, id: 1}); p.kind != message.Reset {
		t.Errorf("%+v", p)
	}
}

// counting counts the bytes that go out to strangers.
type counting struct {
	net.PacketConn
	n *int
}

func (c counting) WriteTo(b []byte, to net.Addr) (int, error) {
	if a := to.(*net.UDPAddr); !a.IP.IsLoopback() {
		*c.n += len(b)
		return len(b), nil
	}
	return c.PacketConn.WriteTo(b, to)
}

// capturedHello is the first datagram of a client.
func capturedHello(t *testing.T) []byte {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dtls.DialWithOptions("udp", l.LocalAddr().(*net.UDPAddr), asAnn()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.HandshakeContext(ctx) // it is not answered
	}()
	buf := make([]byte, 2000)
	n, _, err := l.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	c.Close()
	return buf[:n]
}

// relay is a NAT between a client and the broker: to the broker the client is at
// a port that can change.
type relay struct {
	at *net.UDPAddr // where the client sends to
	in *net.UDPConn

	mu     sync.Mutex
	client netip.AddrPort
	out    *net.UDPConn
	to     *net.UDPAddr
	wg     sync.WaitGroup
}

func newRelay(t *testing.T, to *net.UDPAddr) *relay {
	t.Helper()
	in, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{at: in.LocalAddr().(*net.UDPAddr), in: in, to: to}
	r.move(t)
	r.wg.Go(func() {
		buf := make([]byte, 9000)
		for {
			n, from, err := in.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			r.mu.Lock()
			r.client = from
			out := r.out
			r.mu.Unlock()
			_, _ = out.Write(buf[:n])
		}
	})
	t.Cleanup(func() {
		in.Close()
		r.out.Close()
		r.wg.Wait()
	})
	return r
}

// move gives the client another port towards the broker.
func (r *relay) move(t *testing.T) {
	t.Helper()
	out, err := net.DialUDP("udp", nil, r.to)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	old := r.out
	r.out = out
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
	r.wg.Go(func() {
		buf := make([]byte, 9000)
		for {
			n, err := out.Read(buf)
			if err != nil {
				return
			}
			r.mu.Lock()
			client := r.client
			r.mu.Unlock()
			_, _ = r.in.WriteToUDPAddrPort(buf[:n], client)
		}
	})
}

// [RFC 9146, 6] a client with a connection id goes on from another address, with
// its observation, its lease and its message ids; one without does not.
func TestDTLSConnectionID(t *testing.T) {
	s := newSecured(t, DefaultConfig())
	nat := newRelay(t, s.at)
	c := mustDial(t, nat.at, asAnn(dtls.WithConnectionIDGenerator(dtls.OnlySendCIDGenerator()))...)
	ask := func(code codes.Code, id uint16, path ...string) packet {
		t.Helper()
		return exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: code, id: id, token: makeToken([]byte{byte(id)}), options: options(path), payload: []byte("x")})
	}
	if p := exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.GET, id: 1, token: makeToken([]byte{9}), options: options([]string{"t", "a"}, message.Option{ID: message.Observe})}); p.code != codes.Content {
		t.Fatalf("%+v", p)
	}
	ask(codes.POST, 2, "q", "work")
	taken := ask(codes.POST, 3, "q", "work", "take")
	if taken.code != codes.Created {
		t.Fatalf("%+v", taken)
	}
	lease := string(taken.options[len(taken.options)-1].Value)
	before := s.secure[0].all()[0].where()
	nat.move(t)
	if p := ask(codes.POST, 3, "q", "work", "take"); p.code != codes.Created || string(p.options[len(p.options)-1].Value) != lease {
		t.Errorf("the same request from elsewhere: %+v", p)
	}
	if after := s.secure[0].all()[0].where(); after == before || s.Told()["moved"] != 1 {
		t.Errorf("%v, then %v; %v", before, after, s.Told())
	}
	s.broker.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: topicNamed(t, "a"), Payload: []byte("1")})
	if p := readFrom(t, c); string(p.payload) != "1" || p.token != makeToken([]byte{9}) {
		t.Errorf("notification: %+v", p)
	}
	if p := ask(codes.DELETE, 4, "q", "work", "lease", lease); p.code != codes.Deleted {
		t.Errorf("the lease: %+v", p)
	}
	if n := s.broker.Stats().Protocols[protocol].Connections; n != 1 {
		t.Errorf("%d sessions of one client", n)
	}
}

// [RFC 9146, 6] [RFC 9175, 2.3] where a client went is not proven by its having
// come from there: an attacker may have sent its datagram on.
// It shows fault 29.
func TestDTLSMovedAddressIsNotProven(t *testing.T) {
	a := &association{began: netip.MustParseAddrPort("192.0.2.1:1000")}
	a.at.Store(&a.began)
	if !a.proven(netip.AddrPort{}) {
		t.Error("the address of the cookie is not proven")
	}
	elsewhere := netip.MustParseAddrPort("192.0.2.2:1000")
	a.at.Store(&elsewhere)
	if a.proven(netip.AddrPort{}) || (route{link: a}).where() != elsewhere {
		t.Error("another address is proven")
	}
}

// Each client has a session of its own, whatever its address is (RFC 7252,
// 9.1.1); it ends with the association, and so do its observations.
func TestDTLSSessions(t *testing.T) {
	s := newSecured(t, DefaultConfig())
	ann := mustDial(t, s.at, asAnn()...)
	bob := mustDial(t, s.at, as("bob", strings.Repeat("\x01\x23\x45\x67\x89\xab\xcd\xef", 2))...)
	for _, c := range []*dtls.Conn{ann, bob} {
		observe := &outgoingPacket{kind: message.Confirmable, code: codes.GET, id: 1, options: options([]string{"t", "a"}, message.Option{ID: message.Observe})}
		if p := exchangeOn(t, c, observe); p.code != codes.Content {
			t.Fatalf("%+v", p)
		}
	}
	connections := func() int { return s.broker.Stats().Protocols[protocol].Connections }
	if n := connections(); n != 2 || s.observers.Load() != 2 {
		t.Errorf("%d sessions, %d observers", n, s.observers.Load())
	}
	ann.Close()
	until(t, "the session of the one who left is over", func() bool { return connections() == 1 && s.observers.Load() == 1 })
}

// A handshake that is not ended has its time, and one address cannot have many of
// them.
// It shows fault 32.
func TestDTLSHandshakeLimits(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Limits.LoginTimeout, cfg.Limits.MaxPending = 300*time.Millisecond, 3
	s := newSecured(t, cfg)
	hello := capturedHello(t)
	for range 5 {
		begun(t, s.at, hello)
	}
	until(t, "two are turned away", func() bool { return s.Told()["turned_away"] == 2 })
	if n := s.secure[0].count(); n > 3 {
		t.Errorf("%d associations", n)
	}
	until(t, "the others are forgotten", func() bool { return s.secure[0].count() == 0 })
	mustDial(t, s.at, asAnn()...)
}

// begun begins a handshake, with a cookie, and leaves it at that.
func begun(t *testing.T, at *net.UDPAddr, hello []byte) {
	t.Helper()
	c, err := net.DialUDP("udp", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write(hello); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, err := c.Read(buf)
	if err != nil || !isHelloVerify(buf[:n]) {
		t.Fatalf("%x, %v", buf[:n], err)
	}
	cookie := buf[n-cookieSize : n]
	h, err := readHello(hello)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(withCookie(h, cookie)); err != nil {
		t.Fatal(err)
	}
}

// withCookie is the second ClientHello of a client.
func withCookie(h *hello, cookie []byte) []byte {
	body := append(append(append(append([]byte(nil), h.before...), byte(len(cookie))), cookie...), h.after...)
	b := append(append([]byte(nil), h.record[:recordHeader+handshakeHeader]...), body...)
	setSequence(b, h.sequence+1)
	binary.BigEndian.PutUint16(b[recordHeader-2:], uint16(handshakeHeader+len(body)))
	head := b[recordHeader:]
	putUint24(head[1:], len(body))
	binary.BigEndian.PutUint16(head[4:], 1)
	putUint24(head[9:], len(body))
	return b
}

// Whatever comes as the first datagrams of a stranger, the server goes on, and
// what is read of a ClientHello is put together again as it was.
func FuzzHello(f *testing.F) {
	f.Add([]byte{22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 254})
	h := append([]byte{22, 254, 255, 0, 0, 0, 0, 0, 0, 0, 1, 0, 12 + 42, 1, 0, 0, 42, 0, 1, 0, 0, 0, 0, 0, 42, 254, 253}, make([]byte, 40)...)
	h[len(h)-3], h[len(h)-1] = 0, 0
	f.Add(h)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(b)
		if err != nil {
			return
		}
		if h.sequence > 0 {
			first, err := readHello(h.first())
			if err != nil || len(first.cookie) != 0 || string(first.settings) != string(h.settings) || string(first.before) != string(h.before) {
				t.Fatalf("%x: %v", b, err)
			}
			if len(h.cookie) == cookieSize && h.message == 1 && len(h.record) == len(b) {
				first.sequence = h.sequence - 1
				if got := withCookie(first, h.cookie); string(got[recordHeader:]) != string(b[recordHeader:]) {
					t.Fatalf("%x, then %x", b, got)
				}
			}
		}
		if out := appendHelloVerify(nil, h, make([]byte, cookieSize)); !isHelloVerify(out) || recordSize(out, 0) != len(out) {
			t.Fatalf("%x", out)
		}
	})
}

// The file of keys is read strictly, errors name the line and no key.
func TestPSKFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "psk")
	for _, c := range []struct{ text, err string }{
		{"ann:00112233445566770011223344556677\nbob:" + strings.Repeat("ab", 64) + "\n", ""},
		{"", ""},
		{"ann:00112233445566770011223344556677\n\n", ":2: not IDENTITY:HEXKEY"},
		{"ann\n", ":1: not IDENTITY:HEXKEY"},
		{":00112233445566770011223344556677\n", ":1: "},
		{"ann:5ecre75ecre75ecreT\n", ":1: identity ann: the key is not 16 to 64 bytes in hex"},
		{"ann:001122334455667700112233445566\n", ":1: identity ann: the key is not 16 to 64 bytes in hex"},
		{"ann:" + strings.Repeat("ab", 65) + "\n", ":1: identity ann: the key is not 16 to 64 bytes in hex"},
		{"ann:00112233445566770011223344556677\nann:77665544332211007766554433221100\n", ":2: identity ann comes twice"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readPSKs(path)
		switch {
		case (err == nil) != (c.err == ""), err != nil && !strings.Contains(err.Error(), c.err):
			t.Errorf("%q: %v, want %q", c.text, err, c.err)
		case err != nil && (strings.Contains(err.Error(), "5ecre7") || strings.Contains(err.Error(), "0011")):
			t.Errorf("%v holds a key", err)
		}
	}
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	if _, err := readPSKs(path); err == nil || !strings.Contains(err.Error(), "lets everybody") {
		t.Errorf("a file that everybody may read: %v", err)
	}
	if _, err := readPSKs(path + "none"); err == nil {
		t.Error("a file that is not there")
	}
}
