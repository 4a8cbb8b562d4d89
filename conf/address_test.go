package conf

import (
	"strings"
	"testing"

	"entrepot/adapters"
)

// Where DTLS clients share keys with the broker, it needs no certificate, and who
// has no key does not come in; beside certificates of the broker's, others do.
func TestSharedKeys(t *testing.T) {
	users := DefaultConfig()
	users.CoAP.Listen, users.Auth.Users = []string{"dtls:0.0.0.0:5684"}, "users"
	if err := users.Validate(); err != nil {
		t.Errorf("keys of the users file: %v", err)
	}
	for _, c := range []struct {
		listen     string
		keys, cert bool
		err        string
	}{
		{"dtls:127.0.0.1:5684", false, false, "or a file of keys as coap.psk_file"},
		{"dtls:127.0.0.1:5684", true, false, ""},
		{"dtls:0.0.0.0:5684", true, false, ""},
		{"dtls:0.0.0.0:5684", true, true, "lets everybody in"},
		{"dtls:0.0.0.0:5684?client_auth=require", true, true, "name the CAs"},
		{"tls:127.0.0.1:5684", true, false, "needs a certificate"},
		{"0.0.0.0:5683", true, false, "is not encrypted"},
	} {
		cfg := DefaultConfig()
		cfg.CoAP.Listen = []string{c.listen}
		if c.keys {
			cfg.CoAP.PSKFile = "keys"
		}
		if c.cert {
			cfg.TLS.Certs, cfg.TLS.Keys = []string{"a"}, []string{"a"}
		}
		if err := cfg.Validate(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What other machines reach has to be encrypted, or said to be plain, and needs
// users, or certificates of clients.
// It shows fault 59.
func TestExposedAddresses(t *testing.T) {
	const open, noCert, noUsers = "can be reached from other machines, and is not encrypted", "needs a certificate", "lets everybody in"
	for _, c := range []struct {
		listen string
		set    string // of: users, certs, cas, require
		errs   []string
	}{
		{"127.0.0.1:1883", "", nil},
		{"localhost:1883", "", nil},
		{"[::1]:1883", "", nil},
		{"127.8.9.10:1883", "", nil},
		{"unix:/run/e.sock", "", nil},
		{":1883", "", []string{open, noUsers}},
		{"0.0.0.0:1883", "", []string{open, `write "tls:0.0.0.0:1883"`, noUsers}},
		{"0.0.0.0:1883", "users", []string{open}},
		{"[::]:1883", "users", []string{open}},
		{"192.0.2.7:1883", "users", []string{open}},
		{"broker.example:1883", "users", []string{open}},
		{"localhost.evil.example:1883", "users", []string{open}},
		{"0.0.0.0:1883?plaintext=1", "users", nil},
		{"0.0.0.0:1883?plaintext=1", "", []string{noUsers}},
		{"0.0.0.0:1883?plaintext=0", "users", []string{open}},
		{"0.0.0.0:1883", "users certs", []string{open}},
		{"tls:127.0.0.1:8883", "", []string{noCert}},
		{"tls:127.0.0.1:8883", "certs", nil},
		{"tls:0.0.0.0:8883", "certs", []string{noUsers}},
		{"tls:0.0.0.0:8883", "certs users", nil},
		{"tls:0.0.0.0:8883", "certs cas require", nil},
		{"tls:0.0.0.0:8883?client_auth=require", "certs cas", nil},
		{"tls:0.0.0.0:8883?client_auth=request", "certs cas require", []string{noUsers}},
		{"tls:0.0.0.0:8883?client_auth=require", "certs users", []string{"asks for clients' certificates: name the CAs"}},
		{"127.0.0.1:1884?proxy=1", "users", []string{"is behind a proxy: add &plaintext=1"}},
		{"127.0.0.1:1884?proxy=1&plaintext=1", "users", nil},
		{"127.0.0.1:1884?proxy=1&plaintext=1", "", []string{noUsers}},
		{"unix:/run/e.sock?proxy=1&plaintext=1", "", []string{noUsers}},
		{"tls:127.0.0.1:8884?proxy=1", "certs users", nil},
	} {
		cfg := DefaultConfig()
		cfg.MQTT.Listen = []string{c.listen}
		cfg.Proxy.Networks = []string{"127.0.0.1", "unix"}
		for _, s := range strings.Fields(c.set) {
			switch s {
			case "users":
				cfg.Auth.Users = "users"
			case "certs":
				cfg.TLS.Certs, cfg.TLS.Keys = []string{"a"}, []string{"a"}
			case "cas":
				cfg.TLS.ClientCAs = []string{"a"}
			case "require":
				cfg.TLS.ClientAuth = adapters.AuthRequire
			}
		}
		err := cfg.Validate()
		if (err != nil) != (len(c.errs) > 0) {
			t.Errorf("%s with %q: %v", c.listen, c.set, err)
			continue
		}
		for _, want := range c.errs {
			if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mqtt: listen: ") {
				t.Errorf("%s with %q: %v; want %s", c.listen, c.set, err, want)
			}
		}
	}
}

// CoAP's addresses are UDP's.
// It shows fault 59.
func TestExposedDatagrams(t *testing.T) {
	c := DefaultConfig()
	c.Auth.Users = "users"
	c.CoAP.Listen = []string{"0.0.0.0:5683"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `coap: listen: "0.0.0.0:5683" can be reached from other machines, and is not encrypted: write "dtls:0.0.0.0:5683"`) {
		t.Errorf("error %v", err)
	}
	c.CoAP.Listen = []string{"0.0.0.0:5683?plaintext=1"}
	if err := c.Validate(); err != nil {
		t.Error(err)
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
	c.CoAP.Listen, c.STOMP.Listen = []string{"127.0.0.1:7", "tcp:127.0.0.1:8"}, []string{"127.0.0.1:7"}
	if err := c.Validate(); err != nil { // UDP's ports are others
		t.Error(err)
	}
	c.STOMP.Listen = []string{"tcp:127.0.0.1:8"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "tcp 127.0.0.1:8 is named by stomp already") {
		t.Errorf("error %v", err)
	}
	c.STOMP.Listen = []string{"unix:/run/x"}
	c.HTTP.Listen = []string{"unix:/run//x"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "unix /run/x is named by stomp already") {
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
