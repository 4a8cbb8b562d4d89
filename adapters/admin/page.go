package admin

import (
	"embed"
	"html/template"
	"io"
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
  /api/v1   queues and delayed messages: see 'entrepot queue'
`

// pagePolicy lets the page load what is served beside it and connect back,
// and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page serves the live page to browsers, which find it at /. It speaks WAMP in
// realm, at /ws. Where clients have to prove who they are, people log in there
// first. Called before Serve.
func (s *Server) Page(realm string) {
	s.page = &livePage{live: part("live.html"), login: part("login.html"), realm: realm}
	s.handleLogin()
	for _, name := range []string{"icon.svg", "live.css", "live.js", "login.js", "logout.js", "names.js", "plot.js", "wamp.js"} {
		s.paths.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			pageHeaders(w)
			http.ServeFileFS(w, r, embedded, "page/"+name)
		})
	}
}

// livePage is what browsers get at /.
type livePage struct {
	live, login string
	realm       string
}

func part(name string) string {
	html, err := embedded.ReadFile("page/" + name)
	if err != nil {
		// It is in the program or this does not compile.
		panic(err)
	}
	return string(html)
}

// html is the page for a user; nobody has the empty name.
func (p *livePage) html(user string) string {
	return strings.NewReplacer(`data-realm=""`, `data-realm="`+template.HTMLEscapeString(p.realm)+`"`,
		`data-user=""`, `data-user="`+template.HTMLEscapeString(user)+`"`).Replace(p.live)
}

// home answers programs with the list of what there is, browsers with the page.
func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept, Cookie")
	if s.page == nil || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		text(w, http.StatusOK, index)
		return
	}
	pageHeaders(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	html := s.page.login
	if !s.door.broker.Guarded() {
		html = s.page.html("")
	} else if v := s.door.visits.find(r); v != nil {
		html = s.page.html(v.who.User)
	}
	_, _ = io.WriteString(w, html)
}

func pageHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", pagePolicy)
}
