package adapters

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// proxy2 is a header of version 2.
func proxy2(command, family byte, rest string) string {
	head := proxyBinary + string([]byte{command, family})
	return string(binary.BigEndian.AppendUint16([]byte(head), uint16(len(rest)))) + rest
}

// summed adds a right checksum.
func summed(command, family byte, rest string) string {
	whole := []byte(proxy2(command, family, rest+"\x03\x00\x04\x00\x00\x00\x00"))
	binary.BigEndian.PutUint32(whole[len(whole)-4:], crc32.Checksum(whole, crc32.MakeTable(crc32.Castagnoli)))
	return string(whole)
}

const (
	from4 = "\xcb\x00\x71\x07\xc0\x00\x02\x01\x10\x5b\x07\x5b" // 203.0.113.7:4187 to 192.0.2.1:1883
	ssl   = "\x20\x00\x05\x01\x00\x00\x00\x00"
)

var from6 = "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x07" + strings.Repeat("\x00", 16) + "\x10\x5b\x07\x5b"

// headers and what they say: an address, "" for none that is known, or an error.
func proxyHeaders() map[string]string {
	return map[string]string{
		"PROXY TCP4 203.0.113.7 192.0.2.1 4187 1883\r\n":   "203.0.113.7:4187",
		"PROXY TCP6 2001:db8::7 2001:db8::1 4187 1883\r\n": "[2001:db8::7]:4187",
		"PROXY TCP6 ::ffff:203.0.113.7 ::1 4187 1883\r\n":  "203.0.113.7:4187",
		"PROXY UNKNOWN\r\n":                            "",
		"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n":        "",
		"PROXY TCP4 127.0.0.1 192.0.2.1 4187 1883\r\n": "127.0.0.1:4187",
		proxy2(0x21, 0x11, from4):                      "203.0.113.7:4187",
		proxy2(0x21, 0x11, from4+ssl+"\x04\x00\x01x"):  "203.0.113.7:4187",
		proxy2(0x21, 0x21, from6):                      "[2001:db8::7]:4187",
		proxy2(0x21, 0x31, strings.Repeat("/", 216)):   "",
		proxy2(0x21, 0x00, ""):                         "",
		proxy2(0x21, 0x00, "anything"):                 "",
		proxy2(0x20, 0x00, ""):                         "",
		proxy2(0x20, 0x11, from4):                      "",
		proxy2(0x20, 0x11, from4+"\xff"):               "",
		summed(0x21, 0x11, from4+ssl):                  "203.0.113.7:4187",
		"GET / HTTP/1.1\r\n\r\n":                       "none",
		"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00": "none",
		"PROXX TCP4": "none",
		"\r\n\r\n\x00\r\nQUIX\n\x21\x11\x00\x0c" + from4:     "none",
		"proxy TCP4 203.0.113.7 192.0.2.1 4187 1883\r\n":     "none",
		"PROXY TCP4 203.0.113.7 192.0.2.1 4187\r\n":          "malformed",
		"PROXY TCP4 203.0.113.7 192.0.2.1 4187 1883 x\r\n":   "malformed",
		"PROXY TCP4  203.0.113.7 192.0.2.1 4187 1883\r\n":    "malformed",
		"PROXY TCP4 203.0.113.07 192.0.2.1 4187 1883\r\n":    "malformed",
		"PROXY TCP4 203.0.113.7 192.0.2.1 04187 1883\r\n":    "malformed",
		"PROXY TCP4 203.0.113.7 192.0.2.1 4187 65536\r\n":    "malformed",
		"PROXY TCP4 203.0.113.7 192.0.2.1 +4187 1883\r\n":    "malformed",
		"PROXY TCP4 2001:db8::7 2001:db8::1 4187 1883\r\n":   "malformed",
		"PROXY TCP6 203.0.113.7 192.0.2.1 4187 1883\r\n":     "malformed",
		"PROXY TCP6 fe80::1%eth0 2001:db8::1 4187 1883\r\n":  "malformed",
		"PROXY UDP4 203.0.113.7 192.0.2.1 4187 1883\r\n":     "malformed",
		"PROXY UNKNOWNx\r\n":                                 "malformed",
		"PROXY UNKNOWN " + strings.Repeat("x", 200) + "\r\n": "malformed",
		"PROXY TCP4 203.0.113.7 192.0.2.1 4187 1883\n\r\n":   "malformed",
		proxy2(0x22, 0x11, from4):                            "malformed", // another command
		proxy2(0x11, 0x11, from4):                            "malformed", // another version
		proxy2(0x21, 0x12, from4):                            "malformed", // datagrams
		proxy2(0x21, 0x32, strings.Repeat("/", 216)):         "malformed",
		proxy2(0x21, 0x41, from4):                            "malformed", // another family
		proxy2(0x21, 0x01, ""):                               "malformed",
		proxy2(0x21, 0x11, from4[:11]):                       "malformed",
		proxy2(0x21, 0x21, from4):                            "malformed",
		proxy2(0x21, 0x31, "/"):                              "malformed",
		proxy2(0x21, 0x11, from4+"\x04"):                     "malformed", // a field is cut off
		proxy2(0x21, 0x11, from4+"\x04\x00"):                 "malformed",
		proxy2(0x21, 0x11, from4+"\x04\x00\x05x"):            "malformed", // longer than the header
		proxy2(0x21, 0x11, from4+"\x03\x00\x04abcd"):         "malformed", // checksum
		proxy2(0x21, 0x11, from4+"\x03\x00\x02ab"):           "malformed",
		proxy2(0x21, 0x11, strings.Repeat("x", 17<<10)):      "malformed",
		"PROXY TCP4 203.0.113.7":                             "EOF",
		"PRO":                                                "EOF",
		"":                                                   "EOF",
		proxyBinary:                                          "EOF",
		proxyBinary + "\x21\x11\x00\x0c" + from4[:7]:         "EOF",
	}
}

// PROXY protocol 2.1 and 2.2: what is good, what is bad, and that not a byte more
// is read, however the bytes come.
func TestProxyHeaders(t *testing.T) {
	for header, want := range proxyHeaders() {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"at once":       func(r io.Reader) io.Reader { return r },
			"byte by byte":  iotest.OneByteReader,
			"by the halves": iotest.HalfReader,
		} {
			in := strings.NewReader(header + "rest")
			if want == "EOF" {
				in = strings.NewReader(header)
			}
			client, err := readProxyHeader(reader(in))
			got := ""
			switch {
			case errors.Is(err, errNoProxyHeader):
				got = "none"
			case errors.Is(err, errBadProxyHeader):
				got = "malformed"
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				got = "EOF"
			case err != nil:
				got = err.Error()
			case client.IsValid():
				got = client.String()
			}
			if got != want {
				t.Errorf("%q %s: %s, %v; want %s", header, name, got, err, want)
			}
			if rest, _ := io.ReadAll(in); err == nil && string(rest) != "rest" {
				t.Errorf("%q %s: %q is left", header, name, rest)
			}
		}
	}
}

// No header makes a client local, and its text is not that of a
// local address.
// It shows fault 54.
func TestProxiedIsNeverLocal(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	for client, want := range map[string]string{
		"203.0.113.7:5": "203.0.113.7:5", "127.0.0.1:5": "proxy@127.0.0.1:5", "[::1]:5": "proxy@[::1]:5",
		"0.0.0.0:5": "proxy@0.0.0.0:5", "": "proxy@127.0.0.1:9",
	} {
		a := netip.AddrPort{}
		if client != "" {
			a = netip.MustParseAddrPort(client)
		}
		p := remoteOf(at, a)
		if p.String() != want || addrOf(p).IsValid() != (want == client) {
			t.Errorf("%q: %q, %v", client, p, addrOf(p))
		}
		if host, _, err := net.SplitHostPort(p.String()); err == nil && want != client && net.ParseIP(host) != nil {
			t.Errorf("%q is an address", p)
		}
	}
}

func TestProxyNetworks(t *testing.T) {
	p, err := ProxyConfig{Networks: []string{"10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "unix"}}.proxies()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"10.1.2.3": true, "11.1.2.3": false, "192.0.2.7": true, "192.0.2.8": false, "2001:db8::9": true, "::1": false, "::ffff:10.0.0.1": true} {
		if got := p.trust(peer(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if !p.trust(&net.UnixAddr{Net: "unix"}) || (proxies{}).trust(&net.UnixAddr{Net: "unix"}) {
		t.Error("unix sockets")
	}
	for _, bad := range []string{"", "10.0.0.0/33", "host", "10.0.0.0-10.1.0.0"} {
		if err := (ProxyConfig{Networks: []string{bad}}).Validate(); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// behindProxy is a fixture with a listener for proxies of a network.
func behindProxy(t *testing.T, network string) (*fixture, string) {
	t.Helper()
	s := newFixture(testConfig(), nil)
	a, err := ParseAddress("127.0.0.1:0?proxy=1&name=behind", OverTCP)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Gate{Proxies: ProxyConfig{Networks: []string{network}}}.Listen(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	return s, l.Addr().String()
}

// The client that the proxy names is the one in logs, limits and rights.
func TestProxiedClient(t *testing.T) {
	s, at := behindProxy(t, "127.0.0.1")
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	for _, b := range []byte(proxy2(0x21, 0x11, from4) + string(frame("in"))) { // split as much as can be
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	receive(t, c, "in")
	conn := s.last().conn
	if conn.RemoteAddr() != "203.0.113.7:4187" || conn.Peer() != netip.MustParseAddr("203.0.113.7") || conn.Listener() != "behind" {
		t.Errorf("%s, %s, %s", conn.RemoteAddr(), conn.Peer(), conn.Listener())
	}
	s.Server.mu.Lock()
	n := s.peers[netip.MustParseAddr("203.0.113.7")]
	s.Server.mu.Unlock()
	if n.open != 1 || n.pending != 0 {
		t.Errorf("counted %+v", n)
	}
	c.Close()
	s.end(t)
}

// Headers count from listed proxies only; others are turned away, as
// is who sends none or a bad one, and each is counted.
// It shows fault 54.
func TestProxyRefused(t *testing.T) {
	for _, c := range []struct{ network, say string }{
		{"10.0.0.0/8", "PROXY TCP4 203.0.113.7 192.0.2.1 4187 1883\r\n" + string(frame("in"))},
		{"127.0.0.1", string(frame("in"))},
		{"127.0.0.1", "PROXY TCP4 203.0.113.7 192.0.2.1 4187 99999\r\n" + string(frame("in"))},
		{"127.0.0.1", proxy2(0x21, 0x11, from4+"\xff")},
	} {
		s, at := behindProxy(t, c.network)
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(c.say)) // it may be closed already
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if b, err := io.ReadAll(conn); len(b) > 0 || errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%q: %q, %v", c.say, b, err)
		}
		soon(t, "counted", func() bool { return s.Unopened()["proxy"] == 1 })
		if s.last() != nil {
			t.Errorf("%q was let in", c.say)
		}
		conn.Close()
		s.end(t)
	}
}

func FuzzProxyHeaderInPieces(f *testing.F) {
	for header := range proxyHeaders() {
		f.Add([]byte(header + "rest"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, pieces := bytes.NewReader(b), bytes.NewReader(b)
		c1, err1 := readProxyHeader(whole)
		c2, err2 := readProxyHeader(iotest.OneByteReader(pieces))
		if c1 != c2 || (err1 == nil) != (err2 == nil) || err1 == nil && whole.Len() != pieces.Len() {
			t.Errorf("%v, %v, %d left; in pieces %v, %v, %d", c1, err1, whole.Len(), c2, err2, pieces.Len())
		}
		if err1 == nil && len(b)-whole.Len() > proxyHead+proxyLength {
			t.Errorf("%d bytes read", len(b)-whole.Len())
		}
	})
}
