package core

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"entrepot/routing"
)

// rich returns a message with every field set.
func rich(t testing.TB) *Message {
	topic, err := routing.NewTopic("a", "", "ü/+")
	if err != nil {
		t.Fatal(err)
	}
	reply, err := QueueAddress("back/here")
	if err != nil {
		t.Fatal(err)
	}
	return &Message{
		Exchange: TopicExchange, Topic: topic, Payload: []byte{0, 1, 2, 255}, Guarantee: Once, Retain: true,
		Origin: &Origin{Protocol: "mqtt", ClientID: "c", User: "u"},
		Props: &Properties{
			ContentType: "text/plain", ContentEncoding: "gzip", Text: true, Correlation: []byte{0},
			ReplyTo: reply, Priority: 9, HasPriority: true, MessageID: "m", Type: "t", AppID: "a",
			Timestamp: time.UnixMilli(1234567890123), CC: []routing.Topic{topic}, BCC: []routing.Topic{reply.Topic},
			Headers: routing.Headers{{Name: "k", Value: "v"}, {Name: "k", Value: int8(-1)}, {Name: "", Value: nil},
				{Name: "n", Value: []any{true, int16(-2), int32(3), int64(-4), uint8(5), uint16(6), uint32(7), uint64(8),
					float32(1.5), 2.5, []byte{9}, time.Unix(77, 0), routing.Decimal{Scale: 2, Value: -314},
					routing.Headers{{Name: "deep", Value: "x"}}}}},
		},
	}
}

func TestMessageOnDiskComesBackWhole(t *testing.T) {
	for _, m := range []*Message{rich(t), {Topic: rich(t).Topic}, {Topic: rich(t).Topic, Transient: true}, {Topic: rich(t).Topic, Props: &Properties{}}} {
		got, err := DecodeMessage(AppendMessage(nil, m))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Payload) == 0 {
			got.Payload = m.Payload
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got  %+v %+v\nwant %+v %+v", got, got.Props, m, m.Props)
		}
	}
}

func TestMessageOnDiskKeepsItsExpiry(t *testing.T) {
	m := rich(t)
	m.Props.HasTTL, m.Props.TTL, m.Props.Expires = true, time.Minute, time.Now().Add(time.Minute)
	got, err := DecodeMessage(AppendMessage(nil, m))
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Props.Expires.Sub(got.Props.Expires); d < 0 || d >= time.Millisecond {
		t.Errorf("expires %v off", d)
	}
	if got.Props.TTL != time.Minute {
		t.Errorf("a TTL of %v", got.Props.TTL)
	}
}

func TestMessageOnDiskTruncatedIsRefused(t *testing.T) {
	m := rich(t)
	m.Payload = nil
	whole := AppendMessage(nil, m)
	for n := range whole {
		if _, err := DecodeMessage(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken for a message", n, len(whole))
		}
	}
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add(AppendMessage(nil, rich(f)))
	f.Add([]byte{1, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			return
		}
		again, err := DecodeMessage(AppendMessage(nil, m))
		if err != nil || !bytes.Equal(AppendMessage(nil, again), AppendMessage(nil, m)) {
			t.Fatalf("not the same the second time: %v", err)
		}
	})
}
