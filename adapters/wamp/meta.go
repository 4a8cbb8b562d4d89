package wamp

import (
	"strings"
	"time"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// metaCall is a call of one of the router's own procedures.
type metaCall struct {
	*conn
	args   list
	kwargs dict
}

// metaFunc answers it; the error is a refusal.
type metaFunc func(*metaCall) (list, error)

// metaProcedure finds the router's own procedure of a name; nil for other names. A
// name that begins with wamp and is none of them is one that does not exist.
func metaProcedure(uri string) metaFunc {
	if !strings.HasPrefix(uri, "wamp.") {
		return nil
	}
	switch wamp.URI(uri) {
	case wamp.MetaProcSessionCount:
		return sessionCount
	case wamp.MetaProcSessionList:
		return sessionList
	case wamp.MetaProcSessionGet:
		return sessionGet
	case wamp.MetaProcSessionKill, wamp.MetaProcSessionKillByAuthid, wamp.MetaProcSessionKillByAuthrole, wamp.MetaProcSessionKillAll:
		return killer(wamp.URI(uri))
	case wamp.MetaProcSessionModifyDetails:
		return modifyDetails
	case wamp.MetaProcSessionAddTestament:
		return addTestament
	case wamp.MetaProcSessionFlushTestaments:
		return flushTestaments
	}
	if f := subscriptionProcedure(wamp.URI(uri)); f != nil {
		return f
	}
	if f := registrationProcedure(wamp.URI(uri)); f != nil {
		return f
	}
	return func(*metaCall) (list, error) { return nil, refuse(wamp.ErrNoSuchProcedure, "no procedure %.100s", uri) }
}

// callMeta answers a call of the router's own.
func (c *conn) callMeta(id uint64, uri string, f metaFunc, options dict, a arguments) {
	m := &metaCall{conn: c}
	if a.args != nil {
		m.args, _ = c.decode(a.args).(list)
	}
	if a.kwargs != nil {
		m.kwargs, _ = c.decode(a.kwargs).(dict)
	}
	result, err := list(nil), c.mayCall(uri)
	if err == nil {
		result, err = f(m)
	}
	if err != nil {
		c.refuse(wamp.CALL, id, err)
		return
	}
	c.send(&c.batch, wamp.RESULT, 4, func(buf []byte) []byte {
		if result == nil {
			result = list{}
		}
		return c.value(c.details(c.uint(buf, id), nil), result)
	})
}

// mayCall asks for the right to call one of the router's own.
func (c *conn) mayCall(uri string) error {
	t, err := routing.URI.ParseTopic(uri)
	if err != nil {
		return refuse(errURI, "%v", err)
	}
	return c.session.Allowed(auth.Call, auth.Object{Kind: auth.Procedure, Name: t.String()})
}

// id reads an argument that is an id.
func (m *metaCall) id(at int) (uint64, bool) {
	if at >= len(m.args) {
		return 0, false
	}
	return whole(m.args[at])
}

func (m *metaCall) text(at int) (string, bool) {
	if at >= len(m.args) {
		return "", false
	}
	s, ok := m.args[at].(string)
	return s, ok
}

// chosen are the sessions whose authrole is in the list that a call may begin with.
func (m *metaCall) chosen() ([]*conn, error) {
	all := m.realm.all()
	if len(m.args) == 0 || m.args[0] == nil {
		return all, nil
	}
	roles, ok := m.args[0].(list)
	if !ok {
		return nil, refuse(errArgument, "the first argument is a list of authroles")
	}
	if len(roles) == 0 {
		return all, nil
	}
	var some []*conn
	for _, c := range all {
		role := c.who.Load().authrole
		for _, r := range roles {
			if r == role {
				some = append(some, c)
				break
			}
		}
	}
	return some, nil
}

func sessionCount(m *metaCall) (list, error) {
	all, err := m.chosen()
	return list{int64(len(all))}, err
}

func sessionList(m *metaCall) (list, error) {
	all, err := m.chosen()
	ids := list{}
	for _, c := range all {
		ids = append(ids, int64(c.id))
	}
	return list{ids}, err
}

func noSession() error { return refuse(wamp.ErrNoSuchSession, "there is no such session") }

func sessionGet(m *metaCall) (list, error) {
	id, _ := m.id(0)
	c := m.realm.find(id)
	if c == nil {
		return nil, noSession()
	}
	return list{c.shown()}, nil
}

// shown are the details of a session for others.
func (c *conn) shown() dict {
	who := c.who.Load()
	d := dict{{"session", int64(c.id)}, {"authid", who.authid}, {"authrole", who.authrole},
		{"authmethod", who.method}, {"authprovider", who.provider},
		{"transport", dict{{"type", "websocket"}, {"protocol", c.name}, {"peer", c.conn.RemoteAddr()}}}}
	return append(d, who.others...)
}

// killer is one of the procedures that end sessions, never the caller's own.
func killer(uri wamp.URI) metaFunc {
	return func(m *metaCall) (list, error) {
		if !m.cfg.MetaKill {
			return nil, refuse(wamp.ErrNotAuthorized, "setting wamp.meta_kill is off")
		}
		reason := wamp.CloseNormal
		if text := m.kwargs.text("reason"); text != "" {
			if _, err := routing.URI.ParseTopic(text); err != nil {
				return nil, refuse(errURI, "reason: %v", err)
			}
			reason = wamp.URI(text)
		}
		text := m.kwargs.text("message")
		if uri == wamp.MetaProcSessionKill {
			id, _ := m.id(0)
			c := m.realm.find(id)
			if c == nil || c == m.conn {
				return nil, noSession()
			}
			c.kill(reason, text)
			return list{}, nil
		}
		which, ok := m.text(0)
		if !ok && uri != wamp.MetaProcSessionKillAll {
			return nil, refuse(errArgument, "the first argument is a text")
		}
		return m.killAll(reason, text, func(who *identity) bool {
			return uri == wamp.MetaProcSessionKillAll || uri == wamp.MetaProcSessionKillByAuthid && who.authid == which ||
				uri == wamp.MetaProcSessionKillByAuthrole && who.authrole == which
		})
	}
}

func (m *metaCall) killAll(reason wamp.URI, text string, which func(*identity) bool) (list, error) {
	n := int64(0)
	for _, c := range m.realm.all() {
		if c != m.conn && which(c.who.Load()) {
			c.kill(reason, text)
			n++
		}
	}
	return list{n}, nil
}

// modifyDetails changes details of a session; null takes one away.
func modifyDetails(m *metaCall) (list, error) {
	if !m.cfg.MetaModify {
		return nil, refuse(wamp.ErrNotAuthorized, "setting wamp.meta_modify is off")
	}
	id, ok := m.id(0)
	if !ok || len(m.args) < 2 {
		return nil, refuse(errArgument, "arguments are a session and its details")
	}
	delta, ok := m.args[1].(dict)
	c := m.realm.find(id)
	switch {
	case !ok || delta.get("session") != nil:
		return nil, refuse(errArgument, "the second argument is a dict, without the session")
	case c == nil:
		return nil, noSession()
	}
	c.modify(delta)
	return list{}, nil
}

func (c *conn) modify(delta dict) {
	who := *c.who.Load()
	who.others = append(dict{}, who.others...)
	for _, d := range delta {
		text, _ := d.value.(string)
		switch d.key {
		case "authid":
			who.authid = text
		case "authrole":
			who.authrole = text
		case "authmethod", "authprovider", "transport":
		default:
			who.others = who.others.with(d)
		}
	}
	c.who.Store(&who)
}

// with is d with one entry set, or without it when the value is nil.
func (d dict) with(m member) dict {
	for i := range d {
		if d[i].key != m.key {
			continue
		}
		if m.value == nil {
			return append(d[:i], d[i+1:]...)
		}
		d[i].value = m.value
		return d
	}
	if m.value == nil || len(d) >= maxOwnDetails {
		return d
	}
	return append(d, m)
}

// instant is a time as WAMP writes it.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// testament is what is published when the session ends (WAMP, Testament Meta API).
type testament struct {
	message *core.Message
	scope   string
}

// scopeOf reads the scope of a testament. Sessions are not resumed, so that
// detached and destroyed are the same moment.
func scopeOf(kwargs dict) (string, error) {
	switch scope := kwargs.text("scope"); scope {
	case "", "destroyed":
		return "destroyed", nil
	case "detached":
		return scope, nil
	}
	return "", refuse(errArgument, "scope is destroyed or detached")
}

func addTestament(m *metaCall) (list, error) {
	uri, ok := m.text(0)
	if !ok || len(m.args) < 3 {
		return nil, refuse(errArgument, "arguments are a topic, a list and a dict")
	}
	args, okArgs := m.args[1].(list)
	kwargs, okKw := m.args[2].(dict)
	scope, err := scopeOf(m.kwargs)
	switch {
	case !okArgs || !okKw:
		return nil, refuse(errArgument, "arguments are a topic, a list and a dict")
	case err != nil:
		return nil, err
	}
	to, err := parseAddress(uri)
	if err != nil {
		return nil, err
	}
	a := arguments{code: m.code, args: m.encode(nil, args)}
	if len(kwargs) > 0 {
		a.kwargs = m.encode(nil, kwargs)
	}
	p := carry(a, nil)
	p.Message.Exchange, p.Message.Topic = to.Exchange, to.Topic
	p.Guarantee, p.id = core.AtLeastOnce, randomID()
	options, _ := m.kwargs.get("publish_options").(dict)
	if err := m.describe(p, a, options); err != nil {
		return nil, err
	}
	if err := m.session.MayPublish(&p.Message); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.testaments) >= m.cfg.MaxTestaments {
		return nil, refuse(errTooMany, "more than %d testaments", m.cfg.MaxTestaments)
	}
	m.testaments = append(m.testaments, testament{&p.Message, scope})
	return list{}, nil
}

func flushTestaments(m *metaCall) (list, error) {
	scope, err := scopeOf(m.kwargs)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var kept []testament
	for _, t := range m.testaments {
		if t.scope != scope {
			kept = append(kept, t)
		}
	}
	m.testaments = kept
	return list{}, nil
}

// leaveTestaments publishes what the session left.
func (c *conn) leaveTestaments() {
	c.mu.Lock()
	all := c.testaments
	c.testaments = nil
	c.mu.Unlock()
	for _, t := range all {
		c.session.Publish(c.lane, t.message, nil)
	}
}
