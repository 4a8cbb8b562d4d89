package mqtt

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// foreign opens a session of another protocol.
func (s *theatre) foreign(protocol, id string) *core.Session {
	c, _, err := s.broker.Connect(context.Background(), core.Hello{Protocol: protocol, ClientID: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func topic(t *testing.T, text string) routing.Topic {
	got, err := routing.ParseTopic(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// must plays steps that have to go well.
func (s *theatre) must(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		if problem := s.step(line); problem != "" {
			s.t.Fatalf("%s\n%s", line, problem)
		}
	}
}

// Messages of other protocols as MQTT subscribers get them (names.md, 4): what
// MQTT cannot carry is left out and stops nothing.
// It shows faults 97 and 103.
func TestForeignMessages(t *testing.T) {
	queue, err := core.QueueAddress("replies/1")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("y", 70000)
	for _, c := range []struct {
		name  string
		props *core.Properties
		want  string
	}{
		{"nothing", nil, ""},
		{"all fields", &core.Properties{
			ContentType: "text/plain", ContentEncoding: "gzip", Text: true, Correlation: []byte{0, 1},
			ReplyTo: queue, TTL: 1500 * time.Millisecond, HasTTL: true, Priority: 0, HasPriority: true, MessageID: "m",
			Type: "order", AppID: "shop", Timestamp: time.Unix(1700000000, 0),
			Headers: routing.Headers{{Name: "k", Value: "v"}, {Name: "k", Value: "w"}},
		}, `format=1 expiry=2 type=text/plain response="$queue/replies%2F1" correlation="\x00\x01" ` +
			`user=x-priority:0 user=x-timestamp:1700000000 user=x-message-id:m user=x-type:order user=x-app-id:shop ` +
			`user=x-content-encoding:gzip user=k:v user=k:w `},
		{"types of headers", &core.Properties{Headers: routing.Headers{
			{Name: "nil", Value: nil}, {Name: "bool", Value: true}, {Name: "i8", Value: int8(-1)}, {Name: "u64", Value: uint64(math.MaxUint64)},
			{Name: "f32", Value: float32(0.1)}, {Name: "f64", Value: 1e300}, {Name: "nan", Value: math.NaN()},
			{Name: "text", Value: []byte("ascii")}, {Name: "bytes", Value: []byte{0xff, 0}},
			{Name: "time", Value: time.Unix(0, 0)}, {Name: "dec", Value: routing.Decimal{Scale: 2, Value: -5}},
			{Name: "dec0", Value: routing.Decimal{Value: 12}},
			{Name: "list", Value: []any{int32(1), "a"}},
		}}, `user=nil: user=bool:true user=i8:-1 user=u64:18446744073709551615 user=f32:0.1 user=f64:1e+300 user=nan:NaN ` +
			`user=text:ascii user="bytes:/wA=" user="time:1970-01-01T00:00:00Z" user=dec:-0.05 user=dec0:12 ` +
			`user="list:[1,\"a\"]" `},
		{"what MQTT cannot carry", &core.Properties{
			ContentType: "a\x00b", MessageID: "\xff", Correlation: []byte(long),
			Headers: routing.Headers{{Name: "nul\x00", Value: "x"}, {Name: "x", Value: "a\x00"}, {Name: "y", Value: "\xff"},
				{Name: "z", Value: long}, {Name: long, Value: "z"}, {Name: "ffff", Value: "\uffff"}, {Name: "good", Value: "1"}},
		}, "user=good:1 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTheatre(t, testConfig())
				defer s.end()
				s.must("a> connect id=a", "a< connack ...", "a> subscribe id=1 f=t q=2", "a< suback id=1 codes=02",
					"b> connect id=b v=4 clean", "b< connack", "b> subscribe id=1 f=t q=2", "b< suback id=1 codes=02")
				f := s.foreign("stomp", "")
				f.Publish(nil, &core.Message{Exchange: core.TopicExchange, Topic: topic(t, "t"), Payload: []byte("x"),
					Guarantee: core.AtLeastOnce, Props: c.props}, nil)
				f.Close(core.CloseNormal)
				s.must("a< publish topic=t qos=1 id=1 "+c.want+"payload=x", "b< publish topic=t qos=1 id=1 payload=x")
			})
		})
	}
}

// What an MQTT publisher sends, in the core's terms (names.md, 4).
func TestPublishedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, testConfig())
		defer s.end()
		f := s.foreign("stomp", "")
		got := make(chan *core.Message, 1)
		ctx := context.Background()
		key := core.Key(core.TopicQueue, "test")
		if _, err := f.DeclareQueue(ctx, core.QueueSpec{Key: key, Exclusive: true}); err != nil {
			t.Fatal(err)
		}
		if err := f.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: topic(t, "t").Filter()}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Consume(ctx, key, core.ConsumeOptions{}, catcher(got)); err != nil {
			t.Fatal(err)
		}
		s.must("a> connect id=pub", "a< connack ...",
			`a> publish topic=t qos=2 id=1 format=1 expiry=9 type=text/plain response=$queue/r correlation=c `+
				`user=x-priority:7 user=x-message-id:m user=x-type:o user=x-app-id:s user=x-content-encoding:gzip `+
				`user=x-timestamp:1700000000 user=a:1 user=a:2 payload=hello`, "a< pubrec id=1")
		m := <-got
		queue, _ := core.QueueAddress("r")
		want := core.Properties{ContentType: "text/plain", ContentEncoding: "gzip", Text: true,
			Headers:     routing.Headers{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}},
			Correlation: []byte("c"), ReplyTo: queue, TTL: 9 * time.Second, HasTTL: true, Expires: m.Props.Expires,
			Priority: 7, HasPriority: true, MessageID: "m", Type: "o", AppID: "s", Timestamp: time.Unix(1700000000, 0)}
		if !reflect.DeepEqual(*m.Props, want) {
			t.Errorf("got  %+v\nwant %+v", *m.Props, want)
		}
		if m.Guarantee != core.Once || string(m.Payload) != "hello" || m.Origin.Protocol != "mqtt" || m.Origin.ClientID != "pub" {
			t.Errorf("got %+v from %+v", m, m.Origin)
		}
		s.must("a> publish topic=t qos=1 id=2", "a< puback id=2")
		if m := <-got; m.Props != nil || m.Guarantee != core.Durable {
			t.Errorf("got %+v", m)
		}
		s.must("a> publish topic=t retain", "a< nothing")
		if m := <-got; m.Guarantee != core.AtMostOnce || !m.Retain {
			t.Errorf("got %+v", m)
		}
		f.Close(core.CloseNormal)
	})
}

type catcher chan *core.Message

func (c catcher) Deliver(d core.Delivery) core.Verdict {
	c <- d.Message
	return core.Settled
}

// A message that reached a queue by another way bears its topic in x-topic.
func TestOriginalTopicOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, testConfig())
		defer s.end()
		s.must("a> connect id=a", "a< connack ...", "a> subscribe id=1 f=$queue/q q=1", "a< suback id=1 codes=01")
		f := s.foreign("stomp", "")
		defer f.Close(core.CloseNormal)
		filter, err := routing.ParseFilter("plant/#")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Bind(context.Background(), core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: filter}); err != nil {
			t.Fatal(err)
		}
		s.must("b> connect id=b v=4 clean", "b< connack", "b> publish topic=plant/7 payload=x",
			"a< publish topic=$queue/q user=x-topic:plant/7 payload=x",
			"b> publish topic=$queue/q payload=y", "a< publish topic=$queue/q payload=y")
		if err := f.Bind(context.Background(), core.BindSpec{Source: "amq.direct", Queue: core.Named("q"), Filter: topic(t, "key").Filter()}); err != nil {
			t.Fatal(err)
		}
		s.must("b> publish topic=$exchange/amq.direct/key payload=z",
			"a< publish topic=$queue/q user=x-topic:$exchange/amq.direct/key payload=z")
	})
}

// The queue of a $queue subscription is deleted by somebody else.
func TestQueueDeletedUnderASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, testConfig())
		defer s.end()
		s.must("a> connect id=a session=100", "a< connack ...", "a> subscribe id=1 f=$queue/q q=1", "a< suback id=1 codes=01")
		f := s.foreign("stomp", "")
		defer f.Close(core.CloseNormal)
		if _, err := f.DeleteQueue(context.Background(), core.Named("q"), core.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.must(`a< disconnect code=98 reason="the queue was deleted"`, "a< closed")
	})
}

// A publisher that knew a queue makes it again when it is gone.
func TestQueueDeletedUnderAPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, testConfig())
		defer s.end()
		s.must("a> connect id=a", "a< connack ...", "a> publish topic=$queue/q alias=1 qos=1 id=1", "a< puback id=1",
			"a> publish topic=other qos=1 id=1", "a< puback id=1 code=10", "a> publish topic=$queue/q qos=1 id=1", "a< puback id=1")
		f := s.foreign("stomp", "")
		defer f.Close(core.CloseNormal)
		if _, err := f.DeleteQueue(context.Background(), core.Named("q"), core.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.must("a> publish topic=$queue/q qos=1 id=2", "a< puback id=2 code=10",
			"a> publish topic=\"\" alias=1 qos=1 id=3 payload=x", "a< puback id=3",
			"b> connect id=b", "b< connack ...", "b> subscribe id=1 f=$queue/q q=1", "b< suback id=1 codes=01",
			"b< publish topic=$queue/q qos=1 id=1 payload=x")
	})
}
