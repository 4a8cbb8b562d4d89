package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"entrepot/adapters/mqtt"
	"entrepot/core"
	"entrepot/core/local"
)

func TestEveryPair(t *testing.T) {
	mqttAddress, stompAddress := brokers(t)
	type end struct {
		name, protocol, address, version string
		qos                              int
		publish, subscribe               string
	}
	var ends []end
	for _, version := range []string{"3.1.1", "5"} {
		for qos := range 3 {
			name := "MQTT " + version + " QoS " + string(rune('0'+qos))
			ends = append(ends, end{name, MQTT, mqttAddress, version, qos, "plant/7/temp", "plant/+/temp"})
		}
	}
	ends = append(ends, end{"STOMP", STOMP, stompAddress, "5", 0, "/topic/plant.7.temp", "/topic/plant.*.temp"})
	payloads := [][]byte{[]byte("21.5"), {}, {0, '\n', 0xFF, '\r', 0}, bytes.Repeat([]byte("x"), 300_000)}
	for _, from := range ends {
		for _, to := range ends {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				o := options()
				o.Version = to.version
				in := collect(t, dial(t, to.protocol, to.address, o), Interest{Topics: []string{to.subscribe}, QoS: to.qos}, len(payloads))
				o.Version = from.version
				c := dial(t, from.protocol, from.address, o)
				for _, p := range payloads {
					if err := c.Publish(t.Context(), Message{Topic: from.publish, Payload: p, QoS: from.qos}); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				for i, m := range all(t, in) {
					if m.Topic != to.publish || !bytes.Equal(m.Payload, payloads[i]) {
						t.Errorf("message %d: topic %s, %d bytes", i, m.Topic, len(m.Payload))
					}
				}
			})
		}
	}
}

func TestRetainHeadersAndContentType(t *testing.T) {
	mqttAddress, stompAddress := brokers(t)
	want := Message{Payload: []byte("on"), Retain: true, ContentType: "text/plain", Headers: []Header{{"a", "1: x"}, {"b", ""}}}
	for _, c := range []struct{ name, protocol, address, topic string }{
		{"MQTT", MQTT, mqttAddress, "r/mqtt"}, {"STOMP", STOMP, stompAddress, "/topic/r.stomp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := want
			m.Topic = c.topic
			conn := dial(t, c.protocol, c.address, options())
			if err := errors.Join(conn.Publish(t.Context(), m), conn.Close()); err != nil {
				t.Fatal(err)
			}
			in := collect(t, dial(t, c.protocol, c.address, options()), Interest{Topics: []string{c.topic}, QoS: 1}, 1)
			got := all(t, in)[0]
			if got.Topic != c.topic || string(got.Payload) != "on" || !got.Retain || got.ContentType != "text/plain" {
				t.Errorf("%+v", got)
			}
			for _, h := range want.Headers {
				if !contains(got.Headers, h) {
					t.Errorf("no %v in %v", h, got.Headers)
				}
			}
		})
	}
}

func contains(all []Header, h Header) bool {
	for _, x := range all {
		if x == h {
			return true
		}
	}
	return false
}

func TestNoRetained(t *testing.T) {
	address, _ := brokers(t)
	for _, version := range []string{"3.1.1", "5"} {
		o := options()
		o.Version = version
		c := dial(t, MQTT, address, o)
		if err := c.Publish(t.Context(), Message{Topic: "old/" + version, Payload: []byte("old"), Retain: true, QoS: 1}); err != nil {
			t.Fatal(err)
		}
		in := collect(t, dial(t, MQTT, address, o), Interest{Topics: []string{"old/#", "new"}, QoS: 1, NoRetained: true}, 1)
		if err := errors.Join(c.Publish(t.Context(), Message{Topic: "new", Payload: []byte("new"), QoS: 1}), c.Close()); err != nil {
			t.Fatal(err)
		}
		if ms := all(t, in); string(ms[0].Payload) != "new" {
			t.Errorf("MQTT %s: %s", version, ms[0].Payload)
		}
	}
}

// A session that was kept has what came meanwhile, before it subscribes again.
func TestResumedSession(t *testing.T) {
	address, _ := brokers(t)
	for _, version := range []string{"3.1.1", "5"} {
		var notes []string
		o := options()
		o.Version, o.ID, o.Expiry = version, "keeper"+version, time.Hour
		o.Note = func(text string) { notes = append(notes, text) }
		i := Interest{Topics: []string{"kept/" + version}, QoS: 1}
		plain := options()
		c := dial(t, MQTT, address, plain)
		in := collect(t, dial(t, MQTT, address, o), i, 1)
		publish := func(payload string) {
			if err := c.Publish(t.Context(), Message{Topic: "kept/" + version, Payload: []byte(payload), QoS: 1}); err != nil {
				t.Fatal(err)
			}
		}
		publish("first")
		all(t, in)
		publish("meanwhile")
		if ms := all(t, collect(t, dial(t, MQTT, address, o), i, 1)); string(ms[0].Payload) != "meanwhile" {
			t.Errorf("MQTT %s: %s", version, ms[0].Payload)
		}
		if !strings.Contains(strings.Join(notes, "\n"), "resumed session keeper"+version) {
			t.Errorf("MQTT %s: notes %q", version, notes)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSubscribeEndsWithItsContext(t *testing.T) {
	mqttAddress, stompAddress := brokers(t)
	for _, c := range []struct{ protocol, address, topic string }{{MQTT, mqttAddress, "a"}, {STOMP, stompAddress, "/topic/a"}} {
		ctx, cancel := context.WithCancel(t.Context())
		conn := dial(t, c.protocol, c.address, options())
		err := conn.Subscribe(ctx, Interest{Topics: []string{c.topic}}, cancel, func(Message) (bool, error) { return false, nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c.protocol, err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("%s: %v", c.protocol, err)
		}
	}
}

// A message that the handler could not take is not acknowledged: the queue
// gives it to the next.
func TestHandlerThatFails(t *testing.T) {
	mqttAddress, stompAddress := brokers(t)
	for _, c := range []struct{ protocol, address, topic string }{
		{MQTT, mqttAddress, "$queue/work"}, {STOMP, stompAddress, "/queue/work"},
	} {
		worker := func(fail error) (got string) {
			conn := dial(t, c.protocol, c.address, options())
			err := conn.Subscribe(t.Context(), Interest{Topics: []string{c.topic}, QoS: 1}, func() {}, func(m Message) (bool, error) {
				got = string(m.Payload)
				return true, fail
			})
			if !errors.Is(err, fail) {
				t.Errorf("%s: %v", c.protocol, err)
			}
			if err := conn.Close(); err != nil {
				t.Errorf("%s: %v", c.protocol, err)
			}
			return got
		}
		conn := dial(t, c.protocol, c.address, options())
		for _, p := range []string{"one", "two"} {
			if err := conn.Publish(t.Context(), Message{Topic: c.topic, Payload: []byte(p), QoS: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		broken := errors.New("no paper")
		for i, want := range []string{"one", "one", "two"} {
			fail := broken
			if i > 0 {
				fail = nil
			}
			if got := worker(fail); got != want {
				t.Errorf("%s: worker %d got %s, want %s", c.protocol, i, got, want)
			}
		}
	}
}

func TestUnixSocket(t *testing.T) {
	o := options()
	o.Socket = filepath.Join(t.TempDir(), "m.sock")
	u := URL{Protocol: MQTT, Address: "127.0.0.1:1"}
	if _, err := Dial(t.Context(), u, o); err == nil || !strings.Contains(err.Error(), "m.sock") {
		t.Errorf("error %v", err)
	}
	log := slog.New(slog.DiscardHandler)
	s := mqtt.New(mqtt.DefaultConfig(), core.NewRealms(core.NewBroker(core.DefaultConfig(), "/", local.New(log), nil, log)), log)
	l, err := net.Listen("unix", o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), u, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Publish(t.Context(), Message{Topic: "a", QoS: 1}), c.Close(), s.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestNobodyListens(t *testing.T) {
	address := script{}.start(t) // one connection
	c, err := Dial(t.Context(), URL{Protocol: MQTT, Address: address}, options())
	if err == nil {
		t.Fatal(c)
	}
	_, err = Dial(t.Context(), URL{Protocol: MQTT, Address: "127.0.0.1:1"}, options())
	if err == nil || !strings.Contains(err.Error(), "broker 127.0.0.1:1: nobody listens there") {
		t.Errorf("error %v", err)
	}
}

func TestSilentBroker(t *testing.T) {
	for _, protocol := range []string{MQTT, STOMP} {
		o := options()
		o.Timeout = 200 * time.Millisecond
		_, err := Dial(t.Context(), URL{Protocol: protocol, Address: script{hold: true}.start(t)}, o)
		if !errors.Is(err, ErrTimeout) {
			t.Errorf("%s: error %v", protocol, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Dial(ctx, URL{Protocol: protocol, Address: script{hold: true}.start(t)}, options()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", protocol, err)
		}
	}
}
