package admin

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Nothing is ever allowed to pages of other origins, with or without
// credentials, whatever they ask for (fault 62).
func TestNoForeignOriginIsAllowed(t *testing.T) {
	s := openStockroom(t, "secret")
	for _, origin := range []string{"http://evil.example", "null", "http://" + s.addr, "https://localhost"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST"} {
			for _, where := range []string{"/", "/healthz", "/metrics", "/api/v1/queues", "/nothing"} {
				r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.addr+where, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Origin", origin)
				r.Header.Set("Cookie", "a=b")
				r.Header.Set("Access-Control-Request-Method", "POST")
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				for name := range resp.Header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s from %s: %s", method, where, origin, name)
					}
				}
				if method == "OPTIONS" && resp.StatusCode < 400 {
					t.Errorf("%s %s from %s: status %d", method, where, origin, resp.StatusCode)
				}
			}
		}
	}
}

// What a client puts into a path or a query comes back as text, with a policy
// under which nothing in it runs (fault 64).
func TestMarkupIsText(t *testing.T) {
	s := openStockroom(t, "")
	const script = "%3Cscript%3Ealert(1)%3C/script%3E"
	for _, where := range []string{"/" + script, "/api/v1/queues/" + script, "/api/v1/queues?name=" + script, "/ws?x=" + script, "/?" + script} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+where, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		h := resp.Header
		if strings.HasPrefix(h.Get("Content-Type"), "text/html") && strings.Contains(string(body), "<script>alert") ||
			h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v %q", where, h, body)
		}
	}
}

// The page's scripts put what they show in as text: they use nothing that reads
// markup or code from a string (fault 64).
func TestPageReadsNoMarkup(t *testing.T) {
	sinks := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|` +
		`setHTML|srcdoc|javascript:|\beval\(|new Function|set(Timeout|Interval)\(["'` + "`" + `]|\.on[a-z]+\s*=\s*["'` + "`" + `]|setAttribute\(["']on`)
	parts, err := embedded.ReadDir("page")
	if err != nil || len(parts) == 0 {
		t.Fatal(err)
	}
	for _, p := range parts {
		text, err := embedded.ReadFile(path.Join("page", p.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if found := sinks.Find(text); found != nil {
			t.Errorf("%s has %q", p.Name(), found)
		}
	}
}

// Bytes of other protocols are no requests, and end their connection (fault 63).
func TestForeignBytes(t *testing.T) {
	_, addr := start(t, DefaultConfig(), always)
	for name, text := range map[string]string{
		"MQTT":  "\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a\x30\x04\x00\x01tx\r\n\r\n",
		"STOMP": "CONNECT\naccept-version:1.2\nhost:/\n\n\x00",
		"AMQP":  "AMQP\x00\x00\x09\x01\r\n\r\n",
		"TLS":   "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\r\n\r\n",
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusBadRequest || !resp.Close {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
		_ = c.Close()
	}
}
