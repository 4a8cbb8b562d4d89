package admin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
)

// loginTime bounds how long a log-in may wait for its turn.
const loginTime = 10 * time.Second

// door finds out who sends a request, and whether they may.
type door struct {
	broker *core.Broker
	token  string // the operator's, in the data directory; "" if none
	visits *visits
	log    *slog.Logger
}

// asker is who sends a request.
type asker struct {
	who      auth.Principal
	protocol string // http, or token
	remote   netip.Addr
	visit    *visit // nil: no page's
}

// The protocols of an asker. Whoever has the token can read the data beside it,
// and may do everything.
const (
	overHTTP = "http"
	byToken  = "token"
)

var (
	errWho   = errors.New("a log-in is needed: a user's name and password, or a token")
	errToken = errors.New("the token is not the one in the data directory's control file")
	errBusy  = errors.New("too many log-ins: try again later")
	errPage  = errors.New("not from a web page, but for the broker's own after a log-in")
	// errElsewhere is for who asks where nobody has to log in.
	errElsewhere = errors.New("only from this machine, as there are no users")
)

// identify says who sends a request. Errors: errWho, errToken, errBusy, errPage.
func (d *door) identify(r *http.Request) (asker, error) {
	a := asker{protocol: overHTTP, remote: remoteOf(r)}
	scheme, proof, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	bearer := strings.EqualFold(scheme, "Bearer")
	switch {
	case fromPage(r.Header):
		return d.identifyPage(r, a)
	case bearer && d.token != "" && local(r.RemoteAddr) && same(proof, d.token):
		a.protocol = byToken
		return a, nil
	case !d.broker.Guarded():
		return a, nil
	case bearer:
		return d.logIn(r, a, "", proof)
	case strings.EqualFold(scheme, "Basic"):
		user, password, _ := r.BasicAuth()
		return d.logIn(r, a, user, password)
	}
	if a.visit = d.visits.find(r); a.visit != nil {
		a.who = a.visit.who
		return a, nil
	}
	if certificate(r) != nil {
		return d.logIn(r, a, "", "")
	}
	return a, errWho
}

// identifyPage is for what a browser sends for a page: one of the broker's own,
// whose user logged in there.
func (d *door) identifyPage(r *http.Request, a asker) (asker, error) {
	if !d.broker.Guarded() || !adapters.SameOrigin(r) {
		return a, errPage
	}
	if a.visit = d.visits.find(r); a.visit == nil {
		return a, errWho
	}
	a.who = a.visit.who
	return a, nil
}

// logIn proves who an asker is. What is wrong with it is not told.
func (d *door) logIn(r *http.Request, a asker, user, password string) (asker, error) {
	ctx, cancel := context.WithTimeout(r.Context(), loginTime)
	defer cancel()
	who, err := d.broker.Authenticate(ctx, auth.Credentials{Protocol: overHTTP, Listener: listenerOf(r), Remote: a.remote,
		User: user, Password: password, Certificate: certificate(r)})
	switch {
	case err == nil:
		a.who = who
		return a, nil
	case errors.Is(err, core.ErrNotAllowed):
		return a, errWho
	}
	return a, errBusy
}

func same(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// remoteOf is the peer's address; the zero Addr is a unix socket.
func remoteOf(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap()
}

// may asks for the admin right. Errors: core.ErrNotAllowed, errToken for those
// of this machine who lack the token where nobody needs to log in.
func (d *door) may(a asker, o auth.Object) error {
	if a.protocol == byToken {
		return nil
	}
	if err := d.broker.Allowed(a.who, auth.Admin, o); err != nil {
		return err
	}
	if !d.broker.Guarded() && d.token != "" {
		return errToken
	}
	return nil
}

// brokerObject is what stands for the broker as a whole in rules of the admin
// right: the topics $SYS/metrics, $SYS/queues, $SYS/delayed, $SYS/backup and so
// on.
func brokerObject(what string) auth.Object {
	return auth.Object{Kind: auth.Topic, Name: "$SYS/" + what}
}

func queueObject(name string) auth.Object { return auth.Object{Kind: auth.Queue, Name: name} }

// audit writes down what an asker did, or wanted to.
func (d *door) audit(a asker, act, object string, err error) {
	line := auth.Audit{Act: act, Object: object, Outcome: auth.Done, Protocol: a.protocol, User: a.who.User, Remote: a.remote}
	if err != nil {
		line.Outcome, line.Reason = auth.Failed, err.Error()
		if refusal(err) != 0 {
			line.Outcome = auth.Refused
		}
	}
	line.Write(d.log)
}

// refusal is the HTTP status for who may not; 0 for any other error.
func refusal(err error) int {
	switch {
	case errors.Is(err, errWho), errors.Is(err, errToken):
		return http.StatusUnauthorized
	case errors.Is(err, core.ErrNotAllowed), errors.Is(err, errPage), errors.Is(err, errElsewhere):
		return http.StatusForbidden
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable
	}
	return 0
}

// challenge adds to a refusal how to do better.
func challenge(w http.ResponseWriter, status int) {
	switch status {
	case http.StatusUnauthorized:
		w.Header().Add("WWW-Authenticate", `Basic realm="entrepot", charset="UTF-8"`)
		w.Header().Add("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", fmt.Sprint(int(loginTime.Seconds())))
	}
}
