package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServe(t *testing.T) {
	b := start(t)
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if code, body := get(t, b.http+path); code != 200 || body != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	code, metrics := get(t, b.http+"/metrics")
	for _, want := range []string{
		`entrepot_connections_refused_total{limit="limits.max_wait",protocol="http"} 0`,
		`entrepot_connections_refused_total{limit="limits.max_wait",protocol="mqtt"} 0`,
		`entrepot_connections_refused_total{limit="max_pending",protocol="stomp"} 0`, "entrepot_queues 0", "entrepot_build_info{",
	} {
		if code != 200 || !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	b.stop()
	if code := b.ended(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.log.await(t, "msg=stopped")
	for _, address := range []string{b.mqtt[7:], b.stomp[8:], b.http[7:]} {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("%s is still open", address)
		}
	}
}

// What was sent to a queue for good is there for the next process.
func TestDataIsThereAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b := start(t, "--data", dir)
	if r := do(t, "", "pub", "-q", "1", b.mqtt+"/$queue/orders", "4711"); r.code != 0 {
		t.Fatalf("pub: code %d, %s", r.code, r.errors)
	}
	b.stop()
	b.ended(t)
	b = start(t, "--data", dir)
	if r := do(t, "", "sub", "-C", "1", b.stomp+"/queue/orders"); r.code != 0 || r.out != "4711\n" {
		t.Errorf("sub: code %d, %q, %s", r.code, r.out, r.errors)
	}
}

// The file, the environment, and the command line, each over the one before.
func TestWhereSettingsComeFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.toml")
	text := "mqtt.listen = [\"127.0.0.1:1\"]\nstomp.listen = [\"off\"]\namqp.listen = [\"off\"]\ncoap.listen = [\"off\"]\n[log]\nformat = \"text\"\nlevel = \"debug\"\n[process]\ngrace = \"7s\""
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENTREPOT_LOG_FORMAT", "json")
	t.Setenv("ENTREPOT_MQTT_LISTEN", "127.0.0.1:2")
	b := &broker{log: newText(), code: make(chan int, 1)}
	ctx, cancel := contextOf(t)
	defer cancel()
	go func() {
		b.code <- run(ctx, []string{"serve", "--memory", "-c", file, "--mqtt", "127.0.0.1:0,127.0.0.1:0", "--http", "127.0.0.1:0"}, nil, io.Discard, b.log)
	}()
	b.log.await(t, `"msg":"ready"`)
	count := map[string]int{}
	for line := range strings.Lines(b.log.String()) {
		var l struct{ Msg, Protocol, Address string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Msg == "listening" {
			count[l.Protocol]++
		}
	}
	if count["mqtt"] != 2 || count["stomp"] != 0 || count["http"] != 1 {
		t.Errorf("listeners %v", count)
	}
	cancel()
	if code := b.ended(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.log.await(t, `"grace":7000000000`)
}

// All addresses that cannot be had are named, none of the others stays open,
// and nobody was let in.
func TestAddressesInUse(t *testing.T) {
	_, one := freePort(t)
	_, two := freePort(t)
	free, address := freePort(t)
	free.Close()
	r := do(t, "", "serve", "--memory", "--mqtt", one, "--stomp", two, "--amqp", "off", "--coap", "off", "--http", address)
	for _, want := range []string{
		"mqtt: listen on " + one + ": another process has this port; end it or choose another port",
		"(flag --mqtt, key mqtt.listen)\n",
		"stomp: listen on " + two,
	} {
		if r.code != exitFailed || !strings.Contains(r.errors, want) {
			t.Errorf("code %d, errors %q", r.code, r.errors)
		}
	}
	if strings.Contains(r.errors, "msg=") {
		t.Errorf("errors %q", r.errors)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// connectMQTT opens a raw connection that says nothing but CONNECT.
func connectMQTT(t *testing.T, url string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "mqtt://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(limit))
	fmt.Fprint(c, "\x10\x0D\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00")
	if head, err := bufio.NewReader(io.LimitReader(c, 4)).Peek(4); err != nil || head[0] != 0x20 || head[3] != 0 {
		t.Fatalf("CONNACK %x, %v", head, err)
	}
	return c
}

// While the last clients are waited for, nobody new gets in, /readyz says so,
// and those that are there are told (MQTT 5, 3.14: DISCONNECT with 0x8B).
// It shows fault 105.
func TestDrain(t *testing.T) {
	t.Setenv("ENTREPOT_MQTT_LIMITS_LINGER", "60s")
	t.Setenv("ENTREPOT_PROCESS_GRACE", "60s")
	b := start(t)
	c := connectMQTT(t, b.mqtt)
	b.stop()
	b.log.await(t, "msg=stopping")
	for code := 200; code != http.StatusServiceUnavailable; {
		code, _ = get(t, b.http+"/readyz")
	}
	rest, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(rest), "\x8B") {
		t.Errorf("told %x, %v", rest, err)
	}
	if late, err := net.Dial("tcp", b.mqtt[7:]); err == nil {
		late.Close()
		t.Error("a new client got in")
	}
	c.Close()
	if code := b.ended(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, b.log)
	}
}

// A client that does not go is cut off when the grace time is over.
// It shows fault 105.
func TestGraceTime(t *testing.T) {
	t.Setenv("ENTREPOT_MQTT_LIMITS_LINGER", "60s")
	t.Setenv("ENTREPOT_PROCESS_GRACE", "100ms")
	b := start(t)
	c := connectMQTT(t, b.mqtt)
	defer c.Close()
	b.stop()
	if code := b.ended(t); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	b.log.await(t, "entrepot: stopped, but not in the grace time of 100ms: mqtt")
}

// One that connects over HTTP and says nothing is no reason to fail.
// It shows fault 66.
func TestSilentHTTPClient(t *testing.T) {
	b := start(t, "--memory")
	c, err := net.Dial("tcp", b.http[7:])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	get(t, b.http+"/healthz") // accepted after c, so c is too
	b.stop()
	if code := b.ended(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, b.log)
	}
}
