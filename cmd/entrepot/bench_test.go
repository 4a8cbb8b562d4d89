package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every protocol is measured over TLS as it is without, CoAP over DTLS by a
// certificate or by a key, and nobody else's broker is believed.
func TestBenchOverTLS(t *testing.T) {
	key := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(key, []byte("dev-7:7365637265742d50534b2d6f662d3136\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENTREPOT_COAP_PSK_FILE", key)
	e := startEncrypted(t, "--memory", "--coap", "dtls:127.0.0.1:0")
	m := regexp.MustCompile(`protocol=coap address=127.0.0.1:(\S+) transport=dtls`).FindStringSubmatch(e.log.String())
	if m == nil {
		t.Fatalf("no DTLS:\n%s", e.log)
	}
	url := func(protocol string) string {
		return protocol + "s://" + strings.Replace(e.at(t, protocol), "127.0.0.1", "localhost", 1)
	}
	coaps := "coaps://localhost:" + m[1] + "/t/bench"
	own := []string{"--cert", e.file("ann.pem"), "--key", e.file("ann.key")}
	few := []string{"--publishers", "2", "--subscribers", "2", "--messages", "300", "--cafile", e.file("ca.pem")}
	some := []string{"--publishers", "2", "--window", "2", "--duration", "100ms", "--warmup", "10ms"}
	for name, args := range map[string][]string{
		"mqtts":        append([]string{"pair", url("mqtt")}, few...),
		"mqtts, named": append(append([]string{"pair", url("mqtt"), "--qos", "1"}, few...), own...),
		"stomps":       append([]string{"fanout", url("stomp")}, few...),
		"amqps":        append([]string{"pair", url("amqp"), "--receipts", "--ack", "client"}, few...),
		"crossing":     append([]string{"pair", "--pub", url("mqtt"), "--sub", e.stomp}, few...),
		"idle":         {"idle", url("mqtt"), "--connections", "5", "--settle", "1ms", "--cafile", e.file("ca.pem")},
		"coaps":        append(append([]string{"put", coaps, "--cafile", e.file("ca.pem")}, some...), own...),
		"coaps, psk":   append([]string{"put", coaps, "--psk", key}, some...),
	} {
		r := do(t, "", append([]string{"bench", "--json"}, args...)...)
		var got struct{ Sent, Delivered, Lost, Refused uint64 }
		if err := json.Unmarshal([]byte(r.out), &got); r.code != 0 || err != nil || got.Sent == 0 || got.Delivered == 0 || got.Lost != 0 || got.Refused != 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, args := range [][]string{{"pair", url("mqtt"), "--messages", "1"}, {"pair", url("amqp"), "--messages", "1"}, append([]string{"put", coaps}, some...)} {
		if r := do(t, "", append([]string{"bench"}, args...)...); r.code != exitFailed || strings.Contains(r.out, "delivered") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for want, args := range map[string][]string{
		"both or none":     {"pair", url("mqtt"), "--cert", key},
		"coaps:// only":    {"pair", url("mqtt"), "--psk", key, "--cafile", e.file("ca.pem")},
		"no certificate":   {"pair", url("mqtt"), "--cafile", key},
		"not NAME:KEY":     {"put", coaps, "--messages", "0", "--psk", e.file("ca.key")},
		"for mqtts://":     {"pair", e.mqtt, "--cafile", e.file("ca.pem")},
		"not mqtt://HOST[": {"pair", "https://ann:sesame@localhost"},
	} {
		if r := do(t, "", append([]string{"bench"}, args...)...); r.code == 0 || !strings.Contains(r.errors, want) || strings.Contains(r.errors, "sesame") {
			t.Errorf("%s: %+v", want, r)
		}
	}
}

// The password of a user may come by the environment or as a token in a file.
func TestBenchLogsIn(t *testing.T) {
	dir := tokenKeys(t)
	b := start(t)
	path := token(t, dir, "EdDSA")
	few := []string{"bench", "pair", strings.Replace(b.mqtt, "//", "//ann@", 1), "--publishers", "1", "--subscribers", "1", "--messages", "10"}
	well(t, append(few, "--token", path)...)
	refusedWith(t, "", few...)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENTREPOT_PASSWORD", strings.TrimSpace(string(text)))
	well(t, few...)
}
