package routing

import (
	"slices"
	"testing"
)

// The table of names.md, section 1.
func TestSpellingTable(t *testing.T) {
	for _, c := range []struct {
		mqtt, dotted, uri string
		path              []string
	}{
		{"plant/7/temp", "plant.7.temp", "plant.7.temp", []string{"plant", "7", "temp"}},
		{"spBv1.0/g1/DDATA", "spBv1%2E0.g1.DDATA", "spBv1%2E0.g1.DDATA", []string{"spBv1.0", "g1", "DDATA"}},
		{"/a//b", ".a..b", "%00.a.%00.b", []string{"", "a", "", "b"}},
		{"com/myapp/on news", "com.myapp.on news", "com.myapp.on%20news", []string{"com", "myapp", "on news"}},
		{"a/%2B/b", "a.+.b", "a.+.b", []string{"a", "+", "b"}},
	} {
		topic, err := MQTT.ParseTopic(c.mqtt)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Dotted.PrintTopic(topic); got != c.dotted || err != nil {
			t.Errorf("%s in AMQP is %q, %v", c.mqtt, got, err)
		}
		if got, err := URI.PrintTopic(topic); got != c.uri || err != nil {
			t.Errorf("%s in WAMP is %q, %v", c.mqtt, got, err)
		}
		if got, err := Path.PrintTopic(topic); !slices.Equal(got, c.path) || err != nil {
			t.Errorf("%s in CoAP is %q, %v", c.mqtt, got, err)
		}
		if got, err := Dotted.ParseTopic(c.dotted); got != topic || err != nil {
			t.Errorf("AMQP %s is %q, %v", c.dotted, got, err)
		}
		if got, err := URI.ParseTopic(c.uri); got != topic || err != nil {
			t.Errorf("WAMP %s is %q, %v", c.uri, got, err)
		}
		if got, err := Path.ParseTopic(c.path); got != topic || err != nil {
			t.Errorf("CoAP %q is %q, %v", c.path, got, err)
		}
	}
}
