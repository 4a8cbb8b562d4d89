package wamp

import (
	"sync/atomic"
	"time"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
	"entrepot/routing"
)

// subscription is what sessions that subscribe to the same pattern share; its id is
// the realm's.
type subscription struct {
	id      uint64
	pattern pattern
	created time.Time
	meta    bool         // sees meta events
	count   atomic.Int32 // of members

	members []*membership // under realm.mu

	// The last event as bytes, for each encoding: many receive the same.
	encoded [encodings]atomic.Pointer[encodedEvent]
}

type encodedEvent struct {
	message  *core.Message
	replayed bool
	frame    []byte
}

// maxEncoded bounds the payloads whose events are kept as bytes.
const maxEncoded = 16 << 10

func newSubscription(id uint64, p pattern) *subscription {
	s := &subscription{id: id, pattern: p, created: time.Now()}
	s.meta = p.seesMeta()
	return s
}

// Stages of a membership.
const (
	opening uint32 = iota // SUBSCRIBED was not sent yet
	opened
	closed
)

// membership is one session's place in a subscription, and the value of its
// binding.
type membership struct {
	sub     *subscription
	conn    *conn
	binding core.BindSpec
	group   core.Consumer // of a shared subscription
	stage   atomic.Uint32

	// Deliver's own: the last topic that a prefix was compared with.
	last   routing.Topic
	lastIs bool
}

// Deliver implements core.Receiver for the session's queue. It runs on the
// publisher's goroutine.
func (c *conn) Deliver(d core.Delivery) core.Verdict {
	for _, v := range d.Matched {
		if v.(*membership).stage.Load() == opening {
			return core.Full // until SUBSCRIBED is on its way
		}
	}
	if !c.wants(d.Message, d.Replayed) {
		return core.Settled
	}
	for i, v := range d.Matched {
		m := v.(*membership)
		if m.stage.Load() != opened || !m.means(d.Topic) {
			continue
		}
		if !c.event(m.sub, d) {
			if i == 0 {
				return core.Full
			}
			// The earlier ones are out already; to send them again is worse.
			return core.Dropped(core.DropOverflow)
		}
	}
	return core.Settled
}

// wants applies publisher exclusion and the publisher's lists. Topics that begin
// with wamp are not seen (names.md, 3).
func (c *conn) wants(m *core.Message, retained bool) bool {
	p := native(m)
	switch {
	case !retained && m.Origin != nil && m.Origin.Session == c.session.ID() && (p == nil || !p.includeMe):
		return false
	case m.Topic.First() == wampLevel:
		return false
	}
	return p == nil || p.only == nil || p.only.takes(c)
}

// means tests what the binding's filter cannot say.
func (m *membership) means(t routing.Topic) bool {
	if m.sub.pattern.match != matchPrefix {
		return true
	}
	if t != m.last {
		m.last, m.lastIs = t, m.sub.pattern.prefix.Match(t)
	}
	return m.lastIs
}

// event writes an EVENT; false: there is no room.
func (c *conn) event(s *subscription, d core.Delivery) bool {
	buf, ok := c.conn.Outbox.BeginDelivery()
	if !ok {
		return false
	}
	if c.ended {
		c.conn.Outbox.Cancel()
		return true
	}
	if s.count.Load() > 1 && len(d.Payload) <= maxEncoded {
		buf = append(buf, s.frame(c, d)...)
	} else {
		buf = c.appendEvent(buf, s, d)
	}
	c.session.Traffic.CountOut(len(d.Payload))
	c.conn.Outbox.End(d.Batch, buf)
	return true
}

// frame is the event as bytes, made by whoever needs it first.
func (s *subscription) frame(c *conn, d core.Delivery) []byte {
	slot := &s.encoded[c.code]
	if e := slot.Load(); e != nil && e.message == d.Message && e.replayed == d.Replayed {
		return e.frame
	}
	e := &encodedEvent{d.Message, d.Replayed, c.appendEvent(make([]byte, 0, 96+2*len(d.Payload)), s, d)}
	slot.Store(e)
	return e.frame
}

// appendEvent appends a frame with an EVENT.
func (c *conn) appendEvent(buf []byte, s *subscription, d core.Delivery) []byte {
	at := len(buf)
	buf = c.open(buf, wamp.EVENT, 4+argumentsCount(d.Message))
	buf = c.uint(buf, s.id)
	p := native(d.Message)
	if p != nil && p.id != 0 {
		buf = c.uint(buf, p.id)
	} else {
		buf = c.uint(buf, randomID())
	}
	buf = c.details(buf, c.eventDetails(s, d, p))
	return c.seal(c.appendArguments(buf, d.Message), at)
}

// eventDetails are the same for all who are in the subscription.
func (c *conn) eventDetails(s *subscription, d core.Delivery, p *publication) (all dict) {
	if s.pattern.match != matchExact || s.pattern.group != "" {
		all = append(all, member{"topic", printAddress(d.Address())})
	}
	if d.Replayed {
		all = append(all, member{"retained", true})
	}
	if p != nil {
		all = append(all, p.details...)
	}
	return c.cfg.appendProperties(all, d.Message)
}
