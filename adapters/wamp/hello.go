package wamp

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// hello is what a client asked for in HELLO.
type hello struct {
	realm   *realm
	details dict
	authid  string
	method  string
	// challenge is what a client has to sign for WAMP-CRA. It is of this
	// connection, which takes one AUTHENTICATE only.
	challenge string
}

// roleOfUsers is the authrole of those who proved a name and have no group.
const roleOfUsers = "user"

// identity is what others may know of a session. It does not change; modify_details
// puts another in its place.
type identity struct {
	authid, authrole, method, provider string
	others                             dict // what else the client said of itself
}

// attribute is a detail's text, for black- and whitelists.
func (i *identity) attribute(name string) string {
	switch name {
	case "authid":
		return i.authid
	case "authrole":
		return i.authrole
	}
	return i.others.text(name)
}

// features are those of the client's that the broker regards.
type features struct {
	canceling bool // as a callee
	progress  bool
	timeout   bool
	caller    bool // wants to know the caller, if that may be told

	subRevocation, regRevocation bool
}

// maxOwnDetails bounds what a session keeps of a client's own details, in entries.
const maxOwnDetails = 32

// enter opens the session: HELLO, and AUTHENTICATE after a CHALLENGE.
func (c *conn) enter(m *message) error {
	switch {
	case c.state == fresh && m.kind == wamp.HELLO:
		return c.hello(m)
	case c.state == challenged && m.kind == wamp.AUTHENTICATE:
		signature, err := c.uri(m, 1, nil)
		if err != nil {
			return err
		}
		return c.logIn(c.pending, string(signature))
	case m.kind == wamp.ABORT || m.kind == wamp.GOODBYE:
		return errGone
	}
	return violated("message type %d before the session is open", m.kind)
}

// errGone ends a connection without a word.
var errGone = errors.New("the client gave up")

func (c *conn) hello(m *message) error {
	name, err := c.uri(m, 1, nil)
	if err != nil {
		return err
	}
	details, err := c.dict(m, 2)
	if err != nil {
		return err
	}
	if _, err := routing.URI.ParseTopic(string(name)); err != nil {
		return c.turnAway(wamp.ErrInvalidURI, "realm: "+err.Error())
	}
	h := &hello{realm: c.server.realm(string(name)), details: details, authid: details.text("authid")}
	if h.realm == nil {
		return c.turnAway(wamp.ErrNoSuchRealm, "there is no realm of that name")
	}
	roles, _ := details.get("roles").(dict)
	if len(roles) == 0 {
		return violated("HELLO without roles")
	}
	c.features = featuresOf(roles)
	methods, _ := details.get("authmethods").(list)
	for _, o := range methods {
		if method, _ := o.(string); c.offers(method, h) {
			return c.begin(method, h)
		}
	}
	if c.offers(methodCertificate, h) && len(methods) == 0 {
		return c.begin(methodCertificate, h)
	}
	return c.begin(methodAnonymous, h)
}

func featuresOf(roles dict) features {
	role, _ := roles.get("callee").(dict)
	f, _ := role.get("features").(dict)
	role, _ = roles.get("subscriber").(dict)
	sub, _ := role.get("features").(dict)
	return features{
		canceling: f.flag(wamp.FeatureCallCanceling),
		progress:  f.flag(wamp.FeatureProgCallResults),
		timeout:   f.flag(wamp.FeatureCallTimeout),
		caller:    f.flag(wamp.FeatureCallerIdent),

		subRevocation: sub.flag(featureSubRevocation),
		regRevocation: f.flag(featureRegRevocation),
	}
}

// turnAway ends a connection whose client may not come in.
func (c *conn) turnAway(reason wamp.URI, text string) error {
	c.abort(reason, text)
	return refuse(reason, "%s", text)
}

// joinVisit opens the session of a page whose user logged in there.
func (c *conn) joinVisit(h *hello) error {
	h.method = "cookie"
	c.leaveVisit = c.visit.Hold(func() { c.conn.Kick(refuse(errAuth, "the log-in has ended")) })
	return c.join(h, c.visit.Principal)
}

// logIn proves who the client is and opens the session.
func (c *conn) logIn(h *hello, signature string) error {
	c.batch.Flush() // it may take its time
	ctx, cancel := context.WithTimeout(background(), c.cfg.Limits.LoginTimeout)
	defer cancel()
	who, err := h.realm.broker.Authenticate(ctx, c.proof(h, signature))
	switch {
	case errors.Is(err, core.ErrNotAllowed) && h.method == "anonymous":
		return c.turnAway(errNoMethod, "authentication by ticket is needed")
	case errors.Is(err, core.ErrNotAllowed):
		return c.turnAway(errAuth, "authid or "+h.method+" is wrong")
	case err != nil:
		return c.turnAway(errorURI(err), "log-in failed")
	}
	return c.join(h, who)
}

// join opens the session of a client that may come in.
func (c *conn) join(h *hello, who auth.Principal) error {
	session, _, err := h.realm.broker.Connect(background(), core.Hello{
		Protocol: protocol, Principal: who, ClientID: who.ClientID, Remote: c.conn.RemoteAddr(), Kick: c.kicked, Withdrawn: c.withdrawn})
	switch {
	case errors.Is(err, core.ErrClosed):
		return c.turnAway(wamp.CloseSystemShutdown, "the broker stops")
	case err != nil:
		return c.turnAway(errorURI(err), err.Error())
	}
	c.session, c.realm, c.pending = session, h.realm, nil
	c.lane = core.NewLane(&c.batch)
	i := &identity{authid: who.User, authrole: roleOfUsers, method: h.method, provider: "static"}
	if who.User == "" {
		i.authid, i.authrole = "anonymous-"+strconv.FormatUint(uint64(session.ID()), 36)+strconv.FormatUint(randomID(), 36), "anonymous"
	}
	if len(who.Groups) > 0 {
		i.authrole = who.Groups[0]
	}
	i.others = ownDetails(h.details)
	c.who.Store(i)
	c.unacked = adapters.NewUnacked(c.cfg.UnackedBytes, func() { session.Reached(core.LimitUnackedBytes) })
	c.conn.OnRoom(c.resume)
	c.in.most = c.cfg.MaxMessage
	c.conn.LoggedIn(c.cfg.MaxMessage+16, c.quiet())
	c.conn.Pace(func() (time.Duration, bool) { return c.session.Pace(nil) })
	c.realm.join(c)
	c.state = open
	c.welcome(i)
	c.realm.joined(c)
	if every := c.server.carrier.Ping; every > 0 {
		c.conn.Wheel().Set(&c.pinger, every, c.ping)
	}
	return nil
}

// quiet is how long nothing may be heard of the client.
func (c *conn) quiet() (d time.Duration) {
	if c.server.carrier.Ping > 0 {
		d = c.server.carrier.PongTimeout
	}
	return d
}

// ownDetails are what a client says of itself beside what the broker knows.
func ownDetails(d dict) (own dict) {
	for _, m := range d {
		switch m.key {
		case "roles", "authid", "authrole", "authmethods", "authmethod", "authprovider", "authextra", "session", "transport":
			continue
		}
		if text, ok := m.value.(string); ok && len(own) < maxOwnDetails && len(m.key)+len(text) <= 512 {
			own = append(own, m)
		}
	}
	return own
}

// kicked is called by the core, from another goroutine, when the session was
// ended by the broker: the client is told by a GOODBYE (WAMP, Session Closing).
func (c *conn) kicked(why core.EndReason) {
	var b core.Batch
	c.goodbye(&b, wamp.ErrCloseRealm, why.String())
	b.Flush()
	c.conn.Kick(refuse(wamp.ErrCloseRealm, "%s", why.String()))
}

func (c *conn) welcome(i *identity) {
	c.send(&c.batch, wamp.WELCOME, 3, func(buf []byte) []byte {
		c.welcomed = true
		return c.value(c.uint(buf, c.id), dict{
			{"authid", i.authid}, {"authrole", i.authrole}, {"authmethod", i.method}, {"authprovider", i.provider},
			{"x_agent", "Entrepot"},
			{"roles", dict{
				{"broker", dict{{"features", allTrue(brokerFeatures())}}},
				{"dealer", dict{{"features", allTrue(dealerFeatures())}}},
			}},
		})
	})
}

func allTrue(names []string) (d dict) {
	for _, n := range names {
		d = append(d, member{n, true})
	}
	return d
}

func brokerFeatures() []string {
	return []string{
		wamp.FeaturePatternSub, wamp.FeaturePubExclusion, wamp.FeaturePubIdent, wamp.FeatureSubBlackWhiteListing,
		wamp.FeatureSubMetaAPI, wamp.FeatureSessionMetaAPI, "event_retention", wamp.FeaturePayloadPassthruMode,
		featureSubRevocation,
	}
}

func dealerFeatures() []string {
	return []string{
		wamp.FeatureProgCallResults, wamp.FeatureCallCanceling, wamp.FeatureCallTimeout, wamp.FeatureCallerIdent,
		wamp.FeaturePatternBasedReg, wamp.FeatureSharedReg, wamp.FeatureRegMetaAPI, wamp.FeatureSessionMetaAPI,
		wamp.FeatureTestamentMetaAPI, wamp.FeaturePayloadPassthruMode, featureRegRevocation,
	}
}
