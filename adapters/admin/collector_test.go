package admin

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// publish sends one message of n bytes over a session of the protocol, which
// stays open.
func publish(t *testing.T, b *core.Broker, protocol, client string, n int) {
	t.Helper()
	s, _, err := b.Connect(t.Context(), core.Hello{Protocol: protocol, ClientID: client})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := routing.ParseTopic("a/b")
	if err != nil {
		t.Fatal(err)
	}
	s.Publish(nil, &core.Message{Exchange: core.TopicExchange, Topic: topic, Payload: make([]byte, n)}, nil)
	s.Traffic.CountOut(2 * n)
}

func TestMetricsOfTwoRealms(t *testing.T) {
	realms := newRealms("/", "other")
	realms.Each(func(b *core.Broker) {
		publish(t, b, "mqtt", "client-"+b.Realm(), 10)
		b.Drops("stomp").Add(core.DropOverflow, 3)
	})
	want := `
# HELP entrepot_alarm 1 while publishers are held back for want of this.
# TYPE entrepot_alarm gauge
entrepot_alarm{kind="disk"} 0
entrepot_alarm{kind="memory"} 0
# HELP entrepot_alarm_mark_bytes Where the alarm begins: free space, memory in use; 0 is no alarm.
# TYPE entrepot_alarm_mark_bytes gauge
entrepot_alarm_mark_bytes{kind="disk"} 0
entrepot_alarm_mark_bytes{kind="memory"} 0
# HELP entrepot_bindings Bindings.
# TYPE entrepot_bindings gauge
entrepot_bindings 10
# HELP entrepot_connections Client connections that are open.
# TYPE entrepot_connections gauge
entrepot_connections{protocol="mqtt"} 2
entrepot_connections{protocol="stomp"} 0
# HELP entrepot_connections_refused_total Connections that a limit turned away, by the limit's setting.
# TYPE entrepot_connections_refused_total counter
entrepot_connections_refused_total{limit="max_connections",protocol="http"} 1
entrepot_connections_refused_total{limit="max_pending",protocol="mqtt"} 9
# HELP entrepot_connections_total Client connections that logged in.
# TYPE entrepot_connections_total counter
entrepot_connections_total{protocol="mqtt"} 2
entrepot_connections_total{protocol="stomp"} 0
# HELP entrepot_consumers Consumers.
# TYPE entrepot_consumers gauge
entrepot_consumers 4
# HELP entrepot_exchanges Exchanges.
# TYPE entrepot_exchanges gauge
entrepot_exchanges 14
# HELP entrepot_limited_total How often a client or user came to a limit of its own: it was refused, or had to wait.
# TYPE entrepot_limited_total counter
entrepot_limited_total{limit="bindings"} 0
entrepot_limited_total{limit="bytes"} 0
entrepot_limited_total{limit="exchanges_in_all"} 0
entrepot_limited_total{limit="messages"} 0
entrepot_limited_total{limit="queues"} 0
entrepot_limited_total{limit="queues_in_all"} 0
entrepot_limited_total{limit="replayed"} 0
entrepot_limited_total{limit="take_overs"} 0
entrepot_limited_total{limit="unacked_bytes"} 0
entrepot_limited_total{limit="user_connections"} 0
entrepot_limited_total{limit="user_queues"} 0
# HELP entrepot_message_in_bytes_total Payload bytes that clients published.
# TYPE entrepot_message_in_bytes_total counter
entrepot_message_in_bytes_total{protocol="mqtt"} 20
entrepot_message_in_bytes_total{protocol="stomp"} 0
# HELP entrepot_message_out_bytes_total Payload bytes handed to clients.
# TYPE entrepot_message_out_bytes_total counter
entrepot_message_out_bytes_total{protocol="mqtt"} 40
entrepot_message_out_bytes_total{protocol="stomp"} 0
# HELP entrepot_messages_in_total Messages that clients published.
# TYPE entrepot_messages_in_total counter
entrepot_messages_in_total{protocol="mqtt"} 2
entrepot_messages_in_total{protocol="stomp"} 0
# HELP entrepot_messages_out_total Messages handed to clients.
# TYPE entrepot_messages_out_total counter
entrepot_messages_out_total{protocol="mqtt"} 2
entrepot_messages_out_total{protocol="stomp"} 0
# HELP entrepot_messages_unroutable_total Messages that no queue matched.
# TYPE entrepot_messages_unroutable_total counter
entrepot_messages_unroutable_total 12
# HELP entrepot_queue_bytes Payload bytes in all queues.
# TYPE entrepot_queue_bytes gauge
entrepot_queue_bytes 1800
# HELP entrepot_queue_messages Messages in all queues: ready, or delivered and not settled yet.
# TYPE entrepot_queue_messages gauge
entrepot_queue_messages{state="ready"} 22
entrepot_queue_messages{state="unsettled"} 8
# HELP entrepot_queues Queues, those behind subscriptions counted.
# TYPE entrepot_queues gauge
entrepot_queues 6
# HELP entrepot_retained_bytes Payload bytes of last values.
# TYPE entrepot_retained_bytes gauge
entrepot_retained_bytes 0
# HELP entrepot_retained_messages Topics that hold a last value.
# TYPE entrepot_retained_messages gauge
entrepot_retained_messages 0
# HELP entrepot_sessions Resumable sessions, with their client connected or not.
# TYPE entrepot_sessions gauge
entrepot_sessions 0
`
	text := scrape(t, realms, map[string]map[string]uint64{"mqtt": {"max_pending": 9}, "http": {"max_connections": 1}})
	var got []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "_dropped_") && !strings.Contains(line, "_build_info") {
			got = append(got, line)
		}
	}
	if got := strings.Join(got, ""); got != want[1:] {
		t.Errorf("metrics:\n%s", got)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// Log-ins that were refused are there by protocol and reason, those of both realms
// together; no label is a client's word.
func TestRefusedLogins(t *testing.T) {
	realms := newRealms("/", "other")
	realms.Each(func(b *core.Broker) {
		b.SetDoor(auth.NewDoor(nil))
		for _, c := range []auth.Credentials{
			{Protocol: "mqtt", User: "mallory", Password: "x"},
			{Protocol: "mqtt"},
			{Protocol: "coap", PSK: "a:b"},
		} {
			if _, err := b.Authenticate(t.Context(), c); err == nil {
				t.Errorf("%+v came in", c)
			}
		}
	})
	text := scrape(t, realms, nil)
	for _, want := range []string{`{protocol="mqtt",reason="password"} 2`, `{protocol="mqtt",reason="anonymous"} 2`, `{protocol="coap",reason="psk"} 2`} {
		if !strings.Contains(text, "entrepot_logins_refused_total"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\nentrepot_logins_refused_total{"); n != 3 || strings.Contains(text, "mallory") {
		t.Errorf("%d lines in\n%s", n, text)
	}
}

// scrape is what the collector shows.
func scrape(t *testing.T, realms *core.Realms, refused map[string]map[string]uint64) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newCollector(realms, func() map[string]map[string]uint64 { return refused }))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestDropsByReasonAndProtocol(t *testing.T) {
	realms := newRealms("/", "other")
	realms.Each(func(b *core.Broker) {
		b.Drops("stomp").Add(core.DropOverflow, 3)
		b.Drops("mqtt").Add(core.DropTooLarge, 1)
	})
	text := scrape(t, realms, nil)
	for _, line := range []string{
		`{protocol="stomp",reason="overflow"} 6`, `{protocol="mqtt",reason="too_large"} 2`, `{protocol="mqtt",reason="overflow"} 0`,
	} {
		if !strings.Contains(text, "entrepot_messages_dropped_total"+line) {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
}

// TestNoLabelThatClientsChoose shows faults 26 and 92.
func TestNoLabelThatClientsChoose(t *testing.T) {
	realms := newRealms("/")
	b, _ := realms.Broker("/")
	publish(t, b, "mqtt", "nosy-client-name", 1)
	text := scrape(t, realms, nil)
	if strings.Contains(text, "nosy") || strings.Contains(text, "a/b") {
		t.Errorf("a client's word in\n%s", text)
	}
}

// Alarms of all realms are shown once for each kind, on if one is on, and
// /readyz names them, while clients can connect.
func TestAlarms(t *testing.T) {
	realms := newRealms("/", "other")
	realms.Each(func(b *core.Broker) {
		p := core.Probes{MemoryUsed: func(uint64) uint64 { return 100 << 20 }, MemoryLimit: 1000 << 20}
		if b.Realm() == "other" {
			p.DiskFree = func() (uint64, error) { return 1 << 20, nil }
		}
		b.Probe(p)
		t.Cleanup(b.Close)
	})
	text := scrape(t, realms, nil)
	for _, line := range []string{
		`entrepot_alarm{kind="disk"} 1`, `entrepot_alarm{kind="memory"} 0`,
		`entrepot_alarm_mark_bytes{kind="disk"} 2.68435456e+08`, `entrepot_alarm_mark_bytes{kind="memory"} 6.291456e+08`,
		`entrepot_disk_free_bytes 1.048576e+06`, `entrepot_memory_used_bytes 1.048576e+08`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	w := httptest.NewRecorder()
	New(DefaultConfig(), realms, always, func() map[string]map[string]uint64 { return nil }, slog.New(slog.DiscardHandler)).
		paths.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	if want := "ready\nalarm: disk space: 1 MiB free, mark 256 MiB\n"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("/readyz: %d %q, want %q", w.Code, w.Body, want)
	}
}
