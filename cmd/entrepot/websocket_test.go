package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// page is a WebSocket of a client that speaks in bytes.
type page struct {
	*websocket.Conn
	t *testing.T
}

// opened connects to a path of the broker.
func (b *broker) opened(t *testing.T, path string, names ...string) page {
	t.Helper()
	d := websocket.Dialer{Subprotocols: names}
	c, resp, err := d.Dial(strings.Replace(b.http, "http", "ws", 1)+path, nil)
	if err != nil {
		t.Fatalf("%s: %v, %v", path, err, resp)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(limit))
	return page{c, t}
}

func (p page) send(kind int, text string) {
	p.t.Helper()
	if err := p.WriteMessage(kind, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// await reads messages until one holds want.
func (p page) await(want string) (kind int, message string) {
	p.t.Helper()
	for {
		kind, b, err := p.ReadMessage()
		if err != nil {
			p.t.Fatalf("waiting for %q: %v", want, err)
		}
		if strings.Contains(string(b), want) {
			return kind, string(b)
		}
	}
}

const (
	mqttConnect  = "\x10\x0D\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00" // MQTT 5, clean start, no keep-alive, no id
	stompConnect = "CONNECT\naccept-version:1.2\nhost:/\n\n\x00"
)

// Who names no sub-protocol at /ws gets what the settings say, as RabbitMQ's
// clients expect.
func TestWebSocketOfClientsThatNameNoProtocol(t *testing.T) {
	t.Setenv("ENTREPOT_WEBSOCKET_UNNAMED", "stomp")
	b := start(t)
	plain := b.opened(t, "/ws")
	plain.send(websocket.TextMessage, stompConnect)
	plain.await("CONNECTED")
	device := b.opened(t, "/ws", "mqtt")
	device.send(websocket.BinaryMessage, mqttConnect)
	device.await("\x20")
}

// A device and a page, each by WebSocket, meet as over TCP.
func TestWebSocketCrossing(t *testing.T) {
	b := start(t)
	device, worker := b.opened(t, "/mqtt"), b.opened(t, "/ws", "v12.stomp")
	device.send(websocket.BinaryMessage, mqttConnect[:5])
	device.send(websocket.BinaryMessage, mqttConnect[5:])
	device.await("\x20")
	worker.send(websocket.TextMessage, stompConnect)
	if kind, _ := worker.await("CONNECTED\nversion:1.2\n"); kind != websocket.TextMessage {
		t.Errorf("CONNECTED came in a message of kind %d", kind)
	}
	worker.send(websocket.TextMessage, "SUBSCRIBE\nid:1\ndestination:/topic/plant.*\nrece")
	worker.send(websocket.BinaryMessage, "ipt:r\n\n\x00\n\n")
	worker.await("RECEIPT\nreceipt-id:r\n")
	device.send(websocket.BinaryMessage, "\x30\x0E\x00\x07plant/7\x0021.5")
	if kind, m := worker.await("destination:/topic/plant.7"); kind != websocket.TextMessage || !strings.HasSuffix(strings.TrimRight(m, "\n"), "\n\n21.5\x00") {
		t.Errorf("kind %d: %q", kind, m)
	}
	device.send(websocket.BinaryMessage, "\x30\x0B\x00\x07plant/8\x00\xFF")
	if kind, m := worker.await("destination:/topic/plant.8"); kind != websocket.BinaryMessage || !strings.Contains(m, "\n\n\xFF\x00") {
		t.Errorf("kind %d: %q", kind, m)
	}

	device.send(websocket.BinaryMessage, "\x82\x09\x00\x01\x00\x00\x03a/b\x00")
	device.await("\x90")
	worker.send(websocket.TextMessage, "SEND\ndestination:/topic/a.b\n\nhello\x00")
	if kind, m := device.await("hello"); kind != websocket.BinaryMessage || m[0] != 0x30 {
		t.Errorf("kind %d: %q", kind, m)
	}
}

// A protocol that is closed is closed here too.
func TestWebSocketOfAClosedProtocol(t *testing.T) {
	ctx, cancel := contextOf(t)
	b := &broker{log: newText(), stop: cancel, code: make(chan int, 1)}
	go func() {
		args := []string{"serve", "--memory", "--mqtt", "127.0.0.1:0", "--stomp", "off", "--amqp", "off", "--coap", "off", "--http", "127.0.0.1:0"}
		b.code <- run(ctx, args, nil, io.Discard, b.log)
	}()
	b.log.await(t, "msg=ready")
	b.http = "http://" + b.address(t, "http")
	for path, want := range map[string]int{"/stomp": http.StatusNotFound, "/mqtt": http.StatusUpgradeRequired, "/ws": http.StatusUpgradeRequired} {
		if code, _ := get(t, b.http+path); code != want {
			t.Errorf("%s: status %d, want %d", path, code, want)
		}
	}
	cancel()
	b.ended(t)
}

// The HTTP server's limits are its own.
func TestWebSocketsAreNoRequests(t *testing.T) {
	t.Setenv("ENTREPOT_HTTP_MAX_CONNECTIONS", "3")
	t.Setenv("ENTREPOT_HTTP_WRITE_TIMEOUT", "100ms")
	b := start(t)
	pages := make([]page, 20)
	for i := range pages {
		pages[i] = b.opened(t, "/ws", "mqtt")
		pages[i].send(websocket.BinaryMessage, mqttConnect)
		pages[i].await("\x20")
	}
	if code, _ := get(t, b.http+"/readyz"); code != 200 {
		t.Errorf("status %d", code)
	}
	if _, metrics := get(t, b.http+"/metrics"); !strings.Contains(metrics, `entrepot_connections{protocol="mqtt"} 20`) {
		t.Error("the connections are not counted as MQTT's")
	}

	// The stop tells them in their own words (MQTT 5, 3.14: 0x8B), then closes.
	b.stop()
	for _, p := range pages {
		_, m, err := p.ReadMessage()
		if err != nil || !strings.Contains(string(m), "\x8B") {
			t.Fatalf("told %q, %v", m, err)
		}
		if _, _, err = p.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Errorf("ended by %v", err)
		}
	}
	if code := b.ended(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, b.log)
	}
}

// A page from elsewhere gets nowhere, nor does one by a name of its own for
// this machine.
// It shows fault 61.
func TestForeignPages(t *testing.T) {
	t.Setenv("ENTREPOT_WEBSOCKET_ORIGINS", "https://app.example")
	b := start(t)
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"", "", 101},
		{"", b.http, 101},
		{"", "https://app.example", 101},
		{"", "https://evil.example", http.StatusForbidden},
		{"", "null", http.StatusForbidden},
		{"evil.example", "http://evil.example", http.StatusMisdirectedRequest},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.http+"/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		for _, h := range []string{
			"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: mqtt",
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Origin: " + c.origin,
		} {
			if name, value, _ := strings.Cut(h, ": "); value != "" {
				r.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 101 {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("host %q, origin %q: status %d, want %d", c.host, c.origin, resp.StatusCode, c.status)
		}
		if resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("headers %v", resp.Header)
		}
	}
}

// [MQTT-3.1.4-3]: who comes with the same client id takes over, also between
// carriers; the first is told.
// It shows fault 72.
func TestWebSocketSessionTakenOver(t *testing.T) {
	b := start(t)
	const connect = "\x10\x0F\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x02me"
	first, second := b.opened(t, "/mqtt", "mqtt"), b.opened(t, "/mqtt", "mqtt")
	first.send(websocket.BinaryMessage, connect)
	first.await("\x20")
	second.send(websocket.BinaryMessage, connect)
	second.await("\x20")
	first.await("\xE0")
	if _, _, err := first.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation, websocket.CloseGoingAway) {
		t.Errorf("ended by %v", err)
	}
}
