package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gammazero/nexus/v3/client"
	"github.com/gammazero/nexus/v3/transport/serialize"
	"github.com/gammazero/nexus/v3/wamp"
	"github.com/gorilla/websocket"
)

// silent is a logger.
type silent struct{}

func (silent) Print(...any)          {}
func (silent) Println(...any)        {}
func (silent) Printf(string, ...any) {}

func (b *broker) wampClient(t *testing.T, s serialize.Serialization) *client.Client {
	t.Helper()
	c, err := client.ConnectNet(context.Background(), strings.Replace(b.http, "http", "ws", 1)+"/ws",
		client.Config{Realm: "realm1", Serialization: s, ResponseTimeout: limit, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test may have closed it.
		_ = c.Close()
	})
	return c
}

// nexus's client meets itself and an MQTT device, in each serialization.
func TestWAMPClients(t *testing.T) {
	b := start(t)
	device := b.opened(t, "/mqtt")
	device.send(websocket.BinaryMessage, mqttConnect)
	device.await("\x20")
	for _, s := range []serialize.Serialization{serialize.JSON, serialize.MSGPACK, serialize.CBOR} {
		callee, caller := b.wampClient(t, s), b.wampClient(t, serialize.JSON)
		events := make(chan *wamp.Event, 10)
		if err := callee.SubscribeChan("plant.7", events, nil); err != nil {
			t.Fatal(err)
		}
		device.send(websocket.BinaryMessage, "\x30\x0E\x00\x07plant/7\x0021.5")
		if e := next(t, events); e.Arguments[0] != "21.5" {
			t.Errorf("event %v", e.Arguments)
		}
		large := strings.Repeat("0123456789", 30_000)
		if err := caller.Publish("plant.7", wamp.Dict{"acknowledge": true}, wamp.List{large, 1}, wamp.Dict{"k": "v"}); err != nil {
			t.Fatal(err)
		}
		if e := next(t, events); e.Arguments[0] != large || e.ArgumentsKw["k"] != "v" {
			t.Errorf("event %.60v %v", e.Arguments, e.ArgumentsKw)
		}
		add := func(_ context.Context, i *wamp.Invocation) client.InvokeResult {
			x, _ := wamp.AsInt64(i.Arguments[0])
			if x < 0 {
				return client.InvokeResult{Err: "com.negative", Args: wamp.List{x}}
			}
			return client.InvokeResult{Args: wamp.List{x + 1}}
		}
		if err := callee.Register("add.one", add, nil); err != nil {
			t.Fatal(err)
		}
		r, err := caller.Call(context.Background(), "add.one", nil, wamp.List{41}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := wamp.AsInt64(r.Arguments[0]); n != 42 {
			t.Errorf("result %v", r.Arguments)
		}
		_, err = caller.Call(context.Background(), "add.one", nil, wamp.List{-1}, nil, nil)
		if rpc, ok := errors.AsType[client.RPCError](err); !ok || rpc.Err.Error != "com.negative" {
			t.Errorf("error %v", err)
		}
		if err := callee.Close(); err != nil {
			t.Error(err)
		}
	}
}

func next(t *testing.T, events chan *wamp.Event) *wamp.Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(limit):
		t.Fatal("no event")
		return nil
	}
}

// fault 61: a page from elsewhere, or from nowhere, does not
// get in.
func TestWAMPOrigins(t *testing.T) {
	b := start(t)
	url := strings.Replace(b.http, "http", "ws", 1) + "/ws"
	d := websocket.Dialer{Subprotocols: []string{"wamp.2.json"}}
	for origin, want := range map[string]int{
		"https://evil.example": http.StatusForbidden, "null": http.StatusForbidden,
		strings.Replace(b.http, "http", "https", 1): http.StatusForbidden, b.http: http.StatusSwitchingProtocols, "": http.StatusSwitchingProtocols,
	} {
		h := http.Header{}
		if origin != "" {
			h.Set("Origin", origin)
		}
		c, resp, err := d.Dial(url, h)
		if resp == nil || resp.StatusCode != want {
			t.Errorf("origin %q: %v, %v", origin, resp, err)
		}
		if c != nil {
			if c.Subprotocol() != "wamp.2.json" {
				t.Errorf("sub-protocol %q", c.Subprotocol())
			}
			c.Close()
		}
	}
	if _, resp, err := (&websocket.Dialer{Subprotocols: []string{"wamp.2.flatbuffers"}}).Dial(url, nil); err == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("unknown sub-protocol: %v, %v", resp, err)
	}
}

// The page's session is the user's who logged in there, until the log-out; the
// cookie is nothing without the page's origin, and to who does not ask for it.
func TestWAMPCookie(t *testing.T) {
	b := withUsers(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.http+"/login", strings.NewReader(`{"user":"ann","password":"p:w"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", b.http)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cookie := strings.Split(resp.Header.Get("Set-Cookie"), ";")[0]
	hello := func(origin, cookie, method string) (*websocket.Conn, string) {
		h := http.Header{"Cookie": {cookie}}
		if origin != "" {
			h.Set("Origin", origin)
		}
		c, _, err := (&websocket.Dialer{Subprotocols: []string{"wamp.2.json"}}).Dial(strings.Replace(b.http, "http", "ws", 1)+"/ws", h)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.WriteMessage(websocket.TextMessage, []byte(`[1,"realm1",{"roles":{"caller":{}},"authmethods":["`+method+`"]}]`)); err != nil {
			t.Fatal(err)
		}
		_, m, err := c.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		return c, string(m)
	}
	c, m := hello(b.http, cookie, "cookie")
	if !strings.HasPrefix(m, "[2,") || !strings.Contains(m, `"authid":"ann"`) || !strings.Contains(m, `"authmethod":"cookie"`) {
		t.Errorf("welcome %s", m)
	}
	for _, bad := range [][3]string{{"", cookie, "cookie"}, {b.http, cookie, "anonymous"}, {b.http, cookie + "x", "cookie"}, {b.http, "", "cookie"}} {
		if _, m := hello(bad[0], bad[1], bad[2]); !strings.HasPrefix(m, "[3,") {
			t.Errorf("%q: %s", bad, m)
		}
	}
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, b.http+"/logout", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", b.http)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Cookie", cookie)
	if resp, err = http.DefaultClient.Do(r); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	_ = c.SetReadDeadline(time.Now().Add(limit))
	if _, _, err := c.ReadMessage(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("after the log-out: %v", err)
	}
	if _, m := hello(b.http, cookie, "cookie"); !strings.HasPrefix(m, "[3,") {
		t.Errorf("after the log-out: %s", m)
	}
}
