package adapters

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// A client that offers compression is not given any, whatever its parameters,
// so that nothing small unpacks to something large (fault 14).
func TestUpgradeAgreesOnNoCompression(t *testing.T) {
	s, _ := carrying(t, DefaultWebSocketConfig(), testConfig())
	for _, offer := range []string{"permessage-deflate", "permessage-deflate; client_max_window_bits; server_no_context_takeover", "x-webkit-deflate-frame"} {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, "GET /bin HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: "+offer+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Extensions") != "" {
			t.Errorf("%s: %v, %v", offer, resp, err)
		}
		if _, err := c.Write(masked(0xC2, []byte{0x00})); err != nil { // compressed, and empty
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || len(b) < 4 || b[0] != 0x88 || int(b[2])<<8|int(b[3]) != websocket.CloseProtocolError {
			t.Errorf("%s: %x, %v", offer, b, err)
		}
		_ = c.Close()
	}
}

// A client that opened a WebSocket and says nothing, or only pings, has no more
// time to log in than others (faults 1 and 66).
func TestUpgradeThenSilence(t *testing.T) {
	for _, pings := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.LoginTimeout = 5 * time.Second
			f := newFixture(cfg, nil)
			client, server := piped(t, DefaultWebSocketConfig())
			r := f.serve(server)
			go func() { _, _ = io.Copy(io.Discard, client.NetConn()) }()
			begin := time.Now()
			for pings {
				if err := client.WriteControl(websocket.PingMessage, nil, time.Time{}); err != nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			<-r.ended
			between(t, "the end", time.Since(begin), 5*time.Second, 5*time.Second+2*tick)
			if !errors.Is(r.err, ErrTimeout) {
				t.Errorf("Closed(%v)", r.err)
			}
			_ = client.Close()
			f.end(t)
		})
	}
}
