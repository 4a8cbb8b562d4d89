package client

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		text string
		want URL
	}{
		{"mqtt://h", URL{MQTT, "h:1883", "", "", "", false}},
		{"mqtts://h/a", URL{MQTT, "h:8883", "", "", "a", true}},
		{"stomps://h/a", URL{STOMP, "h:61614", "", "", "/a", true}},
		{"stomp+ssl://h:1/a", URL{STOMP, "h:1", "", "", "/a", true}},
		{"mqtt://h/", URL{MQTT, "h:1883", "", "", "", false}},
		{"mqtt://127.0.0.1:1884/plant/#", URL{MQTT, "127.0.0.1:1884", "", "", "plant/#", false}},
		{"mqtt://h/a?b=c&d#e%20f", URL{MQTT, "h:1883", "", "", "a?b=c&d#e%20f", false}},
		{"mqtt://h/$queue/orders", URL{MQTT, "h:1883", "", "", "$queue/orders", false}},
		{"mqtt://h//a", URL{MQTT, "h:1883", "", "", "/a", false}},
		{"mqtt://h/a b/ü", URL{MQTT, "h:1883", "", "", "a b/ü", false}},
		{"mqtt://h/x@y:z", URL{MQTT, "h:1883", "", "", "x@y:z", false}},
		{"mqtt://h/mqtt://i", URL{MQTT, "h:1883", "", "", "mqtt://i", false}},
		{"mqtt://u@h/a", URL{MQTT, "h:1883", "u", "", "a", false}},
		{"mqtt://u%40x:p%3Aq%2Fr@h:1/a", URL{MQTT, "h:1", "u@x", "p:q/r", "a", false}},
		{"mqtt://u:p:q@h/a", URL{MQTT, "h:1883", "u", "p:q", "a", false}},
		{"mqtt://[::1]/a", URL{MQTT, "[::1]:1883", "", "", "a", false}},
		{"mqtt://[::1]:5/a", URL{MQTT, "[::1]:5", "", "", "a", false}},
		{"stomp://h", URL{STOMP, "h:61613", "", "", "", false}},
		{"stomp://h/", URL{STOMP, "h:61613", "", "", "", false}},
		{"stomp://h/topic/plant.7.temp", URL{STOMP, "h:61613", "", "", "/topic/plant.7.temp", false}},
		{"stomp://u:p@h:1/queue/a#b", URL{STOMP, "h:1", "u", "p", "/queue/a#b", false}},
	} {
		if got, err := ParseURL(c.text); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "begins neither with mqtt:// nor with stomp://"},
		{"plant/#", "begins neither"},
		{"mqtt:h/a", "begins neither"},
		{"amqps://h/a", "begins neither"},
		{"http://h/a", "begins neither"},
		{"mqtt:///a", "no HOST"},
		{"mqtt://:1883/a", "no HOST"},
		{"mqtt://h:x/a", "no HOST"},
		{"mqtt://::1/a", "IPv6 address stands in [ ]"},
		{"mqtt://h#a", "no HOST"},
		{"mqtt://h?a", "no HOST"},
		{"mqtt://h i/a", "no HOST"},
		{"mqtt://u:secret%@h/a", "without two digits"},
	} {
		_, err := ParseURL(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in %v", c.text, err)
		}
	}
}
