package mqtt

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	paho5 "github.com/eclipse/paho.golang/paho"
	paho3 "github.com/eclipse/paho.mqtt.golang"
)

const patience = 20 * time.Second

// wait takes the next value, or fails.
func wait[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
	}
	return v
}

func token(t *testing.T, tk paho3.Token) {
	t.Helper()
	if !tk.WaitTimeout(patience) || tk.Error() != nil {
		t.Fatalf("no answer, or an error: %v", tk.Error())
	}
}

// Eclipse Paho's Go client for 3.1 and 3.1.1.
func TestPahoGo3(t *testing.T) {
	for _, version := range []uint{3, 4} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			addr, broker := listen(t, testConfig())
			options := func(id string, clean bool) *paho3.ClientOptions {
				return paho3.NewClientOptions().AddBroker("tcp://" + addr.String()).SetClientID(id).SetCleanSession(clean).
					SetProtocolVersion(version).SetAutoReconnect(false).SetOrderMatters(true)
			}
			got := make(chan string, 1000)
			take := func(_ paho3.Client, m paho3.Message) {
				got <- fmt.Sprintf("%s %d %v %s", m.Topic(), m.Qos(), m.Retained(), m.Payload())
			}
			sub := paho3.NewClient(options("sub", false).SetDefaultPublishHandler(take))
			token(t, sub.Connect())
			token(t, sub.Subscribe("t/#", 2, take))
			token(t, sub.Subscribe("w", 1, take))
			pub := paho3.NewClient(options("pub", true).SetWill("w", "gone", 1, false))
			token(t, pub.Connect())
			for i := range 300 {
				token(t, pub.Publish(fmt.Sprintf("t/%d", i%7), byte(i%3), false, fmt.Sprint(i)))
			}
			for i := range 300 {
				if m, want := wait(t, got, "a message"), fmt.Sprintf("t/%d %d false %d", i%7, i%3, i); m != want {
					t.Fatalf("got %q, want %q", m, want)
				}
			}
			awaitEmpty(t, broker) // the client's last acknowledgements come after its handlers
			sub.Disconnect(100)
			token(t, pub.Publish("t/x", 1, false, "kept"))
			token(t, pub.Publish("t/x", 2, false, "once"))
			back := paho3.NewClient(options("sub", false).SetDefaultPublishHandler(take))
			token(t, back.Connect())
			if a, b := wait(t, got, "a kept message"), wait(t, got, "a kept message"); a != "t/x 1 false kept" || b != "t/x 2 false once" {
				t.Fatalf("got %q and %q", a, b)
			}
			token(t, back.Unsubscribe("t/#"))
			token(t, pub.Publish("t/x", 1, true, "retained"))
			token(t, back.Subscribe("t/+", 1, take))
			if m := wait(t, got, "the retained message"); m != "t/x 1 true retained" {
				t.Fatalf("got %q", m)
			}
			back.Disconnect(100)
			pub.Disconnect(100)
		})
	}
}

// client5 is Eclipse Paho's Go client for MQTT 5.
func client5(t *testing.T, addr net.Addr, c *paho5.Connect, take func(*paho5.Publish)) *paho5.Client {
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	config := paho5.ClientConfig{Conn: conn, PacketTimeout: patience}
	if take != nil {
		config.OnPublishReceived = []func(paho5.PublishReceived) (bool, error){
			func(p paho5.PublishReceived) (bool, error) { take(p.Packet); return true, nil },
		}
	}
	client := paho5.NewClient(config)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.KeepAlive = 30
	if _, err := client.Connect(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho5.Disconnect{}) })
	return client
}

func TestPahoGo5(t *testing.T) {
	addr, _ := listen(t, testConfig())
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	got := make(chan *paho5.Publish, 1000)
	sub := client5(t, addr, &paho5.Connect{ClientID: "sub", CleanStart: true}, func(p *paho5.Publish) { got <- p })
	id := 7
	answer, err := sub.Subscribe(ctx, &paho5.Subscribe{Properties: &paho5.SubscribeProperties{SubscriptionIdentifier: &id},
		Subscriptions: []paho5.SubscribeOptions{{Topic: "t/#", QoS: 2}, {Topic: "$share/g/s", QoS: 1}}})
	if err != nil || !slices.Equal(answer.Reasons, []byte{2, 1}) {
		t.Fatalf("subscribe: %v %v", answer, err)
	}
	pub := client5(t, addr, &paho5.Connect{ClientID: "pub", CleanStart: true}, nil)
	expiry, text := uint32(60), byte(1)
	for i := range 300 {
		_, err := pub.Publish(ctx, &paho5.Publish{Topic: "t/" + fmt.Sprint(i%7), QoS: byte(i % 3), Payload: []byte(fmt.Sprint(i)),
			Properties: &paho5.PublishProperties{ContentType: "text/plain", ResponseTopic: "r", CorrelationData: []byte{1, 2},
				MessageExpiry: &expiry, PayloadFormat: &text, User: paho5.UserProperties{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		p := wait(t, got, "a message")
		if string(p.Payload) != fmt.Sprint(i) || p.QoS != byte(i%3) || p.Properties.ContentType != "text/plain" ||
			p.Properties.ResponseTopic != "r" || len(p.Properties.User) != 2 || p.Properties.User[1].Value != "2" ||
			*p.Properties.MessageExpiry != 60 || *p.Properties.SubscriptionIdentifier != 7 {
			t.Fatalf("message %d: %+v %+v", i, p, p.Properties)
		}
	}
	r, err := pub.Publish(ctx, &paho5.Publish{Topic: "nobody", QoS: 1})
	if err != nil || r.ReasonCode != 0x10 {
		t.Fatalf("nobody: %+v %v", r, err)
	}
	if _, err := pub.Publish(ctx, &paho5.Publish{Topic: "s", QoS: 2, Payload: []byte("shared")}); err != nil {
		t.Fatal(err)
	}
	if p := wait(t, got, "a shared message"); p.Topic != "s" || p.QoS != 1 {
		t.Fatalf("got %+v", p)
	}
	if u, err := sub.Unsubscribe(ctx, &paho5.Unsubscribe{Topics: []string{"t/#", "none"}}); err != nil || !slices.Equal(u.Reasons, []byte{0, 0x11}) {
		t.Fatalf("unsubscribe: %v %v", u, err)
	}
}

// Request and answer by response topic and correlation data.
func TestRequestResponse(t *testing.T) {
	addr, _ := listen(t, testConfig())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers := make(chan string, 1)
	var server *paho5.Client
	ready := make(chan struct{})
	server = client5(t, addr, &paho5.Connect{ClientID: "server", CleanStart: true}, func(p *paho5.Publish) {
		<-ready
		_, err := server.Publish(ctx, &paho5.Publish{Topic: p.Properties.ResponseTopic, QoS: 0, Payload: append([]byte("re: "), p.Payload...),
			Properties: &paho5.PublishProperties{CorrelationData: p.Properties.CorrelationData}})
		if err != nil {
			t.Error(err)
		}
	})
	close(ready)
	if _, err := server.Subscribe(ctx, &paho5.Subscribe{Subscriptions: []paho5.SubscribeOptions{{Topic: "ask", QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	client := client5(t, addr, &paho5.Connect{ClientID: "client", CleanStart: true}, func(p *paho5.Publish) {
		answers <- string(p.Payload) + " " + string(p.Properties.CorrelationData)
	})
	if _, err := client.Subscribe(ctx, &paho5.Subscribe{Subscriptions: []paho5.SubscribeOptions{{Topic: "answers/1"}}}); err != nil {
		t.Fatal(err)
	}
	_, err := client.Publish(ctx, &paho5.Publish{Topic: "ask", QoS: 1, Payload: []byte("what?"),
		Properties: &paho5.PublishProperties{ResponseTopic: "answers/1", CorrelationData: []byte("42")}})
	if err != nil {
		t.Fatal(err)
	}
	if a := wait(t, answers, "an answer"); a != "re: what? 42" {
		t.Fatalf("got %q", a)
	}
}
