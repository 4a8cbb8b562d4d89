package adapters

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// Messages are cut only behind whole packets.
func TestCutMessage(t *testing.T) {
	sealed := func(n int) chunk { return chunk{make([]byte, n), &buffer{}} }
	open := func(n int) chunk { return chunk{make([]byte, n), nil} }
	for _, c := range []struct {
		name       string
		runs       []chunk
		take, size int
	}{
		{"nothing", nil, 0, 0},
		{"one", []chunk{sealed(10)}, 1, 10},
		{"several small ones", []chunk{sealed(10), sealed(20), sealed(30)}, 3, 60},
		{"no more than is enough", []chunk{sealed(fullMessage - 1), sealed(1), sealed(1)}, 2, fullMessage},
		{"a large payload goes with its head and end", []chunk{open(10), open(1 << 20), sealed(1), sealed(5)}, 3, 1<<20 + 11},
		{"even where the end is empty", []chunk{open(10), open(1 << 20), sealed(0), sealed(5)}, 3, 1<<20 + 10},
	} {
		runs, size := cutMessage(c.runs)
		if len(runs) != c.take || size != c.size {
			t.Errorf("%s: %d runs, %d bytes; want %d, %d", c.name, len(runs), size, c.take, c.size)
		}
	}
}

func TestRunes(t *testing.T) {
	for _, text := range []string{"", "abc", "äöü", "€", "𝄞", "a€𝄞b\x00", "\xEF\xBF\xBD"} {
		for cut := range len(text) + 1 {
			for cut2 := cut; cut2 <= len(text); cut2++ {
				var r runes
				if !r.take([]byte(text[:cut])) || !r.take([]byte(text[cut:cut2])) || !r.take([]byte(text[cut2:])) || !r.whole() {
					t.Errorf("%q cut at %d and %d is refused", text, cut, cut2)
				}
			}
		}
	}
	for _, text := range []string{"\x80", "\xC0\x80", "a\xFFb", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\xE2\x82x", "€\xC3"} {
		for cut := range len(text) + 1 {
			var r runes
			if r.take([]byte(text[:cut])) && r.take([]byte(text[cut:])) && r.whole() {
				t.Errorf("%q cut at %d is let through", text, cut)
			}
		}
	}
}

func FuzzRunes(f *testing.F) {
	f.Add("a€𝄞b", 2, 3)
	f.Add("\xE2\x82x", 1, 1)
	f.Fuzz(func(t *testing.T, text string, a, b int) {
		a = max(0, min(a, len(text)))
		b = max(a, min(b, len(text)))
		var r runes
		got := r.take([]byte(text[:a])) && r.take([]byte(text[a:b])) && r.take([]byte(text[b:])) && r.whole()
		if want := strings.ToValidUTF8(text, "") == text; got != want {
			t.Errorf("%q cut at %d, %d: %v", text, a, b, got)
		}
	})
}

// RFC 6455, 5.5.2: a ping is answered with its own words.
func TestWebSocketAnswersPings(t *testing.T) {
	s, _ := carrying(t, DefaultWebSocketConfig(), testConfig())
	client := s.open(t, "/bin")
	pongs := make(chan string, 1)
	client.SetPongHandler(func(data string) error {
		pongs <- data
		return nil
	})
	if err := client.WriteControl(websocket.PingMessage, []byte("here?"), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _, _ = client.ReadMessage() }()
	select {
	case got := <-pongs:
		if got != "here?" {
			t.Errorf("pong %q", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no pong")
	}
}

// Frames that carry nothing are borne up to a rate, whatever they are.
// It shows fault 67.
func TestWebSocketStorms(t *testing.T) {
	for name, frames := range map[string][]byte{
		"pings":           masked(0x89, nil),
		"pongs":           masked(0x8A, []byte("x")),
		"empty messages":  masked(0x82, nil),
		"empty fragments": masked(0x00, nil),
	} {
		t.Run(name, func(t *testing.T) {
			s, f := carrying(t, DefaultWebSocketConfig(), testConfig())
			client := s.open(t, "/bin")
			send(t, client, "in")
			receive(t, client, "in")
			var wg sync.WaitGroup
			raw := client.NetConn()
			wg.Go(func() {
				if name == "empty fragments" {
					_, _ = raw.Write(masked(0x02, nil))
				}
				for block := []byte(strings.Repeat(string(frames), 1000)); ; {
					if _, err := raw.Write(block); err != nil {
						return
					}
				}
			})
			r := f.of(t, client)
			within(t, "the connection ended", r.ended)
			var fault *websocketFault
			if !errors.As(r.err, &fault) || fault.code != websocket.ClosePolicyViolation {
				t.Errorf("Closed(%v)", r.err)
			}
			client.Close()
			wg.Wait()
		})
	}
}

// Small packets, a message each, are no storm.
// It shows fault 67.
func TestWebSocketManySmallMessages(t *testing.T) {
	s, f := carrying(t, DefaultWebSocketConfig(), testConfig())
	client := s.open(t, "/bin")
	send(t, client, "in")
	receive(t, client, "in")
	one := masked(0x82, []byte{0})
	two := masked(0x82, []byte{0})
	block := []byte(strings.Repeat(string(one)+string(two), 2000)) // frames without a body, one byte a message
	raw := client.NetConn()
	for range 40 {
		if _, err := raw.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	r := f.of(t, client)
	soon(t, "all frames are there", func() bool { return len(r.seen()) == 1+40*2000 })
}

func TestWebSocketCloseCodes(t *testing.T) {
	s, f := carrying(t, DefaultWebSocketConfig(), testConfig())
	for _, c := range []struct {
		name string
		end  func(*webClient, *recorder)
		code int
	}{
		{"good-bye of the protocol", func(c *webClient, _ *recorder) { send(t, c, "done") }, websocket.CloseNormalClosure},
		{"error of the protocol", func(c *webClient, _ *recorder) { send(t, c, "bad") }, websocket.ClosePolicyViolation},
		{"frame too large for before log-in", func(c *webClient, _ *recorder) { send(t, c, flood, flood) }, websocket.CloseMessageTooBig},
		{"ended by the broker", func(_ *webClient, r *recorder) { r.conn.Kick(ErrKicked) }, websocket.CloseGoingAway},
		{"time is up", func(_ *webClient, r *recorder) { r.conn.Kick(ErrTimeout) }, websocket.ClosePolicyViolation},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := s.open(t, "/bin")
			send(t, client, "ask")
			receive(t, client, "told")
			r := f.of(t, client)
			c.end(client, r)
			if code := client.closeCode(t); code != c.code {
				t.Errorf("close code %d, want %d", code, c.code)
			}
			within(t, "the connection ended", r.ended)
		})
	}
}

// Limits hold as for other carriers, by the address of the socket.
// It shows fault 66.
func TestWebSocketLimits(t *testing.T) {
	limits := testConfig()
	limits.MaxPerPeer = 1
	s, f := carrying(t, DefaultWebSocketConfig(), limits)
	first := s.open(t, "/bin")
	send(t, first, "ask")
	receive(t, first, "told")
	if got, want := f.of(t, first).conn.RemoteAddr(), first.LocalAddr().String(); got != want {
		t.Errorf("remote address %s, want %s", got, want)
	}
	if code := s.open(t, "/bin").closeCode(t); code != websocket.CloseTryAgainLater {
		t.Errorf("close code %d", code)
	}
	if turnedAway(f.Server) != 1 {
		t.Errorf("refused %d", turnedAway(f.Server))
	}
}

func TestWebSocketShutdown(t *testing.T) {
	s, f := carrying(t, DefaultWebSocketConfig(), testConfig())
	var clients []*webClient
	for range 20 {
		c := s.open(t, "/bin")
		send(t, c, "in")
		receive(t, c, "in")
		clients = append(clients, c)
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			receive(t, c, "stops")
			if code := c.closeCode(t); code != websocket.CloseGoingAway {
				t.Errorf("close code %d", code)
			}
			c.Close()
		})
	}
	f.end(t)
	wg.Wait()
	if code := s.open(t, "/bin").closeCode(t); code != websocket.CloseTryAgainLater {
		t.Errorf("close code %d for one that came later", code)
	}
}

// A client that does not read holds up neither Kick nor Shutdown, whatever it
// made the broker write.
func TestWebSocketClientThatDoesNotRead(t *testing.T) {
	for _, what := range []string{"answers", "pings"} {
		limits := testConfig()
		s, f := carrying(t, DefaultWebSocketConfig(), limits)
		client := s.open(t, "/bin")
		send(t, client, "in")
		receive(t, client, "in")
		r := f.of(t, client)
		if what == "answers" {
			for range 30 {
				send(t, client, "flood")
			}
			soon(t, "bytes wait", func() bool { return r.conn.Outbox.Unsent() > 64<<10 })
		}
		if what == "pings" {
			for range 1000 {
				if _, err := client.NetConn().Write(masked(0x89, make([]byte, 100))); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.conn.Kick(ErrKicked)
		within(t, "the connection ended", r.ended)
		f.end(t)
	}
}

// In a bubble, over a pipe: time is the test's.
func piped(t *testing.T, cfg WebSocketConfig) (client *websocket.Conn, server net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	conns := make(chan net.Conn, 1)
	ws := NewWebSocket(cfg, slog.New(slog.DiscardHandler))
	go upgradeOver(there, ws.Only(Carried{Serve: func(c net.Conn) { conns <- c }}))
	d := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) { return here, nil }}
	client, _, err := d.Dial("ws://localhost/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return client, <-conns
}

// upgradeOver answers one request on c.
func upgradeOver(c net.Conn, h http.Handler) {
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	h.ServeHTTP(&takenOver{httptest.NewRecorder(), c, in}, r)
}

// takenOver is a response of which only the connection is wanted.
type takenOver struct {
	http.ResponseWriter
	conn net.Conn
	in   *bufio.Reader
}

func (o *takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return o.conn, bufio.NewReadWriter(o.in, bufio.NewWriter(o.conn)), nil
}

// The broker pings; who answers, or says anything, stays, and who does not is
// given time.
func TestWebSocketPings(t *testing.T) {
	cfg := DefaultWebSocketConfig()
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprint("answers ", answers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := piped(t, cfg)
				var pings atomic.Int32
				pong := client.PingHandler()
				client.SetPingHandler(func(data string) error {
					pings.Add(1)
					if answers {
						return pong(data)
					}
					return nil
				})
				go func() { _, _, _ = client.ReadMessage() }()
				start := time.Now()
				if answers {
					time.AfterFunc(time.Hour, func() { _ = server.SetReadDeadline(time.Now()) })
				}
				_, err := server.Read(make([]byte, 1))
				took := time.Since(start)
				if answers && (took != time.Hour || pings.Load() < 119) || !answers && (took != cfg.PongTimeout || !errors.Is(err, ErrTimeout)) {
					t.Errorf("ended after %v and %d pings: %v", took, pings.Load(), err)
				}
				server.Close()
				client.Close()
			})
		})
	}
}

// A ping that finds the socket full does not wait for ever, and ends the write
// that is stuck.
func TestWebSocketPingFindsTheSocketFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultWebSocketConfig()
		client, server := piped(t, cfg) // a pipe holds nothing, and nobody reads
		start := time.Now()
		_, err := server.Write([]byte("x"))
		if took := time.Since(start); err == nil || took != cfg.Ping+cfg.PongTimeout {
			t.Errorf("ended after %v: %v", took, err)
		}
		if _, err := server.Read(make([]byte, 1)); err == nil {
			t.Error("a read goes on")
		}
		server.Close()
		client.Close()
	})
}

func TestWebSocketDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultWebSocketConfig()
		cfg.Ping = 0
		client, server := piped(t, cfg)
		start := time.Now()
		_ = server.SetDeadline(start.Add(time.Hour))
		if _, err := server.Read(make([]byte, 1)); err == nil || time.Since(start) != time.Hour {
			t.Errorf("read ended after %v: %v", time.Since(start), err)
		}
		_ = server.SetWriteDeadline(time.Now().Add(time.Hour))
		if _, err := server.Write([]byte("x")); err == nil || time.Since(start) != 2*time.Hour {
			t.Errorf("write ended after %v: %v", time.Since(start), err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		client.Close()
	})
}

// A deadline that was set while a write is under way holds for that one.
func TestWebSocketDeadlineOfAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := piped(t, DefaultWebSocketConfig())
		done := make(chan error, 1)
		go func() {
			_, err := server.Write(make([]byte, 1<<20))
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		_ = server.SetWriteDeadline(start.Add(time.Second))
		if err := <-done; err == nil || time.Since(start) != time.Second {
			t.Errorf("ended after %v: %v", time.Since(start), err)
		}
		server.Close()
		client.Close()
	})
}

func TestWebSocketPeerThatVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := piped(t, DefaultWebSocketConfig())
		go client.NetConn().Close()
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("error %v", err)
		}
		server.Close()
	})
}
