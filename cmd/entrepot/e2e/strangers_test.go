package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Bytes by which a client of a protocol comes in and publishes to topic t.
const (
	mqttBytes  = "\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a" + "\x30\x04\x00\x01tx"
	stompBytes = "CONNECT\naccept-version:1.2\nhost:/\n\n\x00SEND\ndestination:/topic/t\n\nx\x00"
	amqpBytes  = "AMQP\x00\x00\x09\x01\x01\x00\x00\x00\x00\x00\x1d\x00\x0a\x00\x0b\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x06\x00a\x00bcd\x05en_US\xce"
	tlsBytes   = "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"
	upgrade    = "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)

// posted is what a browser sends for a form or a fetch with that body.
func posted(body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost:1883\r\nOrigin: https://evil.example\r\n"+
		"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// streams are the protocols that have ports of their own, by how to connect.
func (b *broker) streams() map[string]func() net.Conn {
	return map[string]func() net.Conn{"mqtt": b.dialMQTT, "stomp": b.dialSTOMP, "amqp": b.dialAMQP}
}

// exchange sends bytes and returns what comes until nothing moves any more, and
// whether the broker has closed.
func exchange(conn net.Conn, text string) (got string, closed bool) {
	var mu sync.Mutex
	go func() {
		// It may have been closed after the first bytes.
		_, _ = conn.Write([]byte(text))
	}()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			mu.Lock()
			got += string(buf[:n])
			closed = err == io.EOF
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	return got, closed
}

// TestForeignBytes: what a web page can make a browser send to a raw port, and
// what belongs to another port, ends the connection at its first bytes, and
// nothing that comes behind them is acted on (fault 63).
func TestForeignBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		st := &stage{broker: b, actors: map[string]actor{}, made: map[string]string{}}
		defer st.leave(t)
		st.must(t, "mqtt5 connect watch", "mqtt5 sub watch #")
		for protocol, dial := range b.streams() {
			for name, text := range map[string]string{
				"POST of MQTT": posted(mqttBytes), "POST of STOMP": posted(stompBytes), "POST of AMQP": posted(amqpBytes),
				"POST of STOMP on a line": posted("\n\n" + stompBytes), "GET": "GET / HTTP/1.1\r\n\r\n", "WebSocket": upgrade,
				"TLS": tlsBytes + strings.Repeat("\x00", 512), "mqtt": mqttBytes, "stomp": stompBytes, "amqp": amqpBytes,
			} {
				if name == protocol {
					continue
				}
				conn := dial()
				got, closed := exchange(conn, text)
				if !closed || len(got) > 512 {
					t.Errorf("%s to %s: closed %v, answer %q", name, protocol, closed, got)
				}
				_ = conn.Close()
			}
		}
		st.must(t, "mqtt5 ping watch")
		if n := b.core.Stats().Sessions; n != 1 {
			t.Errorf("%d sessions, want the watcher's alone", n)
		}
	})
}

// must plays lines of a scenario in which nothing is to come.
func (st *stage) must(t *testing.T, lines ...string) {
	t.Helper()
	s, err := parseScript("== \n" + strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range s.sections[0].steps {
		if got, err := st.act(step); err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %q", step.text, err, got)
		}
	}
}

// TestBrokenFrames: frames that are none, before and after the log-in, end their
// own connection; those of every other protocol and newcomers notice nothing
// (fault 23).
func TestBrokenFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		st := &stage{broker: b, actors: map[string]actor{}, made: map[string]string{}}
		defer st.leave(t)
		st.must(t, "mqtt3 connect m3", "mqtt3 sub m3 good", "mqtt5 connect m5", "mqtt5 sub m5 good", "stomp connect s",
			"stomp sub s /topic/good id:1", "amqp connect a", "amqp sub a amq.topic good", "wamp connect w", "wamp sub w good")
		zeros, ones := strings.Repeat("\x00", 3000), strings.Repeat("\xff", 3000)
		for protocol, in := range map[string]string{"mqtt": mqttBytes, "stomp": stompBytes, "amqp": "AMQP\x00\x00\x09\x01"} {
			for _, text := range []string{zeros + "\x01", ones, in + ones, in + "\x01" + zeros, in + "\xf0\xff\xff\xff\xff\xff" + ones} {
				conn := b.streams()[protocol]()
				if got, closed := exchange(conn, text); !closed {
					t.Errorf("%s %.20q is borne, %q", protocol, text, got)
				}
				_ = conn.Close()
			}
		}
		for _, sub := range []string{"wamp.2.json", "wamp.2.msgpack", "wamp.2.cbor"} {
			for _, text := range []string{zeros, ones, "\x82\x80\x00\x00\x00\x00", "\x81\x83\x00\x00\x00\x00[[["} {
				conn := b.dialWAMP(sub)
				if got, closed := exchange(conn, text); !closed {
					t.Errorf("%s %.20q is borne, %q", sub, text, got)
				}
				_ = conn.Close()
			}
		}
		st.must(t, "coap connect c")
		c := st.actors["c"].(*coapActor)
		to := c.link.(udpLink)
		for _, text := range []string{"", "\x00", "\xff", zeros[:1000], ones[:1000], "\x40\x01", "\x4f\x01\x00\x01" + ones[:20]} {
			to.net.in <- coapDatagram{[]byte(text), to.from}
		}
		synctest.Wait()
		c.box.take()
		for _, line := range []string{"mqtt5 pub m5 good \"1\"", "stomp send s /topic/good \"2\"", "coap put c /t/good \"3\""} {
			if n := st.reached(t, line); n < 5 {
				t.Errorf("%s reaches %d of 5", line, n)
			}
		}
		st.must(t, "mqtt5 connect new", "stomp connect newer", "amqp connect newest", "wamp connect last")
	})
}

// reached plays a line and counts the clients that a message came to.
func (st *stage) reached(t *testing.T, line string) int {
	t.Helper()
	s, err := parseScript("== \n" + line)
	if err != nil {
		t.Fatal(err)
	}
	got, err := st.act(s.sections[0].steps[0])
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range got {
		for _, kind := range []string{" PUBLISH ", " MESSAGE ", " DELIVER ", " EVENT "} {
			if strings.Contains(e, kind) {
				n++
			}
		}
	}
	return n
}

// TestClaims: frames that claim to be huge, before and after the log-in, cost
// what came of them and no more (fault 2).
func TestClaims(t *testing.T) {
	b := startBroker(t)
	defer b.stop(t)
	const each, most = 100, 48 << 10 // a client that is logged in costs some 30 KiB with the race detector
	stomp := func(frame string) string { return "CONNECT\naccept-version:1.2\n\n\x00" + frame }
	for name, c := range map[string]struct {
		dial func() net.Conn
		text string
	}{
		"MQTT before log-in":       {b.dialMQTT, "\x10\xff\xff\x03\x00\x04MQTT"},
		"MQTT after log-in":        {b.dialMQTT, "\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00\x30\x80\x80\x80\x04\x00\x01t"},
		"STOMP after log-in":       {b.dialSTOMP, stomp("SEND\ndestination:/topic/t\ncontent-length:1000000\n\nx")},
		"AMQP before log-in":       {b.dialAMQP, "AMQP\x00\x00\x09\x01\x01\x00\x00\x00\x00\x0f\xff\x00"},
		"WAMP before log-in":       {func() net.Conn { return b.dialWAMP("wamp.2.json") }, "\x81\xfe\xf0\x00\x01\x02\x03\x04["},
		"WAMP that claims a batch": {func() net.Conn { return b.dialWAMP("wamp.2.msgpack.batched") }, "\x82\x85\x00\x00\x00\x00\x00\x00\xff\xff\x91"},
	} {
		// What others leave behind is let go of once; what a claim costs comes again.
		grown := claimCost(c.dial, c.text, each)
		for range 2 {
			if grown > each*most {
				grown = min(grown, claimCost(c.dial, c.text, each))
			}
		}
		if grown > each*most {
			t.Errorf("%s: %d bytes a connection, at most %d", name, grown/each, most)
		}
	}
}

// claimCost is what n connections that wrote text take of the heap.
func claimCost(dial func() net.Conn, text string, n int) int64 {
	before := heapBytes()
	var conns []net.Conn
	for range n {
		conn := dial()
		conns = append(conns, conn)
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		// A pipe's Write returns when all has been read, or the broker has closed.
		_, _ = conn.Write([]byte(text))
	}
	grown := heapBytes() - before
	for _, conn := range conns {
		_ = conn.Close()
	}
	return grown
}
