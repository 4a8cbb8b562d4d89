package amqp

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// What other protocols say arrives as this table has it (names.md, section 4).
// It shows faults 97 and 103.
func TestForeignMessage(t *testing.T) {
	topic := func(text string) routing.Topic {
		at, err := routing.ParseTopic(text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	queue, err := core.QueueAddress("answers")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a/", 100) + strings.Repeat("b", 200)
	for _, c := range []struct {
		title string
		edit  func(*core.Message)
		want  string
	}{
		{"QoS 0", func(m *core.Message) { m.Guarantee = core.AtMostOnce }, `routing-key=plant.7 body="1"`},
		{"QoS 1", func(m *core.Message) { m.Guarantee = core.Durable }, `routing-key=plant.7 body="1" mode=2`},
		{"QoS 2", func(m *core.Message) { m.Guarantee = core.Once }, `routing-key=plant.7 body="1" mode=2`},
		{"a dot in a level", func(m *core.Message) { m.Topic = topic("plant/v1.0") }, `routing-key=plant.v1%2E0 body="1"`},
		{"a topic longer than a key", func(m *core.Message) { m.Topic = topic("plant/" + long) },
			`body="1" headers={x-topic:plant.` + strings.ReplaceAll(long, "/", ".") + `}`},
		{"fields", func(m *core.Message) {
			m.Props = &core.Properties{ContentType: "text/plain", Correlation: []byte{0, 1}, ReplyTo: queue, MessageID: "m",
				Type: "t", AppID: "app", Priority: 7, HasPriority: true, Timestamp: time.Unix(1700000000, 0), TTL: time.Minute, HasTTL: true,
				Headers: routing.Headers{{Name: "colour", Value: "red"}, {Name: "colour", Value: "blue"}}}
		}, `routing-key=plant.7 body="1" content-type=text/plain headers={colour:red colour:blue} priority=7 correlation-id="\x00\x01" reply-to=answers expiration=60000 message-id=m timestamp=1700000000 type=t app-id=app`},
		{"a reply address that is a topic", func(m *core.Message) {
			m.Props = &core.Properties{ReplyTo: core.Address{Exchange: core.TopicExchange, Topic: topic("reply/to/me")}}
		}, `routing-key=plant.7 body="1" reply-to=/exchange/amq.topic/reply.to.me`},
		{"a reply address in an exchange with a slash", func(m *core.Message) {
			m.Props = &core.Properties{ReplyTo: core.Address{Exchange: "a/b%", Topic: topic("k")}}
		}, `routing-key=plant.7 body="1" reply-to=/exchange/a%2Fb%25/k`},
		{"what is longer than a property", func(m *core.Message) {
			m.Props = &core.Properties{ContentType: long, Correlation: []byte(long), MessageID: long, Type: long, AppID: "kept",
				ReplyTo: core.Address{Exchange: core.TopicExchange, Topic: topic(long)},
				Headers: routing.Headers{{Name: strings.Repeat("n", 256), Value: "left out"}, {Name: "kept", Value: true}}}
		}, `routing-key=plant.7 body="1" headers={kept:true} app-id=kept`},
		{"headers longer than a frame", func(m *core.Message) {
			m.Props = &core.Properties{AppID: "kept", Headers: routing.Headers{{Name: "long", Value: strings.Repeat("x", 5000)}}}
		}, `routing-key=plant.7 body="1" app-id=kept`},
	} {
		t.Run(c.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTheatre(t, DefaultConfig())
				defer s.end()
				for _, line := range []string{"a> connect", "a> queue.declare queue=q", "a< queue.declare-ok queue=q",
					"a> queue.bind queue=q exchange=amq.topic routing-key=plant.#", "a< queue.bind-ok"} {
					if err := s.line(line); err != nil {
						t.Fatal(err)
					}
				}
				m := core.NewMessage(1)
				m.Payload[0] = '1'
				m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, topic("plant/7"), core.AtLeastOnce
				c.edit(m)
				s.broker.PublishOwn(m)
				want := strings.ReplaceAll("a< basic.get-ok delivery-tag=1 exchange=amq.topic "+c.want, `body="1"`, "body=1")
				for _, line := range []string{"a> basic.get queue=q no-ack", want} {
					if err := s.line(line); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}
