package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/pion/dtls/v3"
	amqp "github.com/rabbitmq/amqp091-go"

	"entrepot/core/auth"
)

// startNamed is an encrypted broker whose clients' certificates name users. ann
// may come by the listeners with TLS alone, and has the password "p:w" as bob has.
func startNamed(t *testing.T, env ...string) *encrypted {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	for name, listeners := range map[string]string{"ann": "tls:127.0.0.1:0,dtls:127.0.0.1:0", "bob": ""} {
		change := auth.Change{Password: "p:w", Attributes: map[string]string{"listeners": listeners}}
		if _, err := auth.ChangeUser(users, name, change); err != nil {
			t.Fatal(err)
		}
	}
	rules := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(rules, []byte("allow authenticated subscribe %u\nallow authenticated declare queue:%u\nallow user:ann admin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, setting := range append([]string{"AUTH_USERS=" + users, "AUTH_RULES=" + rules, "AUTH_CERTIFICATE_USER={cn}", "TLS_CLIENT_AUTH=request"}, env...) {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv("ENTREPOT_"+name, value)
	}
	return startEncrypted(t, "--memory", "--coap", "dtls:127.0.0.1:0")
}

// bearing is the settings of a client with ann's certificate, or with none.
func (e *encrypted) bearing(t *testing.T, certificate bool) *tls.Config {
	t.Helper()
	c := e.config(t)
	if certificate {
		pair, err := tls.LoadX509KeyPair(e.file("ann.pem"), e.file("ann.key"))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// connecting is CONNECT of MQTT 3.1.1, and a SUBSCRIBE to what ann may have and
// bob may have.
func connecting(user, password string) string {
	flags, fields := byte(2), "\x00\x00"
	if user != "" {
		flags, fields = flags|0x80, fields+field(user)
	}
	if password != "" {
		flags, fields = flags|0x40, fields+field(password)
	}
	body := "\x00\x04MQTT\x04" + string([]byte{flags}) + "\x00\x00" + fields
	return "\x10" + string([]byte{byte(len(body))}) + body + "\x82\x0E\x00\x01\x00\x03ann\x00\x00\x03bob\x00"
}

func field(text string) string { return "\x00" + string([]byte{byte(len(text))}) + text }

// brought is what a client says of itself beside its certificate, and whom that
// makes it; "" is refused.
type brought struct {
	certificate    bool
	user, password string
	who            string
}

func logIns() []brought {
	return []brought{
		{true, "", "", "ann"},
		{true, "ann", "", "ann"},
		{true, "bob", "", ""}, // another's name is not had by leaving out the password
		{true, "bob", "p:w", "bob"},
		{true, "bob", "wrong", ""},
		{true, "ann", "wrong", ""}, // and a wrong password is wrong
		{true, "", "p:w", ""},
		{false, "", "", ""},
		{false, "ann", "", ""},
	}
}

// A client that proved a certificate of ann's is ann where it says nothing else
// of who it is, and is nobody else but by a password.
// It shows faults 37 and 56.
func TestLogInByCertificate(t *testing.T) {
	e := startNamed(t)
	for _, c := range logIns() {
		cfg := e.bearing(t, c.certificate)
		for protocol, who := range map[string]string{
			"mqtt": e.overMQTT(t, cfg, c), "stomp": e.overSTOMP(t, cfg, c), "amqp PLAIN": e.overAMQP(t, cfg, &amqp.PlainAuth{Username: c.user, Password: c.password}),
			"http": e.overHTTP(t, cfg, c), "mqtt over WebSocket": e.overWebSocket(t, "wss://"+e.at(t, "http"), cfg, c),
		} {
			if who != c.who {
				t.Errorf("%s, %+v: let in as %q", protocol, c, who)
			}
		}
	}
}

func (e *encrypted) dialed(t *testing.T, protocol string, cfg *tls.Config, say string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", e.at(t, protocol), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(conn, say); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%q, %v", answer, err)
	}
	return string(answer)
}

// overMQTT logs in and says who the broker takes the client for.
func (e *encrypted) overMQTT(t *testing.T, cfg *tls.Config, c brought) string {
	t.Helper()
	return knownBy(e.dialed(t, "mqtt", cfg, connecting(c.user, c.password)+"\xE0\x00"))
}

// knownBy is who got what MQTT answered.
func knownBy(answer string) string {
	switch answer {
	case "\x20\x02\x00\x00\x90\x04\x00\x01\x00\x80":
		return "ann"
	case "\x20\x02\x00\x00\x90\x04\x00\x01\x80\x00":
		return "bob"
	case "\x20\x02\x00\x04", "\x20\x02\x00\x05", "": // closed: a password without a user, [MQTT-3.1.2-22]
		return ""
	}
	return fmt.Sprintf("?%x", answer)
}

func (e *encrypted) overWebSocket(t *testing.T, url string, cfg *tls.Config, c brought) string {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"mqtt"}, TLSClientConfig: cfg}
	ws, _, err := d.Dial(url+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	_ = ws.SetReadDeadline(time.Now().Add(limit))
	if err := ws.WriteMessage(websocket.BinaryMessage, []byte(connecting(c.user, c.password)+"\xE0\x00")); err != nil {
		t.Fatal(err)
	}
	all := ""
	for {
		_, b, err := ws.ReadMessage()
		if err != nil {
			return knownBy(all)
		}
		all += string(b)
	}
}

func (e *encrypted) overSTOMP(t *testing.T, cfg *tls.Config, c brought) string {
	t.Helper()
	say := "CONNECT\naccept-version:1.2\nhost:/\n"
	if c.user != "" {
		say += "login:" + c.user + "\n"
	}
	if c.password != "" {
		say += "passcode:" + c.password + "\n"
	}
	answer := e.dialed(t, "stomp", cfg, say+"\n\x00SUBSCRIBE\nid:1\ndestination:/topic/ann\nreceipt:r\n\n\x00DISCONNECT\n\n\x00")
	switch connected, receipt := strings.HasPrefix(answer, "CONNECTED\n"), strings.Contains(answer, "RECEIPT\n"); {
	case connected && receipt:
		return "ann"
	case connected:
		return "bob"
	case strings.HasPrefix(answer, "ERROR\nmessage:access refused\n"):
		return ""
	}
	return "?" + answer
}

func (e *encrypted) overAMQP(t *testing.T, cfg *tls.Config, how amqp.Authentication) string {
	t.Helper()
	conn, err := amqp.DialConfig("amqps://"+e.at(t, "amqp")+"/", amqp.Config{SASL: []amqp.Authentication{how}, TLSClientConfig: cfg})
	if err != nil {
		return ""
	}
	defer conn.Close()
	for _, name := range []string{"ann", "bob"} {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclare(name, false, true, false, false, nil); err == nil {
			return name
		}
	}
	return "?"
}

func (e *encrypted) overHTTP(t *testing.T, cfg *tls.Config, c brought) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+e.at(t, "http")+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.user != "" || c.password != "" {
		r.SetBasicAuth(c.user, c.password)
	}
	transport := &http.Transport{TLSClientConfig: cfg}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	who, ok := map[int]string{http.StatusOK: "ann", http.StatusForbidden: "bob", http.StatusUnauthorized: ""}[resp.StatusCode]
	if !ok {
		return resp.Status
	}
	return who
}

// [AMQP-1.4.2.2] EXTERNAL is the certificate's user, and whom the response names
// has to be that one (RFC 4422, A).
func TestExternalByCertificate(t *testing.T) {
	e := startNamed(t)
	for _, c := range []struct {
		certificate bool
		response    string
		who         string
	}{{true, "", "ann"}, {true, "ann", "ann"}, {true, "bob", ""}, {false, "", ""}, {false, "ann", ""}} {
		if who := e.overAMQP(t, e.bearing(t, c.certificate), external(c.response)); who != c.who {
			t.Errorf("%+v: let in as %q", c, who)
		}
	}
}

// external is the mechanism with a response of its own.
type external string

func (external) Mechanism() string  { return "EXTERNAL" }
func (e external) Response() string { return string(e) }

// The method tls over wss (WAMP, Authentication), asked for or not, for the
// certificate's user alone; anonymous stays anonymous.
func TestWAMPByCertificate(t *testing.T) {
	e := startNamed(t)
	for _, c := range []struct {
		certificate bool
		details     string
		authid      string
	}{
		{true, `"authmethods":["tls"]`, "ann"},
		{true, `"authmethods":["tls"],"authid":"ann"`, "ann"},
		{true, `"x":1`, "ann"},
		{true, `"authmethods":["tls"],"authid":"bob"`, ""},
		{true, `"authmethods":["anonymous"]`, ""},
		{false, `"authmethods":["tls"],"authid":"ann"`, ""},
		{false, `"x":1`, ""},
	} {
		d := websocket.Dialer{Subprotocols: []string{"wamp.2.json"}, TLSClientConfig: e.bearing(t, c.certificate)}
		ws, _, err := d.Dial("wss://"+e.at(t, "http")+"/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = ws.SetReadDeadline(time.Now().Add(limit))
		if err := ws.WriteMessage(websocket.TextMessage, []byte(`[1,"realm1",{"roles":{"caller":{}},`+c.details+`}]`)); err != nil {
			t.Fatal(err)
		}
		_, m, err := ws.ReadMessage()
		ws.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := `"authid":"` + c.authid + `"`
		if c.authid == "" && !strings.HasPrefix(string(m), "[3,") || c.authid != "" && !(strings.HasPrefix(string(m), "[2,") && strings.Contains(string(m), want)) {
			t.Errorf("%+v: %s", c, m)
		}
	}
}

// CoAP has nothing but the certificate, over TLS (RFC 8323) and DTLS.
func TestCoAPByCertificate(t *testing.T) {
	e := startNamed(t)
	const get = "\xB1t\x03ann" // Uri-Path
	for _, certificate := range []bool{true, false} {
		cfg := e.bearing(t, certificate)
		want := map[bool]string{true: "nothing is kept", false: "clients have to log in"}[certificate]
		stream, err := tls.Dial("tcp", e.at(t, "coap"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		askFor(t, stream, "\x00\xE1\x60\x01"+get, want)
		to, err := net.ResolveUDPAddr("udp", regexp.MustCompile(`protocol=coap address=(\S+) transport=dtls`).FindStringSubmatch(e.log.String())[1])
		if err != nil {
			t.Fatal(err)
		}
		options := []dtls.ClientOption{dtls.WithRootCAs(cfg.RootCAs), dtls.WithServerName("localhost")}
		if certificate {
			options = append(options, dtls.WithCertificates(cfg.Certificates...))
		}
		datagrams, err := dtls.DialWithOptions("udp", to, options...)
		if err != nil {
			t.Fatal(err)
		}
		askFor(t, datagrams, "\x40\x01\x00\x01"+get, want)
	}
}

// askFor sends a request, and waits until the answer holds a text.
func askFor(t *testing.T, c net.Conn, request, want string) {
	t.Helper()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	for all, b := "", make([]byte, 2000); !strings.Contains(all, want); {
		n, err := c.Read(b)
		if all += string(b[:n]); err != nil {
			t.Fatalf("%q, %v: no %q", all, err, want)
		}
	}
}

// With certificate.always a password is no way around the certificate.
func TestCertificateAlways(t *testing.T) {
	e := startNamed(t, "AUTH_CERTIFICATE_ALWAYS=true")
	for _, c := range []brought{{true, "bob", "p:w", ""}, {true, "ann", "wrong", "ann"}, {true, "", "", "ann"}, {false, "bob", "p:w", "bob"}} {
		cfg := e.bearing(t, c.certificate)
		if who := e.overMQTT(t, cfg, c); who != c.who {
			t.Errorf("MQTT: %+v: let in as %q", c, who)
		}
		if who := e.overAMQP(t, cfg, &amqp.PlainAuth{Username: c.user, Password: c.password}); who != c.who {
			t.Errorf("AMQP: %+v: let in as %q", c, who)
		}
	}
}

// A user's listeners count for WebSockets too: those are of the HTTP listener that
// they came by.
func TestListenersOfAUser(t *testing.T) {
	e := startNamed(t)
	ann, bob := brought{false, "ann", "p:w", "ann"}, brought{false, "bob", "p:w", "bob"}
	secure, plain := "wss://"+e.at(t, "http"), "ws"+strings.TrimPrefix(e.http, "http")
	for _, c := range []struct {
		url string
		brought
		who string
	}{{secure, ann, "ann"}, {secure, bob, "bob"}, {plain, ann, ""}, {plain, bob, "bob"}} {
		if who := e.overWebSocket(t, c.url, e.config(t), c.brought); who != c.who {
			t.Errorf("%s: %s is let in as %q", c.url, c.user, who)
		}
	}
}
