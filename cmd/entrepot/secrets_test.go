package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// Marks of what nobody may find again anywhere: a password, wrong ones, tokens.
const (
	rightMark = "Sesame-right-7f3a"
	wrongMark = "Sesame-wrong-9c1d"
)

// leaks runs a broker at log level debug and keeps all that it says.
type leaks struct {
	*testing.T
	*broker
	data, users string
	said        bytes.Buffer // answers, errors and outputs
}

// fault 58: secrets are nowhere in logs, answers, figures, errors and outputs,
// however a client logs in or fails to, and whatever an operator asks for.
func TestSecretsStaySecret(t *testing.T) {
	dir := t.TempDir()
	l := &leaks{T: t, data: filepath.Join(dir, "data"), users: filepath.Join(dir, "users")}
	if r := do(t, rightMark+"\n", "passwd", l.users, "ann"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	t.Setenv("ENTREPOT_AUTH_USERS", l.users)
	t.Setenv("ENTREPOT_LOG_LEVEL", "debug")
	l.broker = start(t, "--data", l.data)
	cookie := l.byPage()
	for _, password := range []string{rightMark, wrongMark} {
		l.byCommand(password)
		l.byMQTT(password)
		l.bySTOMP(password)
		l.byAMQP(password)
		l.byWAMP(password)
		l.byHTTP(password)
	}
	c, err := readControl(l.data)
	if err != nil {
		t.Fatal(err)
	}
	l.byOperator(c.Token, cookie)
	hash, err := os.ReadFile(l.users)
	if err != nil {
		t.Fatal(err)
	}
	_, hashed, _ := strings.Cut(strings.TrimSpace(string(hash)), ":")
	all := l.said.String() + l.log.String()
	for name, secret := range map[string]string{"password": rightMark, "wrong password": wrongMark, "control token": c.Token, "cookie": cookie,
		"hash": hashed, "password in base64": "U2VzYW1l", "password in hex": "536573616d65"} {
		if at := strings.Index(strings.ToLower(all), strings.ToLower(secret)); at >= 0 || secret == "" {
			t.Errorf("the %s is there: …%.300s", name, all[max(0, at-200):])
		}
	}
	for _, want := range []string{"level=DEBUG", "msg=audit", "entrepot_connections", "act=login outcome=done"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s: not everything was gathered", want)
		}
	}
}

// keep keeps what came.
func (l *leaks) keep(r result) { l.said.WriteString(r.out + r.errors) }

// byCommand logs in by the program's own clients.
func (l *leaks) byCommand(password string) {
	for _, url := range []string{l.mqtt + "/a", l.stomp + "/topic/a", "mqtt://127.0.0.1:1/a", "stomp://no host/topic/a"} {
		l.keep(do(l.T, "", "pub", as("ann:"+password, url), "x"))
	}
	l.keep(do(l.T, "", "pub", "-V", "3.1.1", as("ann:"+password, l.mqtt+"/a"), "x"))
	l.keep(do(l.T, "", "sub", "-W", "10ms", as("ann:"+password, l.mqtt+"/a")))
	l.keep(do(l.T, password+"\n", "queue", "list", "--url", l.http, "--user", "ann"))
	l.keep(do(l.T, password+"\n", "queue", "list", "--url", l.http, "--token", "-"))
	l.keep(do(l.T, "", "queue", "list", "--url", as("ann:"+password, l.http)))
}

// exchange sends bytes and keeps the answers, until the peer closes or is silent.
func (l *leaks) exchange(url string, messages ...string) {
	l.Helper()
	_, address, _ := strings.Cut(url, "://")
	c, err := net.Dial("tcp", address)
	if err != nil {
		l.Fatal(err)
	}
	defer c.Close()
	for _, m := range messages {
		if _, err := io.WriteString(c, m); err != nil {
			return
		}
	}
	if c, ok := c.(*net.TCPConn); ok { // the broker has all, and answers all
		_ = c.CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(limit))
	answer, _ := io.ReadAll(c)
	l.said.Write(answer)
}

// text16 is a text behind its length.
func text16(text string) string {
	return bigEndian(len(text), 2) + text
}

func bigEndian(n, bytes int) (text string) {
	for ; bytes > 0; bytes-- {
		text = string([]byte{byte(n)}) + text
		n >>= 8
	}
	return text
}

func (l *leaks) byMQTT(password string) {
	packet := func(flags byte, tail string) string {
		body := text16("MQTT") + "\x04" + bigEndian(int(flags), 1) + "\x00\x00" + text16("c") + tail
		return "\x10" + bigEndian(len(body), 1) + body
	}
	proof := text16("ann") + text16(password)
	for _, p := range []string{
		packet(0xC2, proof),
		packet(0xC2, proof+"more"),
		packet(0xC3, proof),                       // reserved flag
		packet(0xC2, proof[:len(proof)-3]),        // cut off
		packet(0x42, text16(password)),            // a password without a name
		packet(0x82, text16(password)),            // a password as the name
		packet(0xC2, text16("\xff")+password),     // no UTF-8
		packet(0xC2, proof) + "\xf0\x00",          // a packet that is not there
		packet(0xC2, proof) + packet(0xC2, proof), // twice
	} {
		l.exchange(l.mqtt, p)
	}
}

func (l *leaks) bySTOMP(password string) {
	proof := "login:ann\npasscode:" + password + "\n"
	for _, f := range []string{
		"CONNECT\naccept-version:1.2\nhost:/\n" + proof + "\n\x00",
		"CONNECT\naccept-version:9\nhost:/\n" + proof + "\n\x00",
		"CONNECT\naccept-version:1.2\nhost:/\n" + proof + "bad header\n\n\x00",
		"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:" + password + "\\x\n\n\x00",
		"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:" + password + "\n" + proof + "\n\x00",
		"SEND\ndestination:/topic/a\n" + proof + "\n\x00",
		"CONNECT\naccept-version:1.2\nhost:/\n" + proof + "\nbody\x00",
		"CONNECT\naccept-version:1.2\nhost:/\n" + proof + "\n\x00CONNECT\n" + proof + "\n\x00",
	} {
		if strings.Contains(f, "heart-beat:"+password) {
			continue // what stands in another header is no secret
		}
		l.exchange(l.stomp, f)
	}
}

func (l *leaks) byAMQP(password string) {
	startOK := func(mechanism, response string) string {
		args := "\x00\x0a\x00\x0b\x00\x00\x00\x00" + bigEndian(len(mechanism), 1) + mechanism +
			bigEndian(len(response), 4) + response + "\x05en_US"
		return "\x01\x00\x00" + bigEndian(len(args), 4) + args + "\xce"
	}
	amqp := "amqp://" + l.address(l.T, "amqp")
	for _, f := range []string{
		startOK("PLAIN", "\x00ann\x00"+password),
		startOK("PLAIN", "ann\x00"+password),
		startOK("PLAIN", password),
		startOK("AMQPLAIN", "\x05LOGINS\x00\x00\x00\x03ann\x08PASSWORDS"+"\x00\x00\x00\xff"+password),
		startOK("EXTERNAL", password),
		startOK("PLAIN", "\x00ann\x00"+password)[:40],
		strings.Replace(startOK("PLAIN", "\x00ann\x00"+password), "\xce", "\xcd", 1),
	} {
		l.exchange(amqp, "AMQP\x00\x00\x09\x01", f)
	}
}

func (l *leaks) byWAMP(password string) {
	for _, answer := range []string{`[5,"` + password + `",{}]`, `[5,["` + password + `"],{}]`, `[5,"` + password, `[99,"` + password + `"]`} {
		d := websocket.Dialer{Subprotocols: []string{"wamp.2.json"}}
		c, _, err := d.Dial(strings.Replace(l.http, "http", "ws", 1)+"/ws", nil)
		if err != nil {
			l.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(limit))
		for _, m := range []string{`[1,"realm1",{"roles":{"caller":{}},"authmethods":["ticket"],"authid":"ann"}]`, answer, `[6,{},"wamp.close.normal"]`} {
			_ = c.WriteMessage(websocket.TextMessage, []byte(m)) // it may be closed
			_, got, err := c.ReadMessage()
			l.said.Write(got)
			if err != nil {
				l.said.WriteString(err.Error())
				break
			}
		}
		c.Close()
	}
}

// ask sends a request and keeps the answer, without its cookie.
func (l *leaks) ask(method, path, body string, change func(*http.Request)) *http.Response {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), method, l.http+path, strings.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	change(r)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	l.said.WriteString(resp.Status)
	l.said.Write(text)
	for name, values := range resp.Header {
		if name != "Set-Cookie" {
			l.said.WriteString(strings.Join(values, " "))
		}
	}
	return resp
}

func (l *leaks) byHTTP(password string) {
	own := func(r *http.Request) { r.Header.Set("Origin", l.http) }
	for _, path := range []string{"/metrics", "/api/v1/queues", "/api/v1/delayed", "/", "/nothing"} {
		l.ask("GET", path, "", func(r *http.Request) { r.SetBasicAuth("ann", password) })
		l.ask("GET", path, "", func(r *http.Request) { r.SetBasicAuth("dora", password) })
		l.ask("GET", path, "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+password) })
		l.ask("GET", path, "", func(r *http.Request) { r.Header.Set("Authorization", password) })
		l.ask("GET", path, "", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "entrepot_visit", Value: password}) })
	}
	for _, body := range []string{`{"user":"ann","password":"` + password + `"}`, `{"user":"ann","password":["` + password + `"]}`,
		`{"user":"ann","password":"` + password, password} {
		l.ask("POST", "/login", body, own)
		l.ask("POST", "/login", body, func(*http.Request) {})
		l.ask("POST", "/api/v1/queues/purge", body, func(r *http.Request) { r.SetBasicAuth("ann", password) })
	}
}

// byPage logs in at the page and returns the cookie's secret.
func (l *leaks) byPage() (secret string) {
	resp := l.ask("POST", "/login", `{"user":"ann","password":"`+rightMark+`"}`, func(r *http.Request) { r.Header.Set("Origin", l.http) })
	for _, c := range resp.Cookies() {
		secret = c.Value
	}
	for _, path := range []string{"/", "/metrics", "/api/v1/queues"} {
		l.ask("GET", path, "", func(r *http.Request) {
			r.Header.Set("Accept", "text/html")
			r.AddCookie(&http.Cookie{Name: "entrepot_visit", Value: secret})
		})
	}
	return secret
}

// byOperator does what an operator does.
func (l *leaks) byOperator(token, cookie string) {
	for _, args := range [][]string{{"queue", "list"}, {"queue", "purge", "none"}, {"delayed", "list"}, {"delayed", "fire", token}, {"reload"},
		{"backup", filepath.Join(l.TempDir(), "backup")}} {
		if args[len(args)-1] == token {
			continue // an operator's own slip
		}
		l.keep(do(l.T, "", append(args, "--data", l.data)...))
	}
	for _, path := range []string{"/metrics", "/api/v1/queues", "/api/v1/backup"} {
		l.ask("GET", path, "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		l.ask("POST", path, "{", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		l.ask("POST", path, "{}", func(r *http.Request) {
			r.Header.Set("Origin", "http://evil.example")
			r.AddCookie(&http.Cookie{Name: "entrepot_visit", Value: cookie})
		})
	}
	bad := filepath.Join(l.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("ann:"+rightMark+"\n"), 0o600); err != nil {
		l.Fatal(err)
	}
	config := filepath.Join(l.TempDir(), "e.toml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		l.Fatal(err)
	}
	l.keep(do(l.T, "", "config"))
	l.keep(do(l.T, "", "check", config))
	l.Setenv("ENTREPOT_AUTH_USERS", bad)
	l.keep(do(l.T, "", "check", config))
	l.keep(do(l.T, "", "serve", "--memory"))
	l.keep(do(l.T, wrongMark+"\n", "passwd", bad, "ann"))
}
