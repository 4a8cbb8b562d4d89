package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
)

// Bounds on how many pages may be logged in at once.
const (
	mostVisits    = 1024
	mostUserVisit = 16 // of one user
	cookiePlain   = "entrepot_visit"
	// cookieSecure has a name that browsers take from an encrypted answer of
	// the very host only.
	cookieSecure = "__Host-entrepot_visit"
)

// visits are the log-ins of web pages. The browser has a secret in a cookie, here
// is its hash. A visit ends by log-out, when it gets too old, when nothing came
// from the page for long and no WebSocket of it is open, or when the broker's
// users are read anew and its own has gone or changed.
type visits struct {
	broker  *core.Broker
	idle    time.Duration
	longest time.Duration
	mu      sync.Mutex
	open    map[visitKey]*visit
}

type visitKey [sha256.Size]byte

// visit is one log-in of a page.
type visit struct {
	who   auth.Principal
	all   *visits
	began time.Time

	// Under all.mu.
	seen  time.Time
	timer *time.Timer
	gone  bool
	held  map[*func()]struct{}
}

func newVisits(b *core.Broker, cfg Config) *visits {
	return &visits{broker: b, idle: cfg.VisitIdle, longest: cfg.VisitLongest, open: map[visitKey]*visit{}}
}

// begin makes a visit and returns the secret for its cookie: 256 bits. Of too
// many, the one that was not seen for longest ends.
func (v *visits) begin(who auth.Principal) (secret string) {
	secret = rand.Text() + rand.Text()
	now := time.Now()
	new := &visit{who: who, all: v, began: now, seen: now, held: map[*func()]struct{}{}}
	key := keyOf(secret)
	v.mu.Lock()
	ends := v.crowd(who.User)
	v.open[key] = new
	new.timer = time.AfterFunc(v.left(new, now), func() { v.look(key) })
	v.mu.Unlock()
	call(ends)
	return secret
}

// crowd makes room for one visit more. The caller holds mu and calls what it
// returns without.
func (v *visits) crowd(user string) (ends []func()) {
	var oldest, own visitKey
	ofUser := 0
	for key, o := range v.open {
		if old := v.open[oldest]; old == nil || o.seen.Before(old.seen) {
			oldest = key
		}
		if o.who.User != user {
			continue
		}
		ofUser++
		if old := v.open[own]; old == nil || o.seen.Before(old.seen) {
			own = key
		}
	}
	switch {
	case ofUser >= mostUserVisit:
		return v.remove(own)
	case len(v.open) >= mostVisits:
		return v.remove(oldest)
	}
	return nil
}

// left is how long a visit has yet.
func (v *visits) left(o *visit, now time.Time) time.Duration {
	left := o.began.Add(v.longest).Sub(now)
	if !o.who.Until.IsZero() {
		left = min(left, o.who.Until.Sub(now))
	}
	if len(o.held) == 0 {
		left = min(left, o.seen.Add(v.idle).Sub(now))
	}
	return left
}

// look ends a visit whose time is over, or waits for the rest of it.
func (v *visits) look(key visitKey) {
	v.mu.Lock()
	var ends []func()
	if o := v.open[key]; o != nil {
		if left := v.left(o, time.Now()); left > 0 {
			o.timer.Reset(left)
		} else {
			ends = v.remove(key)
		}
	}
	v.mu.Unlock()
	call(ends)
}

// remove returns what is to be called without mu, which the caller holds.
func (v *visits) remove(key visitKey) (ends []func()) {
	o := v.open[key]
	if o == nil {
		return nil
	}
	delete(v.open, key)
	o.timer.Stop()
	o.gone = true
	for end := range o.held {
		ends = append(ends, *end)
	}
	o.held = nil
	return ends
}

func call(all []func()) {
	for _, f := range all {
		f()
	}
}

// find returns the visit that a request belongs to, nil if none.
func (v *visits) find(r *http.Request) *visit {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	key, now := keyOf(c.Value), time.Now()
	v.mu.Lock()
	o := v.open[key]
	if o == nil {
		v.mu.Unlock()
		return nil
	}
	var ends []func()
	if v.left(o, now) <= 0 || !v.broker.Stands(o.who) {
		ends = v.remove(key)
		o = nil
	} else {
		o.seen = now
	}
	v.mu.Unlock()
	call(ends)
	return o
}

// end ends the visit that a request belongs to.
func (v *visits) end(r *http.Request) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return
	}
	v.mu.Lock()
	ends := v.remove(keyOf(c.Value))
	v.mu.Unlock()
	call(ends)
}

// hold has end called when the visit ends, on any goroutine: at once if it has.
// Until release is called, the visit does not end for want of requests.
func (o *visit) hold(end func()) (release func()) {
	o.all.mu.Lock()
	gone := o.gone
	if !gone {
		o.held[&end] = struct{}{}
	}
	o.all.mu.Unlock()
	if gone {
		end()
	}
	return func() {
		o.all.mu.Lock()
		defer o.all.mu.Unlock()
		delete(o.held, &end)
		if o.seen = time.Now(); !o.gone {
			o.timer.Reset(o.all.left(o, o.seen))
		}
	}
}

// keyOf is what is kept of a secret.
func keyOf(secret string) visitKey { return sha256.Sum256([]byte(secret)) }

func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return cookieSecure
	}
	return cookiePlain
}

// cookie is a visit's; without a secret it takes the cookie back. It ends with
// the browser, if the visit does not before.
func cookie(r *http.Request, secret string) *http.Cookie {
	c := &http.Cookie{Name: cookieName(r), Value: secret, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}

// certificate is the client's, which was verified; nil when it gave none.
func certificate(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// Visit is who a page's WebSocket belongs to; nil for one of no page of the
// broker's own, or without a log-in.
func (s *Server) Visit(r *http.Request) *adapters.Visit {
	if !adapters.SameOrigin(r) {
		return nil
	}
	o := s.door.visits.find(r)
	if o == nil {
		return nil
	}
	return &adapters.Visit{Principal: o.who, Hold: o.hold}
}
