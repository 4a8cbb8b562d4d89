package adapters

import (
	"reflect"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		text string
		bare Transport
		want Address
		err  string
	}{
		{text: "127.0.0.1:1883", want: Address{Name: "127.0.0.1:1883", Transport: OverTCP, At: "127.0.0.1:1883"}},
		{text: "127.0.0.1:0", want: Address{Name: "127.0.0.1:0", Transport: OverTCP, At: "127.0.0.1:0"}},
		{text: "[::1]:01883", want: Address{Name: "[::1]:01883", Transport: OverTCP, At: "[::1]:1883"}},
		{text: ":1883", want: Address{Name: ":1883", Transport: OverTCP, At: ":1883"}},
		{text: "localhost:1883", want: Address{Name: "localhost:1883", Transport: OverTCP, At: "localhost:1883"}},
		{text: "tcp:0.0.0.0:1883", want: Address{Name: "tcp:0.0.0.0:1883", Transport: OverTCP, At: "0.0.0.0:1883"}},
		{text: "tls:0.0.0.0:8883", want: Address{Name: "tls:0.0.0.0:8883", Transport: OverTLS, At: "0.0.0.0:8883"}},
		{text: "tls::8883", want: Address{Name: "tls::8883", Transport: OverTLS, At: ":8883"}},
		{text: "unix:/run/a/../e.sock", want: Address{Name: "unix:/run/a/../e.sock", Transport: OverUnix, At: "/run/e.sock"}},
		{text: "tls:[::]:8883?client_auth=require", want: Address{Name: "tls:[::]:8883", Transport: OverTLS, At: "[::]:8883", ClientAuth: AuthRequire}},
		{text: "0.0.0.0:1883?proxy=1&plaintext=1&name=behind haproxy",
			want: Address{Name: "behind haproxy", Transport: OverTCP, At: "0.0.0.0:1883", Proxy: true, Plaintext: true}},
		{text: "127.0.0.1:1?proxy&plaintext=0", want: Address{Name: "127.0.0.1:1", Transport: OverTCP, At: "127.0.0.1:1", Proxy: true}},
		{text: "127.0.0.1:5683", bare: OverUDP, want: Address{Name: "127.0.0.1:5683", Transport: OverUDP, At: "127.0.0.1:5683"}},
		{text: "udp:127.0.0.1:5683", bare: OverUDP, want: Address{Name: "udp:127.0.0.1:5683", Transport: OverUDP, At: "127.0.0.1:5683"}},
		{text: "dtls:127.0.0.1:5684?client_auth=off", bare: OverUDP,
			want: Address{Name: "dtls:127.0.0.1:5684", Transport: OverDTLS, At: "127.0.0.1:5684", ClientAuth: AuthOff}},
		{text: "tcp:127.0.0.1:5683?proxy=1", bare: OverUDP, want: Address{Name: "tcp:127.0.0.1:5683", Transport: OverTCP, At: "127.0.0.1:5683", Proxy: true}},
		{text: "tls:127.0.0.1:5684", bare: OverUDP, want: Address{Name: "tls:127.0.0.1:5684", Transport: OverTLS, At: "127.0.0.1:5684"}},

		{text: "", err: "neither HOST:PORT nor tls:HOST:PORT nor unix:/PATH"},
		{text: "1883", err: "neither HOST:PORT"},
		{text: "127.0.0.1", err: "neither HOST:PORT"},
		{text: "tls:8883", err: "neither HOST:PORT"},
		{text: "ssl:127.0.0.1:8883", err: "neither HOST:PORT"},
		{text: "mqtt://127.0.0.1:8883", err: "neither HOST:PORT"},
		{text: "127.0.0.1:mqtt", err: "the port is a number"},
		{text: "127.0.0.1:65536", err: "the port is a number"},
		{text: "127.0.0.1:-1", err: "the port is a number"},
		{text: "unix:e.sock", err: "begins with /"},
		{text: "unix:@abstract", err: "begins with /"},
		{text: "unix:/" + strings.Repeat("x", maxSocketPath), err: "at most 103 bytes"},
		{text: "udp:127.0.0.1:1", err: "udp: is for CoAP"},
		{text: "dtls:127.0.0.1:1", err: "dtls: is for CoAP"},
		{text: "unix:/run/c.sock", bare: OverUDP, err: "CoAP is not spoken on unix sockets"},
		{text: "127.0.0.1:1?client_auth=require", err: "client_auth is for tls: and dtls: only"},
		{text: "tls:127.0.0.1:1?client_auth=must", err: `client_auth "must": off, request or require`},
		{text: "dtls:127.0.0.1:1?proxy=1", bare: OverUDP, err: "proxy is for streams only"},
		{text: "127.0.0.1:1?proxy=yes", err: "proxy=yes: 0 or 1"},
		{text: "127.0.0.1:1?name=", err: "name= wants a name"},
		{text: "127.0.0.1:1?proxi=1", err: `no option "proxi"; there are client_auth, name, plaintext and proxy`},
		{text: "127.0.0.1:1?proxy=1&", err: `no option ""`},
	} {
		if c.bare == "" {
			c.bare = OverTCP
		}
		got, err := ParseAddress(c.text, c.bare)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || got != c.want {
			t.Errorf("%q: %+v, %v; want %+v, %s", c.text, got, err, c.want, c.err)
		}
	}
}

func TestListsOfAddresses(t *testing.T) {
	for _, c := range []struct {
		listen, want []string
		err          string
	}{
		{listen: nil},
		{listen: []string{"off"}},
		{listen: []string{"127.0.0.1:0", "tls:[::1]:8883"}, want: []string{"127.0.0.1:0", "tls:[::1]:8883"}},
		{listen: []string{"off", "127.0.0.1:1883"}, err: `"off" stands alone`},
	} {
		all, err := ParseAddresses(c.listen, OverTCP)
		var got []string
		for _, a := range all {
			got = append(got, a.Name)
		}
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %q, %v", c.listen, got, err)
		}
	}
}

func TestSocketsAndWhoReachesThem(t *testing.T) {
	for _, c := range []struct {
		text   string
		bare   Transport
		socket string
		local  bool
	}{
		{"127.0.0.1:1883", OverTCP, "tcp 127.0.0.1:1883", true},
		{"tls:127.0.0.1:1883", OverTCP, "tcp 127.0.0.1:1883", true},
		{"127.0.0.1:1883?proxy=1", OverTCP, "tcp 127.0.0.1:1883", false},
		{"127.0.0.1:1883", OverUDP, "udp 127.0.0.1:1883", true},
		{"dtls:[::1]:1883", OverUDP, "udp [::1]:1883", true},
		{"unix:/run/a", OverTCP, "unix /run/a", true},
		{"unix:/run/a:0", OverTCP, "unix /run/a:0", true},
		{"127.0.0.1:0", OverTCP, "", true},
		{"0.0.0.0:1", OverTCP, "tcp 0.0.0.0:1", false},
		{"[::ffff:127.0.0.1]:1", OverTCP, "tcp [::ffff:127.0.0.1]:1", true},
		{"example.org:1", OverTCP, "tcp example.org:1", false},
		{":1", OverTCP, "tcp :1", false},
	} {
		a, err := ParseAddress(c.text, c.bare)
		if err != nil || a.Socket() != c.socket || a.Local() != c.local {
			t.Errorf("%s: %q, local %v, %v", c.text, a.Socket(), a.Local(), err)
		}
	}
}
