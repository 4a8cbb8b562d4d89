package adapters

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

// Scheme, host and port all count, in any spelling of them; null never passes.
// It shows fault 61.
func TestOrigins(t *testing.T) {
	listed := []string{"https://app.example", "http://dev.example:3000", "capacitor://localhost"}
	for _, c := range []struct {
		name   string
		list   []string
		host   string
		tls    bool
		origin []string
		ok     bool
	}{
		{"no browser", nil, "localhost:8080", false, nil, true},
		{"own page", nil, "localhost:8080", false, []string{"http://localhost:8080"}, true},
		{"own page, capital letters", nil, "LocalHost:8080", false, []string{"HTTP://LOCALHOST:8080"}, true},
		{"own page on IPv6", nil, "[::1]:8080", false, []string{"http://[::1]:8080"}, true},
		{"own page on the scheme's port", nil, "localhost", false, []string{"http://localhost:80"}, true},
		{"own page over TLS", nil, "localhost:8443", true, []string{"https://localhost:8443"}, true},
		{"other port", nil, "localhost:8080", false, []string{"http://localhost:3000"}, false},
		{"no port", nil, "localhost:8080", false, []string{"http://localhost"}, false},
		{"other scheme", nil, "localhost:8080", false, []string{"https://localhost:8080"}, false},
		{"other scheme, over TLS", nil, "localhost:8080", true, []string{"http://localhost:8080"}, false},
		{"other host", nil, "localhost:8080", false, []string{"http://evil.example:8080"}, false},
		{"other name of the same host", nil, "localhost:8080", false, []string{"http://127.0.0.1:8080"}, false},
		{"host as a prefix", nil, "localhost:8080", false, []string{"http://localhost:8080.evil.example"}, false},
		{"host as the user", nil, "localhost:8080", false, []string{"http://localhost:8080@evil.example"}, false},
		{"null", nil, "localhost:8080", false, []string{"null"}, false},
		{"null, everything else allowed", []string{"*"}, "localhost:8080", false, []string{"null"}, false},
		{"empty", nil, "localhost:8080", false, []string{""}, false},
		{"no origin at all", []string{"*"}, "localhost:8080", false, []string{"file://"}, false},
		{"two", nil, "localhost:8080", false, []string{"http://localhost:8080", "http://localhost:8080"}, false},
		{"own, with a path", nil, "localhost:8080", false, []string{"http://localhost:8080/x"}, false},
		{"no host", nil, "", false, []string{"http://"}, false},
		{"listed", listed, "localhost:8080", false, []string{"https://app.example"}, true},
		{"listed, port written", listed, "localhost:8080", false, []string{"https://app.example:443"}, true},
		{"listed, other scheme", listed, "localhost:8080", false, []string{"http://app.example"}, false},
		{"listed with a port", listed, "localhost:8080", false, []string{"http://dev.example:3000"}, true},
		{"listed with another port", listed, "localhost:8080", false, []string{"http://dev.example:3001"}, false},
		{"listed, scheme of an app", listed, "localhost:8080", false, []string{"capacitor://localhost"}, true},
		{"under a listed one", listed, "localhost:8080", false, []string{"https://x.app.example"}, false},
		{"own beside listed", listed, "localhost:8080", false, []string{"http://localhost:8080"}, true},
		{"every", []string{"*"}, "localhost:8080", false, []string{"http://evil.example"}, true},
	} {
		o, err := parseOrigins(c.list)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Host: c.host, Header: http.Header{}}
		for _, origin := range c.origin {
			r.Header.Add("Origin", origin)
		}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if err := o.check(r); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestForeignPagesAreRefused shows fault 61.
func TestForeignPagesAreRefused(t *testing.T) {
	cfg := DefaultWebSocketConfig()
	cfg.Origins = []string{"https://app.example"}
	s, _ := carrying(t, cfg, testConfig())
	s.mux.Handle("/ws", s.Any(Carried{Names: []string{"b1"}}))
	for _, c := range []struct {
		path, origin string
		names        []string
		status       int
	}{
		{"/bin", "https://evil.example", []string{"b1"}, 403},
		{"/bin", "https://evil.example", nil, 403},
		{"/ws", "https://evil.example", nil, 403}, // and is not told what is there
		{"/bin", "null", nil, 403},
		{"/bin", "https://app.example", nil, 101},
		{"/bin", "http://" + s.addr, nil, 101},
	} {
		client, status, err := s.dial(c.path, http.Header{"Origin": {c.origin}}, c.names...)
		if status != c.status {
			t.Errorf("%s from %s: status %d, %v; want %d", c.path, c.origin, status, err, c.status)
		}
		if client != nil {
			client.Close()
		}
	}
}

func TestWebSocketConfig(t *testing.T) {
	if err := DefaultWebSocketConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		want  string
		spoil func(*WebSocketConfig)
	}{
		{"origins", func(c *WebSocketConfig) { c.Origins = []string{"app.example"} }},
		{"origins", func(c *WebSocketConfig) { c.Origins = []string{"https://app.example/"} }},
		{"origins", func(c *WebSocketConfig) { c.Origins = []string{"null"} }},
		{"origins", func(c *WebSocketConfig) { c.Origins = []string{"https://a b"} }},
		{"origins", func(c *WebSocketConfig) { c.Origins = []string{""} }},
		{"max_message", func(c *WebSocketConfig) { c.MaxMessage = 1 }},
		{"ping", func(c *WebSocketConfig) { c.Ping = 1 }},
		{"pong_timeout", func(c *WebSocketConfig) { c.PongTimeout = c.Ping }},
	} {
		cfg := DefaultWebSocketConfig()
		c.spoil(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v", c.want, err)
		}
	}
	cfg := DefaultWebSocketConfig()
	cfg.Ping, cfg.PongTimeout = 0, 0
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}
