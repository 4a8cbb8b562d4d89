package admin

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// A command is for this machine's own programs, not for pages in its browsers.
func TestCommands(t *testing.T) {
	s := New(DefaultConfig(), newRealms("/"), always, func() map[string]map[string]uint64 { return nil }, slog.New(slog.DiscardHandler))
	s.HandleCommand("/do", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		text(w, http.StatusOK, "did "+string(body))
	}))
	addr := serve(t, s)
	const json = "application/json"
	for _, c := range []struct {
		name, method, path, kind string
		header, value            string
		host, body               string
		status                   int
		want                     string
	}{
		{name: "done", kind: json, body: "{}", status: 200, want: "did {}"},
		{name: "with a character set", kind: json + "; charset=utf-8", status: 200, want: "did "},
		{name: "asked for by the user", kind: json, header: "Sec-Fetch-Site", value: "none", status: 200},
		{name: "from a page", kind: json, header: "Origin", value: "http://evil.example", status: 403, want: "web page"},
		{name: "from a page of this machine", kind: json, header: "Origin", value: "http://" + addr, status: 403},
		{name: "from a page without an origin", kind: json, header: "Origin", value: "null", status: 403},
		{name: "across sites", kind: json, header: "Sec-Fetch-Site", value: "cross-site", status: 403},
		{name: "from the same site", kind: json, header: "Sec-Fetch-Site", value: "same-origin", status: 403},
		{name: "a form", kind: "application/x-www-form-urlencoded", status: 415, want: "application/json"},
		{name: "text", kind: "text/plain", status: 415},
		{name: "no type", status: 415},
		{name: "rebinding", kind: json, host: "evil.example", status: 421},
		{name: "read", method: "GET", kind: json, status: 405},
		{name: "put", method: "PUT", kind: json, status: 405},
		{name: "preflight", method: "OPTIONS", header: "Origin", value: "http://evil.example", status: 405},
		{name: "large", kind: json, body: strings.Repeat("x", maxBody+1), status: 413},
		{name: "another path", path: "/other", kind: json, status: 405},
		{name: "below", path: "/do/it", kind: json, status: 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.method == "" {
				c.method = "POST"
			}
			if c.path == "" {
				c.path = "/do"
			}
			r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			if c.kind != "" {
				r.Header.Set("Content-Type", c.kind)
			}
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("status %d, body %q; want %d, %q", resp.StatusCode, body, c.status, c.want)
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

func TestPeersOfCommands(t *testing.T) {
	for peer, want := range map[string]bool{
		"127.0.0.1:5": true, "[::1]:5": true, "127.9.9.9:5": true, "@": true, "": true,
		"192.0.2.1:5": false, "[2001:db8::1]:5": false, "name:5": false, "192.0.2.1": false,
	} {
		if local(peer) != want {
			t.Errorf("%q: %t", peer, !want)
		}
	}
}
