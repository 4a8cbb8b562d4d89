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
	"entrepot/core/auth"
)

// routes are the paths that are open to everybody.
func (s *Server) routes(realms *core.Realms, ready func() bool) {
	s.paths.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok\n")
	})
	s.paths.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case !ready():
			text(w, http.StatusServiceUnavailable, "not ready: starting or stopping\n")
		case s.door.broker.Guarded(): // whoever asks
			text(w, http.StatusOK, "ready\n")
		default:
			text(w, http.StatusOK, "ready\n"+shortages(realms))
		}
	})
	s.paths.HandleFunc("GET /{$}", s.home)
}

// mayRead lets those at h who have the admin right on $SYS/what.
func (s *Server) mayRead(what string, h http.Handler) http.Handler {
	o := brokerObject(what)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a asker
		var err error
		if s.door.broker.Guarded() {
			a, err = s.door.identify(r)
		}
		if err == nil && a.protocol != byToken {
			err = s.door.broker.Allowed(a.who, auth.Admin, o)
		}
		if err != nil {
			s.refuse(w, a, what, o, err)
			return
		}
		h.ServeHTTP(w, r)
	})
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

func metrics(realms *core.Realms, refused func() map[string]map[string]uint64, own []Counts, log *slog.Logger) http.Handler {
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

// guard is what holds for every request: this machine's names only where nobody
// has to log in, reading only but for commands, no body to speak of, nothing
// kept, framed, guessed or told on by a browser.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		switch {
		case !s.door.broker.Guarded() && reachedLocally(r) && !loopbackHost(r.Host):
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

// reachedLocally tells whether a request came to an address that only this
// machine's own programs reach: a browser is one of them, and a page can give
// that address a name of its own.
func reachedLocally(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := at.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
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
