package coap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// listening is a server on a free port of the loopback, with a socket that is
// connected to it.
func listening(t *testing.T) (*Server, *core.Broker, net.Conn) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := core.NewBroker(core.DefaultConfig(), "/", local.New(log), nil, log)
	s := New(DefaultConfig(), core.NewRealms(b), log)
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", l.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		b.Close()
	})
	return s, b, c
}

func exchangeOn(t *testing.T, c net.Conn, p *outgoingPacket) packet {
	t.Helper()
	if _, err := c.Write(p.append(nil)); err != nil {
		t.Fatal(err)
	}
	return readFrom(t, c)
}

func readFrom(t *testing.T, c net.Conn) packet {
	t.Helper()
	buf := make([]byte, 2000)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	var p packet
	if err := p.decode(buf[:n]); err != nil {
		t.Fatal(err)
	}
	return p
}

// [RFC 7252, 4.4] message ids are those of a client and one of the broker's
// sockets: what it sends to another one with the same id is no duplicate.
func TestMessageIDsAreOfOneSocket(t *testing.T) {
	s, _, c := listening(t)
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(other); err != nil {
		t.Fatal(err)
	}
	put := &outgoingPacket{kind: message.Confirmable, code: codes.PUT, id: 7, options: options([]string{"t", "one"}), payload: []byte("1")}
	if p := exchangeOn(t, c, put); p.code != codes.Created {
		t.Fatalf("%+v", p)
	}
	from := c.LocalAddr().(*net.UDPAddr)
	c.Close()
	same, err := net.DialUDP("udp", from, other.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	put.options = options([]string{"t", "two"})
	for _, want := range []string{"the first time", "again"} {
		if p := exchangeOn(t, same, put); p.code != codes.Created {
			t.Fatalf("%s: %+v", want, p)
		}
	}
	if p := exchangeOn(t, same, &outgoingPacket{kind: message.Confirmable, code: codes.GET, id: 8, options: options([]string{"t", "two"})}); string(p.payload) != "1" {
		t.Errorf("%+v", p)
	}
	if n := s.Told()["duplicate"]; n != 1 {
		t.Errorf("%d duplicates", n)
	}
}

func TestSocket(t *testing.T) {
	s, b, c := listening(t)
	path := []string{"t", "a"}
	if p := exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.GET, id: 1, options: options(path, message.Option{ID: message.Observe})}); p.code != codes.Content {
		t.Fatalf("%+v", p)
	}
	b.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: topicNamed(t, "a"), Payload: []byte("1")})
	p := readFrom(t, c)
	if p.kind != message.Confirmable || string(p.payload) != "1" {
		t.Fatalf("%+v", p)
	}
	if s.observers.Load() != 1 {
		t.Errorf("%d observers", s.observers.Load())
	}
	// A reset of it ends the observation.
	if _, err := c.Write(appendEmpty(nil, message.Reset, p.id)); err != nil {
		t.Fatal(err)
	}
	until(t, "the observer is gone", func() bool { return s.observers.Load() == 0 })
	if s.Told()["observer_lost"] != 1 {
		t.Errorf("told: %v", s.Told())
	}
}

func TestShutdown(t *testing.T) {
	s, _, c := listening(t)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("serving after the end: %v", err)
	}
	again, err := net.ListenPacket("udp", c.RemoteAddr().String())
	if err != nil {
		t.Fatalf("the port is still served: %v", err)
	}
	again.Close()
}

// Where clients have to log in, those that cannot are refused (RFC 7252, 5.9.2.2).
func TestUnknownClients(t *testing.T) {
	_, b, c := listening(t)
	path := filepath.Join(t.TempDir(), "users")
	if _, err := auth.ChangeUser(path, "ann", auth.Change{Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	b.SetDoor(auth.NewDoor(users))
	for _, code := range []codes.Code{codes.GET, codes.PUT, codes.POST, codes.DELETE} {
		p := exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: code, id: uint16(code), options: options([]string{"t", "a"})})
		if p.code != codes.Unauthorized {
			t.Errorf("%v is answered %v", code, p.code)
		}
	}
}

// TestConfig shows fault 31.
func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	if life := DefaultConfig().exchangeLifetime(); life != 247*time.Second {
		t.Errorf("EXCHANGE_LIFETIME is %v, RFC 7252 has 247 s", life)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.MaxBlock = 100 }, func(c *Config) { c.MaxBlock = 8 }, func(c *Config) { c.MaxBlock = 2048 },
		func(c *Config) { c.AckRandom = 0.5 }, func(c *Config) { c.AckTimeout = 0 }, func(c *Config) { c.MaxPeerObservers = 0 },
		func(c *Config) { c.Listen = []string{"224.0.1.187:5683"} }, func(c *Config) { c.Listen = []string{"[ff02::fd]:5683"} },
		func(c *Config) { c.Listen = []string{"dtls:224.0.1.187:5684"} },
	} {
		c := DefaultConfig()
		if change(&c); c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// Every refusal of the core has a code.
// It shows fault 99.
func TestCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{core.ErrNotFound, codes.NotFound}, {core.ErrConflict, codes.Conflict}, {core.ErrLocked, codes.Forbidden},
		{core.ErrInUse, codes.Conflict}, {core.ErrNotAllowed, codes.Forbidden}, {core.ErrFull, codes.ServiceUnavailable},
		{core.ErrTooLarge, codes.RequestEntityTooLarge}, {core.ErrInvalid, codes.BadRequest},
		{core.ErrUnsupported, codes.NotImplemented}, {core.ErrTimeout, codes.GatewayTimeout},
		{core.ErrClosed, codes.ServiceUnavailable}, {errors.New("else"), codes.InternalServerError},
	} {
		if res := refusalOf(c.err); res.code != c.code {
			t.Errorf("%v: %v, want %v", c.err, res.code, c.code)
		}
	}
	if d := string(diagnostic("a\r\nb\x00\xff" + strings.Repeat("x", 255))); len(d) > maxDiagnostic || d[:6] != "a  b ?" {
		t.Errorf("%q", d)
	}
}

// [RFC 7252, 12.3] the table of content formats, both ways.
func TestFormats(t *testing.T) {
	for _, f := range formats {
		media, coding := contentTypeOf(f.number)
		if n := formatOf(media, coding); n != f.number {
			t.Errorf("%d is %q, which is %d", f.number, media, n)
		}
	}
	for media, want := range map[string]int{
		"text/plain": 0, "text/plain; charset=UTF-8": 0, "text/plain;charset=utf-8": 0, "text/plain; charset=latin1": noFormat,
		"Application/JSON": 50, "application/json; charset=utf-8": 50, "": noFormat, "x": noFormat, "application/x-own": noFormat,
		otherFormat + "65000": 65000, otherFormat + "65536": noFormat, otherFormat + "x": noFormat,
	} {
		if n := formatOf(media, ""); n != want {
			t.Errorf("%q is %d, want %d", media, n, want)
		}
	}
	if n := formatOf("application/json", "deflate"); n != 11050 {
		t.Errorf("deflated JSON is %d", n)
	}
	if n := formatOf("text/plain", "gzip"); n != noFormat {
		t.Errorf("gzipped text is %d", n)
	}
}

// TestScenariosShowEachFormat holds the scenario of content types to the table.
func TestScenariosShowEachFormat(t *testing.T) {
	text, err := os.ReadFile("../../testdata/scenarios/coap-formats.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats {
		in, out := fmt.Sprintf("coap post c /t/f/%d \"x\" format=%d\n", f.number, f.number), fmt.Sprintf("coap get c /t/f/%d\n", f.number)
		if a, b := strings.Count(string(text), in), strings.Count(string(text), out); a < 4 || b < 4 { // MQTT 5, STOMP, WAMP, AMQP
			t.Errorf("format %d: %d protocols get it, %d send it", f.number, a, b)
		}
	}
}
