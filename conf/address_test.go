package conf

import (
	"reflect"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		listen []string
		want   []string
		err    string
	}{
		{listen: nil},
		{listen: []string{"off"}},
		{listen: []string{"127.0.0.1:1883"}, want: []string{"127.0.0.1:1883"}},
		{listen: []string{"127.0.0.1:0", "[::1]:1883"}, want: []string{"127.0.0.1:0", "[::1]:1883"}},
		{listen: []string{"localhost:1883"}, want: []string{"localhost:1883"}},
		{listen: []string{"127.8.9.10:1883"}, want: []string{"127.8.9.10:1883"}},
		{listen: []string{"unix:/run/a/../e.sock"}, want: []string{"unix:/run/e.sock"}},
		{listen: []string{"off", "127.0.0.1:1883"}, err: `"off" stands alone`},
		{listen: []string{""}, err: "neither HOST:PORT nor unix:/PATH"},
		{listen: []string{"1883"}, err: "neither HOST:PORT nor unix:/PATH"},
		{listen: []string{"127.0.0.1"}, err: "neither HOST:PORT nor unix:/PATH"},
		{listen: []string{"127.0.0.1:mqtt"}, err: "the port is a number"},
		{listen: []string{"127.0.0.1:65536"}, err: "the port is a number"},
		{listen: []string{"127.0.0.1:-1"}, err: "the port is a number"},
		{listen: []string{":1883"}, err: "can be reached from other machines"},
		{listen: []string{"0.0.0.0:1883"}, err: "this version has no TLS"},
		{listen: []string{"[::]:1883"}, err: "can be reached from other machines"},
		{listen: []string{"192.0.2.7:1883"}, err: "can be reached from other machines"},
		{listen: []string{"broker.example:1883"}, err: "can be reached from other machines"},
		{listen: []string{"localhost.evil.example:1883"}, err: "can be reached from other machines"},
		{listen: []string{"unix:e.sock"}, err: "begins with /"},
		{listen: []string{"unix:@abstract"}, err: "begins with /"},
		{listen: []string{"unix:/" + strings.Repeat("x", maxSocketPath)}, err: "at most 103 bytes"},
	} {
		got, err := ParseAddresses(c.listen)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v; want %v, %s", c.listen, got, err, c.want, c.err)
		}
	}
}

// Port 0 is another port each time; all else is taken once.
func TestAddressesOverProtocols(t *testing.T) {
	c := DefaultConfig()
	c.MQTT.Listen = []string{"127.0.0.1:0", "127.0.0.1:0"}
	c.STOMP.Listen = []string{"127.0.0.1:0"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.STOMP.Listen = []string{"unix:/run/x"}
	c.HTTP.Listen = []string{"unix:/run//x"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "unix:/run/x is named by stomp already") {
		t.Errorf("error %v", err)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"listn", "listen", 1}, {"lsiten", "listen", 2}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s to %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
