package wamp

import (
	"errors"
	"strconv"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
	"entrepot/routing"
)

// subscribe (WAMP, Subscribing and Unsubscribing).
func (c *conn) subscribe(m *message) error {
	id, options, at, err := c.request(m, 1)
	if err != nil {
		return err
	}
	uri := string(at)
	c.batch.Flush() // what follows may wait
	c.setAttaching(true)
	defer c.setAttaching(false)
	if name, ok := queueURI(uri); ok {
		err = c.take(id, name, uri)
	} else {
		err = c.enlist(id, options, uri)
	}
	if err != nil {
		c.refuse(wamp.SUBSCRIBE, id, err)
	}
	return nil
}

// queueURI is the queue that a URI names.
func queueURI(uri string) (string, bool) {
	a, err := parseAddress(uri)
	if err != nil {
		return "", false
	}
	return a.QueueName()
}

// readable refuses patterns of what is no topic.
func readable(p pattern) error {
	switch p.filter.First() {
	case queueLevel, exchangeLevel, "$share", "$delayed", "$rpc":
		return refuse(errURI, "only $queue.name can be subscribed to beside topics")
	}
	return nil
}

// enlist puts the session into the subscription of a pattern.
func (c *conn) enlist(id uint64, options dict, uri string) error {
	p, err := parsePattern(uri, options.text(wamp.OptMatch))
	if err == nil {
		p.group = options.text("x_group")
		err = readable(p)
	}
	if err != nil {
		return err
	}
	if old := c.member(p); old != nil {
		c.done(wamp.SUBSCRIBED, id, old.sub.id)
		return nil
	}
	if c.subscribed() >= c.cfg.MaxSubscriptions {
		return refuse(errTooMany, "more than %d subscriptions", c.cfg.MaxSubscriptions)
	}
	m := &membership{conn: c}
	s, created := c.realm.hold(p, m)
	if err := c.bind(m, options.flag("get_retained")); err != nil {
		c.part(m)
		c.realm.release(m)
		return err
	}
	c.mu.Lock()
	if c.members == nil {
		c.members = map[uint64]*membership{}
	}
	c.members[s.id] = m
	c.mu.Unlock()
	c.done(wamp.SUBSCRIBED, id, s.id)
	m.stage.Store(opened)
	if m.group != nil {
		m.group.Resume(&c.batch)
	} else if c.events != nil {
		c.events.Resume(&c.batch)
	}
	c.realm.subscribed(c, s, created)
	return nil
}

func (c *conn) member(p pattern) *membership {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.sub.pattern.key() == p.key() {
			return m
		}
	}
	return nil
}

func (c *conn) subscribed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.members) + len(c.takers)
}

// bind lets events in. A pattern of meta events alone is bound too: who may not
// have them is refused, and loses them when rules change.
func (c *conn) bind(m *membership, retained bool) error {
	p := m.sub.pattern
	if p.group != "" {
		return c.joinGroup(m)
	}
	if err := c.openEvents(); err != nil {
		return err
	}
	m.binding = core.BindSpec{Source: core.TopicExchange, Queue: c.eventsKey(), Filter: p.filter, Value: m}
	if p.match != matchExact {
		// Patterns that cut or mean the same are bindings of their own.
		m.binding.Args = routing.Headers{{Name: p.match, Value: p.uri}}
	}
	if retained {
		m.binding.Replay = core.ReplayAlways
	}
	return c.session.Bind(background(), m.binding)
}

func (c *conn) eventsKey() core.QueueKey {
	return core.Key(core.TopicQueue, protocol, strconv.FormatUint(uint64(c.session.ID()), 10))
}

// openEvents makes the session's queue.
func (c *conn) openEvents() error {
	if c.events != nil {
		return nil
	}
	key := c.eventsKey()
	_, err := c.session.DeclareQueue(background(), core.QueueSpec{Key: key, Exclusive: true, Args: core.QueueArgs{
		MaxLength: c.cfg.QueueLength, HasMaxLength: true, MaxBytes: c.cfg.QueueBytes, HasMaxBytes: true}})
	if err != nil {
		return err
	}
	events, err := c.session.Consume(background(), key, core.ConsumeOptions{NoAck: true, Paused: true}, c)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.events = events
	c.mu.Unlock()
	return nil
}

// joinGroup takes part in the queue of a shared subscription, the same as MQTT's
// $share/group/filter.
func (c *conn) joinGroup(m *membership) error {
	p := m.sub.pattern
	if p.match == matchPrefix && p.uri != "" && p.uri[len(p.uri)-1] != '.' {
		return refuse(errNotYet, "a shared subscription's prefix ends with a level")
	}
	key := core.Key(core.GroupQueue, p.group, p.filter.String())
	spec := core.QueueSpec{Key: key, Args: core.QueueArgs{
		MaxLength: c.cfg.QueueLength, HasMaxLength: true, MaxBytes: c.cfg.QueueBytes, HasMaxBytes: true}}
	_, err := c.session.DeclareQueue(background(), spec)
	if errors.Is(err, core.ErrConflict) { // made by another protocol, with its limits
		_, err = c.session.DeclareQueue(background(), core.QueueSpec{Key: key, Passive: true})
	}
	if err != nil {
		return err
	}
	m.binding = core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: p.filter}
	if err := c.session.Bind(background(), m.binding); err != nil {
		return err
	}
	m.group, err = c.session.Consume(background(), key, core.ConsumeOptions{NoAck: true, Paused: true}, (*groupMember)(m))
	return err
}

// groupMember receives for a shared subscription.
type groupMember membership

// Deliver implements core.Receiver. Who publishes is not left out: the message is
// for one of the group.
func (g *groupMember) Deliver(d core.Delivery) core.Verdict {
	if !g.conn.event(g.sub, d) {
		return core.Full
	}
	return core.Settled
}

// unsubscribe (WAMP, Subscribing and Unsubscribing).
func (c *conn) unsubscribe(m *message) error {
	id, err := c.encoding.id(m, 1)
	if err != nil {
		return err
	}
	sub, err := c.encoding.id(m, 2)
	if err != nil {
		return err
	}
	c.batch.Flush()
	c.mu.Lock()
	ms, t := c.members[sub], c.takers[sub]
	delete(c.members, sub)
	delete(c.takers, sub)
	c.mu.Unlock()
	switch {
	case ms != nil:
		c.part(ms)
		c.done(wamp.UNSUBSCRIBED, id)
		c.realm.unsubscribed(c, ms.sub, c.realm.release(ms))
	case t != nil:
		t.consumer.Cancel(core.Requeue)
		c.done(wamp.UNSUBSCRIBED, id)
	default:
		c.refuse(wamp.UNSUBSCRIBE, id, refuse(wamp.ErrNoSuchSubscription, "no subscription %d of this session", sub))
	}
	return nil
}

// part ends what bind began.
func (c *conn) part(m *membership) {
	m.stage.Store(closed)
	switch p := &m.sub.pattern; {
	case p.group != "":
		if m.group != nil {
			m.group.Cancel(core.Requeue)
		}
		// Another member keeps the queue.
		_, _ = c.session.DeleteQueue(background(), core.Key(core.GroupQueue, p.group, p.filter.String()), core.DeleteOptions{})
	case m.binding.Source != "":
		// Gone already is as good.
		_ = c.session.Unbind(background(), m.binding)
	}
	if c.events != nil { // it may have waited for the membership to open
		c.events.Resume(&c.batch)
	}
}

// forgetSubscriptions takes the session out of the realm's directory; the core
// takes care of the rest.
func (c *conn) forgetSubscriptions() {
	c.mu.Lock()
	members := c.members
	c.members = nil
	c.mu.Unlock()
	for _, m := range members {
		m.stage.Store(closed)
		c.realm.unsubscribed(c, m.sub, c.realm.release(m))
	}
}

// taker is a subscription to a queue: each message is an event, and settled by
// that.
type taker struct {
	conn     *conn
	sub      *subscription // of its own
	consumer core.Consumer
}

// take subscribes to a queue.
func (c *conn) take(id uint64, queue, uri string) error {
	if c.subscribed() >= c.cfg.MaxSubscriptions {
		return refuse(errTooMany, "more than %d subscriptions", c.cfg.MaxSubscriptions)
	}
	if err := c.needQueue(queue); err != nil {
		return err
	}
	t := &taker{conn: c, sub: newSubscription(c.realm.nextSub(), pattern{uri: uri, match: matchExact})}
	var err error
	t.consumer, err = c.session.Consume(background(), core.Named(queue), core.ConsumeOptions{NoAck: true, Paused: true}, t)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.takers == nil {
		c.takers = map[uint64]*taker{}
	}
	c.takers[t.sub.id] = t
	c.mu.Unlock()
	c.done(wamp.SUBSCRIBED, id, t.sub.id)
	t.consumer.Resume(&c.batch)
	return nil
}

// needQueue makes sure that a queue is there; one that is otherwise is taken as it is.
func (c *conn) needQueue(name string) error {
	_, err := c.session.DeclareQueue(background(), core.QueueSpec{Key: core.Named(name), Durable: true})
	if errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrNotAllowed) {
		_, err = c.session.DeclareQueue(background(), core.QueueSpec{Key: core.Named(name), Passive: true})
	}
	return err
}

// nextSub is a subscription id of its own.
func (r *realm) nextSub() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastSub++
	return r.lastSub
}

// Deliver implements core.Receiver.
func (t *taker) Deliver(d core.Delivery) core.Verdict {
	if !t.conn.event(t.sub, d) {
		return core.Full
	}
	return core.Settled
}
