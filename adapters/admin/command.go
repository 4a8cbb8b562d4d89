package admin

import (
	"mime"
	"net"
	"net/http"
)

// HandleCommand lets h answer POST requests for path, whose body is JSON, at
// most 4 KiB of it. They pass the same guard as all, and come from this machine
// and from no web page: one that a browser shows may send requests here, but
// cannot hide where it comes from, nor send JSON without asking first. Called
// before Serve.
func (s *Server) HandleCommand(path string, h http.Handler) {
	s.commands[path] = true
	s.paths.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case !local(r.RemoteAddr):
			text(w, http.StatusForbidden, "only from this machine\n")
		case fromPage(r.Header):
			text(w, http.StatusForbidden, "not from a web page\n")
		case err != nil || kind != "application/json":
			text(w, http.StatusUnsupportedMediaType, "Content-Type: application/json only\n")
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// local tells whether a peer is on this machine; those of unix sockets have no
// address.
func local(peer string) bool {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		return peer == "" || peer == "@"
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// fromPage tells what a browser sends for a page. Fetch metadata says "none"
// when it is the user who asks.
func fromPage(h http.Header) bool {
	site := h.Get("Sec-Fetch-Site")
	return h.Get("Origin") != "" || site != "" && site != "none"
}
