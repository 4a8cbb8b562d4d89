package wamp

import (
	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
)

// Features of clients that nexus does not name: they are told when what they had
// has ended (WAMP, Subscription Revocation and Registration Revocation).
const (
	featureSubRevocation = "subscription_revocation"
	featureRegRevocation = "registration_revocation"
)

// withdrawn is called by the core, from another goroutine, when rules that
// changed have ended something of the session.
func (c *conn) withdrawn(w core.Withdrawal) {
	switch {
	case w.Registration != nil:
		c.revokeRegistration(w.Registration)
	case w.Consumer != nil:
		c.revokeConsumer(w.Consumer)
	case w.Binding != nil:
		c.revokeMemberships(w.Binding)
	}
}

// revoked tells the client. One that does not know revocation may not be told by
// these messages, so its session ends.
func (c *conn) revoked(t wamp.MessageType, what string, id uint64) {
	knows := c.features.subRevocation
	if t == wamp.UNREGISTERED {
		knows = c.features.regRevocation
	}
	if !knows {
		c.unaware()
		return
	}
	c.later(t, 3, func(buf []byte) []byte {
		return c.details(c.uint(buf, 0), dict{{what, int64(id)}, {"reason", string(wamp.ErrNotAuthorized)}})
	})
}

// unaware ends the session of a client that cannot be told otherwise.
func (c *conn) unaware() { c.kill(wamp.ErrNotAuthorized, core.EndRefused.String()) }

func (c *conn) revokeRegistration(over *core.Registration) {
	c.mu.Lock()
	r := c.regs[over.ID()]
	if r != nil && r.reg == over {
		delete(c.regs, over.ID())
	}
	early := r == nil && c.attaching
	c.mu.Unlock()
	switch {
	case early:
		c.unaware()
	case r != nil:
		c.revoked(wamp.UNREGISTERED, "registration", over.ID())
	}
}

// revokeConsumer ends a subscription to a queue, or the work on one.
func (c *conn) revokeConsumer(over core.Consumer) {
	var sub, reg uint64
	var ended *worker
	c.mu.Lock()
	for id, t := range c.takers {
		if t.consumer == over {
			sub = id
			delete(c.takers, id)
		}
	}
	for id, w := range c.workers {
		if w.consumer == over {
			reg, ended = id, w
			delete(c.workers, id)
		}
	}
	early := sub == 0 && reg == 0 && c.attaching
	c.mu.Unlock()
	switch {
	case early:
		c.unaware()
	case sub != 0:
		c.revoked(wamp.UNSUBSCRIBED, "subscription", sub)
	case reg != 0:
		if c.forget(ended) {
			var b core.Batch
			c.resume(&b)
			b.Flush()
		}
		c.revoked(wamp.UNREGISTERED, "registration", reg)
	}
}

// revokeMemberships takes the session out of the subscriptions that were unbound.
func (c *conn) revokeMemberships(b *core.BindSpec) {
	var over []*membership
	early := false
	c.mu.Lock()
	for id, m := range c.members {
		if b.Value == m || b.Queue.Kind == core.GroupQueue && m.binding.Queue == b.Queue {
			over = append(over, m)
			early = early || m.stage.Load() == opening
			delete(c.members, id)
		}
	}
	early = early || over == nil && c.attaching
	events := c.events
	c.mu.Unlock()
	if early {
		c.unaware()
	}
	for _, m := range over {
		m.stage.Store(closed)
		deleted := c.realm.release(m)
		c.revoked(wamp.UNSUBSCRIBED, "subscription", m.sub.id)
		c.realm.unsubscribed(c, m.sub, deleted)
	}
	if events != nil && over != nil { // it may have waited for one of them to open
		var batch core.Batch
		events.Resume(&batch)
		batch.Flush()
	}
}

// setAttaching: something of the session is in no map yet.
func (c *conn) setAttaching(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attaching = is
}
