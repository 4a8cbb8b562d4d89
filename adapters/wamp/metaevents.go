package wamp

import (
	"strings"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// Meta events do not pass through the core: they are the WAMP sessions' own. One
// that finds no room at its receiver is dropped and counted. Who may not subscribe
// to an event's topic does not get it, nor what tells of a subscription or a
// procedure that is none of his.

// seesMeta tells patterns that see meta events: those that say wamp.
func (p *pattern) seesMeta() bool { return p.filter.First() == wampLevel }

// everybody is for an event that tells of no name.
func everybody(*conn) bool { return true }

// knows tells whether rules let the session know of a subscription.
func (c *conn) knows(s *subscription) bool {
	return c.session.Allowed(auth.Subscribe, auth.Object{Kind: auth.Topic, Name: s.pattern.filter.String()}) == nil
}

// knowsProcedure tells whether rules let the session know of a procedure.
func (c *conn) knowsProcedure(p core.Procedure) bool {
	f := p.Filter
	if p.IsPrefix() {
		f = p.Prefix.Filter
	}
	o := auth.Object{Kind: auth.Procedure, Name: f.String()}
	return c.session.Allowed(auth.Call, o) == nil || c.session.Allowed(auth.Register, o) == nil
}

// metaEvent tells all who subscribed, and may.
func (r *realm) metaEvent(uri wamp.URI, may func(*conn) bool, args ...any) {
	if r.metaSubs.Load() == 0 {
		return
	}
	t, err := routing.URI.ParseTopic(string(uri))
	if err != nil {
		return
	}
	publication := randomID()
	event := auth.Object{Kind: auth.Topic, Name: t.String()}
	var b core.Batch
	for _, s := range r.subscriptions(func(s *subscription) bool { return s.meta && s.pattern.matches(t) }) {
		for _, m := range r.membersOf(s) {
			if c := m.conn; m.stage.Load() == opened && c.session.Allowed(auth.Subscribe, event) == nil && may(c) {
				c.metaEvent(&b, s, publication, uri, args)
			}
		}
	}
	b.Flush()
}

func (r *realm) membersOf(s *subscription) []*membership {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return append([]*membership{}, s.members...)
}

func (c *conn) metaEvent(b *core.Batch, s *subscription, publication uint64, uri wamp.URI, args list) {
	buf, ok := c.conn.Outbox.BeginDelivery()
	if !ok {
		c.session.Drops().Add(core.DropOverflow, 1)
		return
	}
	if c.ended {
		c.conn.Outbox.Cancel()
		return
	}
	var d dict
	if s.pattern.match != matchExact {
		d = dict{{"topic", string(uri)}}
	}
	at := len(buf)
	buf = c.uint(c.uint(c.open(buf, wamp.EVENT, 5), s.id), publication)
	buf = c.value(c.details(buf, d), args)
	c.conn.Outbox.End(b, c.seal(buf, at))
}

func (r *realm) joined(c *conn) { r.metaEvent(wamp.MetaEventSessionOnJoin, everybody, c.shown()) }

func (r *realm) left(c *conn) {
	who := c.who.Load()
	r.metaEvent(wamp.MetaEventSessionOnLeave, everybody, int64(c.id), who.authid, who.authrole)
}

// subscribed tells of a session in a subscription; of those to meta events nothing
// is told.
func (r *realm) subscribed(c *conn, s *subscription, created bool) {
	if r.hidden(s) {
		return
	}
	may := func(to *conn) bool { return to.knows(s) }
	if created {
		r.metaEvent(wamp.MetaEventSubOnCreate, may, int64(c.id), s.shown())
	}
	r.metaEvent(wamp.MetaEventSubOnSubscribe, may, int64(c.id), int64(s.id))
}

func (r *realm) unsubscribed(c *conn, s *subscription, deleted bool) {
	if r.hidden(s) {
		return
	}
	may := func(to *conn) bool { return to.knows(s) }
	r.metaEvent(wamp.MetaEventSubOnUnsubscribe, may, int64(c.id), int64(s.id))
	if deleted {
		r.metaEvent(wamp.MetaEventSubOnDelete, may, int64(c.id), int64(s.id))
	}
}

func (r *realm) hidden(s *subscription) bool { return strings.HasPrefix(s.pattern.uri, "wamp.") }

// procedureChanged is told by the core.
func (r *realm) procedureChanged(p core.Procedure, by core.SessionID, added, edge bool) {
	if r.metaSubs.Load() == 0 {
		return
	}
	may := func(to *conn) bool { return to.knowsProcedure(p) }
	session, id := int64(r.sessionID(by)), int64(p.ID)
	switch {
	case added:
		if edge {
			r.metaEvent(wamp.MetaEventRegOnCreate, may, session, shownProcedure(p))
		}
		r.metaEvent(wamp.MetaEventRegOnRegister, may, session, id)
	default:
		r.metaEvent(wamp.MetaEventRegOnUnregister, may, session, id)
		if edge {
			r.metaEvent(wamp.MetaEventRegOnDelete, may, session, id)
		}
	}
}
