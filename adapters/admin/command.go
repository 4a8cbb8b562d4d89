package admin

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"path"

	"entrepot/adapters"
	"entrepot/core/auth"
)

// HandleCommand lets h answer POST requests for path, whose body is JSON, at
// most 4 KiB of it. They pass the same guard as all, and come from who has the
// control token, or the admin right on $SYS/ and the last part of path, or, when
// nobody has to log in, from this machine and no web page: one that a browser
// shows may send requests here, but cannot hide where it comes from, nor send
// JSON without asking first. What is asked, done or refused is written down by
// that name. Called before Serve.
func (s *Server) HandleCommand(at string, h http.Handler) {
	act := path.Base(at)
	o := brokerObject(act)
	s.handleCommand(at, act, func(w http.ResponseWriter, r *http.Request, a asker) {
		if err := s.door.may(a, o); err != nil {
			s.refuse(w, a, act, o, err)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(seen, r)
		s.door.audit(a, act, o.Name, seen.err())
	})
}

// handleCommand has f answer a command of somebody who was identified.
func (s *Server) handleCommand(at, act string, f func(http.ResponseWriter, *http.Request, asker)) {
	s.commands[at] = true
	s.paths.HandleFunc("POST "+at, func(w http.ResponseWriter, r *http.Request) {
		if !isJSON(r) {
			text(w, http.StatusUnsupportedMediaType, "Content-Type: application/json only\n")
			return
		}
		s.asked(w, r, act, f)
	})
}

// isJSON tells what a page of another origin cannot send without asking first.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// asked identifies who sends a request to the API.
func (s *Server) asked(w http.ResponseWriter, r *http.Request, act string, f func(http.ResponseWriter, *http.Request, asker)) {
	a, err := s.door.identify(r)
	switch {
	case err != nil:
	case !s.door.broker.Guarded() && !local(r.RemoteAddr):
		err = errElsewhere
	case a.visit != nil && r.Method == http.MethodPost && !adapters.SameOrigin(r):
		err = errPage // a browser says so, and nobody else has the cookie
	}
	if err != nil {
		s.refuse(w, a, act, auth.Object{}, err)
		return
	}
	f(w, r, a)
}

// refuse answers who may not, and writes that down. Who brought no proof of
// anything is asked for it, and no more.
func (s *Server) refuse(w http.ResponseWriter, a asker, act string, o auth.Object, err error) {
	if !errors.Is(err, errWho) {
		s.door.audit(a, act, o.Name, err)
	}
	answer(w, Outcome{}, err)
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// err is what an answer says of the act.
func (w *statusWriter) err() error {
	if w.status < http.StatusBadRequest {
		return nil
	}
	return fmt.Errorf("status %d", w.status)
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
