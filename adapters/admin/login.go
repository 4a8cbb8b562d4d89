package admin

import (
	"encoding/json"
	"errors"
	"net/http"

	"entrepot/adapters"
	"entrepot/core/auth"
)

// Paths of the live page's log-in.
const (
	loginPath  = "/login"
	logoutPath = "/logout"
)

// proof is what somebody types into the log-in form.
type proof struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// String shows no password, whatever prints it.
func (p proof) String() string { return p.User }

// GoString implements fmt.GoStringer.
func (p proof) GoString() string { return p.User }

var errLogin = errors.New("the name or the password is wrong")

// handleLogin lets people log in and out at the live page. Both come from the
// page itself: not from another one, whose visitor would work under a name that
// is not his own, and not from a form, which cannot send JSON.
func (s *Server) handleLogin() {
	s.pageCommand(loginPath, func(w http.ResponseWriter, r *http.Request) {
		var p proof
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			answer(w, Outcome{}, errWish)
			return
		}
		s.door.visits.end(r) // another's, perhaps
		a, err := s.door.logIn(r, asker{protocol: overHTTP, remote: remoteOf(r)}, p.User, p.Password)
		switch {
		case errors.Is(err, errWho):
			// No 401, for which a browser shows a form of its own.
			refuseLogin(w, http.StatusForbidden, errLogin)
		case err != nil:
			refuseLogin(w, refusal(err), err)
		default:
			http.SetCookie(w, cookie(r, s.door.visits.begin(a.who)))
			s.door.audit(a, "login", "", nil)
			answer(w, Outcome{}, nil)
		}
	})
	s.pageCommand(logoutPath, func(w http.ResponseWriter, r *http.Request) {
		if v := s.door.visits.find(r); v != nil {
			s.door.audit(asker{who: v.who, protocol: overHTTP, remote: remoteOf(r), visit: v}, "logout", "", nil)
		}
		s.door.visits.end(r)
		http.SetCookie(w, cookie(r, ""))
		answer(w, Outcome{}, nil)
	})
}

func refuseLogin(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// That the client went away meanwhile is its affair.
	_ = json.NewEncoder(w).Encode(Outcome{Error: err.Error()})
}

// pageCommand has f answer a command that only the broker's own page gives.
func (s *Server) pageCommand(at string, f http.HandlerFunc) {
	s.commands[at] = true
	s.paths.HandleFunc("POST "+at, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !adapters.SameOrigin(r):
			a := asker{protocol: overHTTP, remote: remoteOf(r)}
			s.refuse(w, a, at[1:], auth.Object{}, errPage)
		case !isJSON(r):
			text(w, http.StatusUnsupportedMediaType, "Content-Type: application/json only\n")
		case !s.door.broker.Guarded():
			text(w, http.StatusNotFound, "nobody has to log in here\n")
		default:
			f(w, r)
		}
	})
}
