package stomp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"entrepot/core"
	"entrepot/routing"
)

func TestParsePlace(t *testing.T) {
	for _, c := range []struct {
		text string
		want place
	}{
		{"/topic/a.b", place{kind: topicPlace, key: "a.b"}},
		{"/topic/a/b", place{kind: topicPlace, key: "a/b"}},
		{"/queue/a.b", place{kind: queuePlace, name: "a.b"}},
		{"/queue/a%2Fb", place{kind: queuePlace, name: "a/b"}},
		{"/queue/a%252Fb", place{kind: queuePlace, name: "a%2Fb"}},
		{"/queue/100%", place{kind: queuePlace, name: "100%"}},
		{"/queue//", place{kind: queuePlace, name: "/"}},
		{"/amq/queue/q", place{kind: amqQueuePlace, name: "q"}},
		{"/exchange/x", place{kind: exchangePlace, name: "x"}},
		{"/exchange/x/a.b/c", place{kind: exchangePlace, name: "x", key: "a.b/c"}},
		{"/exchange/a%2Fb/k", place{kind: exchangePlace, name: "a/b", key: "k"}},
		{"/temp-queue/t", place{kind: tempQueuePlace, name: "t"}},
		{"/temp-topic/t", place{kind: tempTopicPlace, name: "t"}},
		{"/rpc/dev.reboot", place{kind: procedurePlace, key: "dev.reboot"}},
		{"/reply-queue/r", place{kind: replyQueuePlace, name: "r"}},
	} {
		got, err := parsePlace(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v %v", c.text, got, err)
		}
	}
	for _, text := range []string{"", "a", "/queue", "/queue/", "/topic/", "queue/a", "/Queue/a", "/exchange/", "/exchange//k", "/rpc/"} {
		if p, err := parsePlace(text); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

// FuzzNames: a name in a destination is read back, and no '/' of it is seen.
func FuzzNames(f *testing.F) {
	f.Add("a/b%2F%252F%25")
	f.Fuzz(func(t *testing.T, name string) {
		text := encodeName(name)
		if strings.Contains(text, "/") {
			t.Errorf("%q is written %q", name, text)
		}
		if got := decodeName(text); got != name {
			t.Errorf("%q is written %q and read %q", name, text, got)
		}
		if !strings.Contains(name, "/") {
			if got := encodeName(decodeName(name)); got != name {
				t.Errorf("%q is read and written %q", name, got)
			}
		}
	})
}

// FuzzAddress: an address that is printed is reached by what was printed.
func FuzzAddress(f *testing.F) {
	f.Add("", "queue", false)
	f.Add("amq.topic", "a/b.c/%2F", true)
	f.Add("x/y", "k/+", false)
	f.Fuzz(func(t *testing.T, exchange, topic string, slash bool) {
		parsed, err := routing.ParseTopic(topic)
		if err != nil || !utf8.ValidString(exchange) || len(exchange) > 255 || strings.Contains(exchange, "\x00") {
			return
		}
		a := core.Address{Exchange: exchange, Topic: parsed}
		if name, ok := a.QueueName(); ok && (name == "" || len(name) > 255) || !ok && exchange == "" {
			return // no such queue
		}
		s := spelling{slash: slash}
		text := s.print(a)
		p, err := parsePlace(text)
		if err != nil {
			t.Fatalf("%+v is printed %q: %v", a, text, err)
		}
		got, err := s.address(p)
		if err != nil || got != a {
			t.Errorf("%+v is printed %q and read %+v %v", a, text, got, err)
		}
	})
}
