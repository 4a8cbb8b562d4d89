package admin

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"entrepot/core"
)

func routes(realms *core.Realms, ready func() bool, refused func() map[string]uint64, own []Counts, log *slog.Logger) *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok\n")
	})
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			text(w, http.StatusServiceUnavailable, "not ready: starting or stopping\n")
			return
		}
		text(w, http.StatusOK, "ready\n"+shortages(realms))
	})
	m.Handle("GET /metrics", metrics(realms, refused, own, log))
	return m
}

// shortages has a line for each alarm that is on. Clients can connect and consume
// all the same.
func shortages(realms *core.Realms) string {
	var lines strings.Builder
	for _, a := range alarms(realms) {
		if a.On {
			fmt.Fprintf(&lines, "alarm: %s\n", a)
		}
	}
	return lines.String()
}

// text writes a whole answer. That the client went away meanwhile is its
// affair.
func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func metrics(realms *core.Realms, refused func() map[string]uint64, own []Counts, log *slog.Logger) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		newCollector(realms, refused),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, c := range own {
		r.MustRegister(c)
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		DisableCompression:  true,
	})
}

// guard is what holds for every request: this machine's names only, reading
// only but for commands, no body to speak of, nothing kept or guessed by a
// browser.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		switch {
		case !loopbackHost(r.Host):
			text(w, http.StatusMisdirectedRequest, "the Host header names another machine: use localhost, 127.0.0.1 or [::1]\n")
		case r.Method == http.MethodPost && s.commands[r.URL.Path]:
			s.pass(w, r, next)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			text(w, http.StatusMethodNotAllowed, "GET and HEAD only\n")
		default:
			s.pass(w, r, next)
		}
	})
}

// pass lets a request on whose body is short.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.ContentLength > maxBody {
		text(w, http.StatusRequestEntityTooLarge, "the request's body is too large\n")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	next.ServeHTTP(w, r)
}

// loopbackHost tells whether a Host header names this machine by itself. None
// at all is HTTP/1.0, which health checks speak and browsers do not.
func loopbackHost(host string) bool {
	if host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
