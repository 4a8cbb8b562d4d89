package admin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
)

//go:embed page
var embedded embed.FS

const index = `Entrepot
  /         the live page, for browsers
  /healthz  200 when the process answers
  /readyz   200 when clients can connect, with the alarms that are on
  /metrics  what the broker counts
  /api/v1   queues and delayed messages, for this machine: see 'entrepot queue'
`

// pagePolicy lets the page load what is served beside it and connect back,
// and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page serves the live page to browsers, which find it at /. It speaks WAMP in
// realm, at /ws. Called before Serve.
func (s *Server) Page(realm string) {
	s.page = s.livePage(realm)
	for _, name := range []string{"icon.svg", "live.css", "live.js", "names.js", "plot.js", "wamp.js"} {
		s.paths.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			pageHeaders(w)
			http.ServeFileFS(w, r, embedded, "page/"+name)
		})
	}
}

func (s *Server) livePage(realm string) []byte {
	html, err := embedded.ReadFile("page/index.html")
	if err != nil {
		// It is in the program or this does not compile.
		panic(err)
	}
	return bytes.Replace(html, []byte(`data-realm=""`), []byte(`data-realm="`+template.HTMLEscapeString(realm)+`"`), 1)
}

// home answers programs with the list of what there is, browsers with the page.
func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if s.page == nil || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		text(w, http.StatusOK, index)
		return
	}
	pageHeaders(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(s.page)
}

func pageHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
}
