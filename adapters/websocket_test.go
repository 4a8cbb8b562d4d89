package adapters

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// webServer answers HTTP with handlers of a WebSocket.
type webServer struct {
	*WebSocket
	addr string
	mux  *http.ServeMux
}

func newWebServer(t testing.TB, cfg WebSocketConfig) *webServer {
	t.Helper()
	l, err := listenAt("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &webServer{NewWebSocket(cfg, slog.New(slog.DiscardHandler)), l.Addr().String(), http.NewServeMux()}
	h := http.Server{Handler: s.mux, WriteTimeout: time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Serve(l)
	}()
	t.Cleanup(func() {
		_ = h.Close()
		<-ended
	})
	return s
}

// open connects to a path of s.
func (s *webServer) open(t testing.TB, path string, names ...string) *webClient {
	t.Helper()
	c, status, err := s.dial(path, nil, names...)
	if err != nil {
		t.Fatalf("%s %q: %v, status %d", path, names, err, status)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *webServer) dial(path string, header http.Header, names ...string) (*webClient, int, error) {
	d := websocket.Dialer{Subprotocols: names, EnableCompression: true}
	c, resp, err := d.Dial("ws://"+s.addr+path, header)
	if resp == nil {
		return nil, 0, err
	}
	if err != nil {
		return nil, resp.StatusCode, err
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	return &webClient{Conn: c}, resp.StatusCode, nil
}

// webClient is a client's WebSocket as a connection.
type webClient struct {
	*websocket.Conn
	message io.Reader
	kind    int
}

func (c *webClient) Read(p []byte) (int, error) {
	for {
		if c.message == nil {
			var err error
			if c.kind, c.message, err = c.NextReader(); err != nil {
				return 0, c.reason(err)
			}
		}
		n, err := c.message.Read(p)
		if err == io.EOF {
			c.message, err = nil, nil
			if n == 0 {
				continue
			}
		}
		if err != nil {
			err = c.reason(err)
		}
		return n, err
	}
}

func (c *webClient) reason(err error) error {
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.ClosePolicyViolation,
		websocket.CloseTryAgainLater, websocket.CloseMessageTooBig, websocket.CloseAbnormalClosure) {
		return io.EOF
	}
	return err
}

func (c *webClient) Write(p []byte) (int, error) {
	if err := c.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *webClient) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// closeCode reads to the end and returns how that was told.
func (c *webClient) closeCode(t testing.TB) int {
	t.Helper()
	for {
		_, _, err := c.ReadMessage()
		var bye *websocket.CloseError
		if errors.As(err, &bye) {
			return bye.Code
		}
		if err != nil {
			t.Errorf("ended without a close frame: %v", err)
			return 0
		}
	}
}

// webPair is a carrier for the tests of all carriers.
func webPair(t testing.TB) (client, server net.Conn) {
	s := newWebServer(t, DefaultWebSocketConfig())
	conns := make(chan net.Conn, 1)
	s.mux.Handle("/", s.Only(Carried{Serve: func(c net.Conn) { conns <- c }}))
	client = s.open(t, "/")
	return client, <-conns
}

// carrying is a server of recorders at /bin, and at /text with text messages.
func carrying(t *testing.T, cfg WebSocketConfig, limits Config) (*webServer, *fixture) {
	t.Helper()
	s := newWebServer(t, cfg)
	f := newFixture(limits, nil)
	serve := func(c net.Conn) {
		narrow(c)
		f.ServeConn(c)
	}
	s.mux.Handle("/bin", s.Only(Carried{Names: []string{"b1", "b2"}, Serve: serve}))
	s.mux.Handle("/text", s.Only(Carried{Names: []string{"t1"}, Serve: serve, Text: true}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := f.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		f.bare(t)
	})
	return s, f
}

// of returns a client's recorder.
func (f *fixture) of(t testing.TB, client *webClient) (r *recorder) {
	t.Helper()
	soon(t, "the client is served", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		i := slices.IndexFunc(f.recs, func(r *recorder) bool { return r.conn.RemoteAddr() == client.LocalAddr().String() })
		if i >= 0 {
			r = f.recs[i]
		}
		return r != nil
	})
	return r
}

func TestWebSocketSubProtocols(t *testing.T) {
	s := newWebServer(t, DefaultWebSocketConfig())
	served := make(chan string, 1)
	carried := func(name string, names ...string) Carried {
		return Carried{Names: names, Serve: func(c net.Conn) {
			served <- name
			c.Close()
		}}
	}
	mqtt, stomp := carried("mqtt", "mqtt", "mqttv3.1"), carried("stomp", "v12.stomp", "v11.stomp")
	s.mux.Handle("/ws", s.Any(mqtt, stomp))
	s.mux.Handle("/mqtt", s.Only(mqtt))
	for _, c := range []struct {
		path         string
		offered      []string
		status       int
		chosen, serv string
	}{
		{"/ws", nil, 400, "", ""},
		{"/ws", []string{"wamp.2.json"}, 400, "", ""},
		{"/ws", []string{"MQTT"}, 400, "", ""},
		{"/ws", []string{"mqtt"}, 101, "mqtt", "mqtt"},
		{"/ws", []string{"mqttv3.1"}, 101, "mqttv3.1", "mqtt"},
		{"/ws", []string{"v11.stomp", "v12.stomp"}, 101, "v11.stomp", "stomp"},
		{"/ws", []string{"x", "v12.stomp", "mqtt"}, 101, "v12.stomp", "stomp"},
		{"/mqtt", nil, 101, "", "mqtt"},
		{"/mqtt", []string{"mqtt"}, 101, "mqtt", "mqtt"},
		{"/mqtt", []string{"v12.stomp"}, 400, "", ""},
	} {
		client, status, err := s.dial(c.path, nil, c.offered...)
		if status != c.status || (err == nil) != (status == 101) {
			t.Errorf("%s %q: status %d, %v; want %d", c.path, c.offered, status, err, c.status)
			continue
		}
		if err != nil {
			continue
		}
		if got := client.Subprotocol(); got != c.chosen {
			t.Errorf("%s %q: sub-protocol %q, want %q", c.path, c.offered, got, c.chosen)
		}
		if got := <-served; got != c.serv {
			t.Errorf("%s %q: served by %s", c.path, c.offered, got)
		}
		if code := client.closeCode(t); code != websocket.CloseTryAgainLater {
			t.Errorf("close code %d", code)
		}
		client.Close()
	}
}

func TestWebSocketRequestsThatAreNone(t *testing.T) {
	s := newWebServer(t, DefaultWebSocketConfig())
	s.mux.Handle("/ws", s.Any(Carried{Names: []string{"mqtt"}}))
	upgrade := func(more ...string) []string {
		return append([]string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: mqtt"}, more...)
	}
	const key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"a page is asked for", nil, 426},
		{"another upgrade", []string{"Connection: Upgrade", "Upgrade: h2c"}, 426},
		{"no version", upgrade(key), 400},
		{"old version", upgrade(key, "Sec-WebSocket-Version: 8"), 400},
		{"no key", upgrade("Sec-WebSocket-Version: 13"), 400},
		{"short key", upgrade("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA"), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: localhost\r\n%s\r\n", strings.Join(append(c.header, ""), "\r\n"))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
		})
	}
}

// One stream of bytes, however it is cut; answers hold whole packets.
func TestWebSocketIsOneStream(t *testing.T) {
	for _, c := range []struct {
		path string
		kind int
	}{{"/bin", websocket.BinaryMessage}, {"/text", websocket.BinaryMessage}, {"/text", websocket.TextMessage}} {
		s, f := carrying(t, DefaultWebSocketConfig(), testConfig())
		client := s.open(t, c.path)
		send(t, client, "in")
		receive(t, client, "in")

		var want []string
		var stream []byte
		for i := range 400 {
			body := strings.Repeat("ä", i%70) + fmt.Sprint(i) // lengths of at most 143 bytes are ASCII or not
			if c.kind == websocket.TextMessage {
				body = strings.Repeat("x", i%20) + "é" // the length is a character by itself
			}
			want = append(want, body)
			stream = append(stream, frame(body)...)
		}
		r := f.of(t, client)
		for cut := 1; len(stream) > 0; cut = cut*3%257 + 1 {
			n := min(cut, len(stream))
			w, err := client.NextWriter(c.kind)
			if err != nil {
				t.Fatal(err)
			}
			if c.kind == websocket.TextMessage { // must end with a character
				for n < len(stream) && stream[n]&0xC0 == 0x80 {
					n++
				}
			}
			fmt.Fprintf(w, "%s", stream[:n])
			w.Close()
			stream = stream[n:]
		}
		soon(t, "all frames are there", func() bool { return len(r.seen()) == len(want)+1 })
		if got := r.seen()[1:]; !slices.Equal(got, want) {
			t.Errorf("%s: got %q", c.path, got)
		}
		send(t, client, "ask", "ask", "flood")
		receive(t, client, "told", "told", flood)
	}
}

// What comes in one read of the socket is fed at once, not message by message.
func TestWebSocketGathersMessages(t *testing.T) {
	s, f := carrying(t, DefaultWebSocketConfig(), testConfig())
	client := s.open(t, "/bin")
	send(t, client, "in")
	receive(t, client, "in")
	var all []byte
	for range 100 {
		all = append(all, masked(0x82, frame("x"))...)
	}
	r := f.of(t, client)
	before := r.turns()
	raw := client.NetConn()
	if _, err := raw.Write(all); err != nil {
		t.Fatal(err)
	}
	soon(t, "all frames are there", func() bool { return len(r.seen()) == 101 })
	if turns := r.turns() - before; turns > 10 {
		t.Errorf("%d turns for 100 messages", turns)
	}
}

func (r *recorder) turns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idles
}

// masked is a client's frame of up to 125 bytes or with a length of 16 bits.
func masked(first byte, payload []byte) []byte {
	if len(payload) > 125 {
		return slices.Concat([]byte{first, 0x80 | 126, byte(len(payload) >> 8), byte(len(payload)), 0, 0, 0, 0}, payload)
	}
	return slices.Concat([]byte{first, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload)
}

// RFC 6455: 5.1 masks, 5.2 the header, 5.4 fragments, 5.5 control frames, 7.4
// close codes, 8.1 UTF-8. Each fault ends its connection with a code.
// It shows fault 15.
func TestWebSocketFaults(t *testing.T) {
	cfg := DefaultWebSocketConfig()
	cfg.MaxMessage = 2048
	s, f := carrying(t, cfg, testConfig())
	kib := make([]byte, 1024)
	for _, c := range []struct {
		name, path string
		bytes      []byte
		code       int
	}{
		{"[5.1] not masked", "/bin", []byte{0x82, 0x01, 'x'}, 1002},
		{"[5.2] RSV1 without an extension: compressed", "/bin", masked(0xC2, []byte("x")), 1002},
		{"[5.2] RSV2", "/bin", masked(0xA2, []byte("x")), 1002},
		{"[5.2] reserved opcode", "/bin", masked(0x83, []byte("x")), 1002},
		{"[5.2] reserved control opcode", "/bin", masked(0x8B, []byte("x")), 1002},
		{"[5.2] 2^63 bytes", "/bin", []byte{0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1009},
		{"[5.2] 2^63-1 bytes", "/bin", []byte{0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}, 1009},
		{"[5.2] 2^62 bytes after a fragment", "/bin", append(masked(0x02, kib), 0x80, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0), 1009},
		{"[5.4] continuation of nothing", "/bin", masked(0x80, []byte("x")), 1002},
		{"[5.4] a message within a message", "/bin", append(masked(0x02, []byte{0}), masked(0x82, []byte("x"))...), 1002},
		{"[5.4] many fragments, too large together", "/bin", slices.Concat(masked(0x02, kib), masked(0x00, kib), masked(0x00, []byte{1})), 1009},
		{"[5.5] large ping", "/bin", masked(0x89, make([]byte, 126)), 1002},
		{"[5.5] ping in fragments", "/bin", masked(0x09, []byte("x")), 1002},
		{"[5.5.1] close code 1005", "/bin", masked(0x88, []byte{0x03, 0xED}), 1002},
		{"[5.5.1] close code 0", "/bin", masked(0x88, []byte{0, 0}), 1002},
		{"[5.5.1] close reason is not UTF-8", "/bin", masked(0x88, []byte{0x03, 0xE8, 0xFF}), 1002},
		{"[5.5.1] good-bye", "/bin", masked(0x88, []byte{0x03, 0xE8}), 1000},
		{"[MQTT-6.0.0-1] text where binary is due", "/bin", masked(0x81, []byte("x")), 1003},
		{"[8.1] text is not UTF-8", "/text", masked(0x81, []byte{0, 1, 0xFF}), 1007},
		{"[8.1] text ends within a character", "/text", masked(0x81, []byte{0, 1, 0xC3}), 1007},
		{"[8.1] the same in fragments", "/text", slices.Concat(masked(0x01, []byte{0, 1, 0xC3}), masked(0x80, []byte("x"))), 1007},
		{"[8.1] surrogate", "/text", masked(0x81, []byte{0, 4, 0xED, 0xA0, 0x80}), 1007},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := s.open(t, c.path)
			if _, err := client.NetConn().Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			if code := client.closeCode(t); code != c.code {
				t.Errorf("close code %d, want %d", code, c.code)
			}
			r := f.of(t, client)
			within(t, "the connection ended", r.ended)
			if (r.err == nil) != (c.code == 1000) {
				t.Errorf("Closed(%v)", r.err)
			}
		})
	}
	// No harm was done to others.
	client := s.open(t, "/bin")
	send(t, client, "ask")
	receive(t, client, "told")
}

// A character may be cut by fragments and by reads, a message by messages.
func TestWebSocketTextInPieces(t *testing.T) {
	s, f := carrying(t, DefaultWebSocketConfig(), testConfig())
	client := s.open(t, "/text")
	body := frame("a€𝄞z")
	raw := client.NetConn()
	for i := range body {
		first := byte(0x00)
		switch i {
		case 0:
			first = 0x01
		case len(body) - 1:
			first = 0x80
		}
		for _, b := range [][]byte{masked(first, body[i:i+1]), masked(0x00, nil)}[:1+min(1, len(body)-1-i)] {
			if _, err := raw.Write(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := f.of(t, client)
	soon(t, "the frame is there", func() bool { return len(r.seen()) == 1 })
	if got := r.seen()[0]; got != "a€𝄞z" {
		t.Errorf("got %q", got)
	}
}

func TestWebSocketAnswersInTextWhereItIsText(t *testing.T) {
	s, _ := carrying(t, DefaultWebSocketConfig(), testConfig())
	for _, c := range []struct {
		path, body, want string
		kind             int
	}{
		{"/bin", "ask", "told", websocket.BinaryMessage},
		{"/text", "ask", "told", websocket.TextMessage},
		{"/text", "flood", flood, websocket.BinaryMessage}, // its length is not UTF-8
	} {
		client := s.open(t, c.path)
		send(t, client, c.body)
		kind, message, err := client.ReadMessage()
		if err != nil || kind != c.kind || string(message) != string(frame(c.want)) {
			t.Errorf("%s: kind %d, %d bytes, %v", c.path, kind, len(message), err)
		}
	}
}
