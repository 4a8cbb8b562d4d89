package mqtt

import (
	"sync/atomic"

	"entrepot/core"

	"github.com/mochi-mqtt/server/v2/packets"
)

// source is a connection's receiver on one queue.
type source struct {
	conn     *conn
	consumer core.Consumer
	kind     kind
	sub      atomic.Pointer[subscription] // of shared and work; their queue has just one
	refused  atomic.Bool                  // the outbox had no room
	recall   atomic.Bool                  // session.returning holds something

	// Under session.mu.
	starved bool        // in session.starved
	leaving atomic.Bool // unsubscribed; ends when nothing is out
	out     int         // deliveries that are held
}

// offer is a delivery as this client gets it.
type offer struct {
	topic  string
	qos    byte
	retain bool
	id     uint32   // a Subscription Identifier, 0 for none
	more   []uint32 // further ones
	moved  bool     // the topic is a queue's, and the message came by another address
}

// Deliver implements core.Receiver.
func (s *source) Deliver(d core.Delivery) core.Verdict {
	if s.waits() {
		return core.Full
	}
	var o offer
	wanted := s.meet(&d, &o)
	if s.recall.Load() {
		s.skipLost(&d)
		if v, known := s.deliverAgain(&d, &o); known {
			return v
		}
	}
	if !wanted {
		return core.Settled
	}
	if g := s.conn.gate; g != nil && (o.qos == 2 || g.busy()) {
		return s.deliverGated(&d, &o)
	}
	if o.qos > 0 {
		return s.deliverHeld(&d, &o)
	}
	buf, ok := s.begin()
	if !ok {
		return core.Full
	}
	if !s.conn.write(buf, &d, &o, 0, false) {
		return core.Dropped(core.DropTooLarge)
	}
	return core.Settled
}

// waits tells that deliveries have to wait. The second look comes after the
// mark, so that an end of the wait which came meanwhile is not missed.
func (s *source) waits() bool {
	if s.leaving.Load() || s.conn.gate != nil && s.conn.gate.broken.Load() {
		return true
	}
	if !s.conn.paused.Load() {
		return false
	}
	s.refused.Store(true)
	return s.conn.paused.Load()
}

// meet works out what the subscriptions that matched make of the delivery;
// false when none of them wants it.
func (s *source) meet(d *core.Delivery, o *offer) bool {
	qos := qosOf(d.Guarantee)
	if s.kind != topics {
		sub := s.sub.Load()
		switch s.kind {
		case work:
			o.topic, o.moved = sub.text, d.Exchange != core.DefaultExchange
		case serve:
			o.topic = printAddress(d.Address())
		default:
			o.topic = d.Topic.String()
		}
		o.add(sub, d, qos)
		return true
	}
	o.topic = d.Topic.String()
	if len(d.Matched) == 0 {
		return s.meetOwn(d, o, qos)
	}
	wanted := false
	for _, v := range d.Matched {
		sub := v.(*subscription)
		if sub.noLocal && d.Origin != nil && d.Origin.Session == s.conn.id { // [MQTT-3.8.3-3]
			continue
		}
		o.add(sub, d, qos)
		wanted = true
	}
	return wanted
}

// meetOwn is meet where the engine does not say which bindings matched.
func (s *source) meetOwn(d *core.Delivery, o *offer, qos byte) bool {
	st := s.conn.state
	st.mu.Lock()
	defer st.mu.Unlock()
	wanted := false
	st.subs.each(func(sub *subscription) {
		if sub.kind != topics || !sub.filter.Match(d.Topic) ||
			sub.noLocal && d.Origin != nil && d.Origin.Session == s.conn.id {
			return
		}
		o.add(sub, d, qos)
		wanted = true
	})
	return wanted
}

// add joins a subscription's part: the highest QoS of all ([MQTT-3.3.4-2]),
// every identifier ([MQTT-3.3.4-3]).
func (o *offer) add(sub *subscription, d *core.Delivery, qos byte) {
	o.qos = max(o.qos, min(qos, sub.qos))
	o.retain = o.retain || d.Replayed || sub.asPublished && d.Retain
	switch {
	case sub.id == 0:
	case o.id == 0:
		o.id = sub.id
	default:
		o.more = append(o.more, sub.id)
	}
}

// qosOf is the QoS that a message was published with.
func qosOf(g core.Guarantee) byte {
	switch g {
	case core.AtMostOnce:
		return 0
	case core.Once:
		return 2
	}
	return 1
}

// begin asks the outbox for room. The second try comes after the mark, so that
// room which came meanwhile is not missed.
func (s *source) begin() ([]byte, bool) {
	buf, ok := s.conn.out.BeginDelivery()
	if !ok {
		s.refused.Store(true)
		buf, ok = s.conn.out.BeginDelivery()
	}
	return buf, ok
}

// deliverHeld sends at QoS 1 or 2.
func (s *source) deliverHeld(d *core.Delivery, o *offer) core.Verdict {
	c := s.conn
	buf, ok := s.begin()
	if !ok {
		return core.Full
	}
	id, ok := c.state.send(s, d, o.qos, false)
	if !ok {
		c.out.Cancel()
		return core.Full
	}
	if !c.write(buf, d, o, id, false) {
		c.state.unsend(id)
		return core.Dropped(core.DropTooLarge)
	}
	if s.kind == shared && o.qos == 2 {
		return core.Settled // the session has it now
	}
	return core.Held
}

// deliverAgain sends what an earlier connection sent already, with its packet
// identifier and DUP ([MQTT-4.4.0-1], [MQTT-3.3.1-1]), whatever became of the
// subscription; known is false when none did.
func (s *source) deliverAgain(d *core.Delivery, o *offer) (v core.Verdict, known bool) {
	c := s.conn
	if c.gate != nil && !c.gate.room(s) {
		return core.Full, true
	}
	queues := c.gate.busy()
	buf, ok := s.begin()
	if !ok {
		return core.Full, true
	}
	p, known, ok := c.state.sendAgain(s, d)
	if !ok {
		c.out.Cancel()
		return core.Full, known
	}
	o.qos = byte(p.stage)
	switch {
	case (p.waits || queues) && c.fits(d, o):
		c.out.Cancel()
		c.gate.add(&gated{d: *d, o: *o, from: s, id: p.id, dup: !p.fresh}, d.Batch, p.waits)
		return core.Held, true
	case p.waits || queues:
		c.out.Cancel()
	default:
		if p.fresh {
			c.state.sent(c, p.id)
		}
		if c.write(buf, d, o, p.id, !p.fresh) {
			return core.Held, true
		}
	}
	c.state.unsend(p.id)
	return core.Dropped(core.DropTooLarge), true
}

// deliverGated lets a delivery wait at the gate.
func (s *source) deliverGated(d *core.Delivery, o *offer) core.Verdict {
	c := s.conn
	if !c.gate.room(s) {
		return core.Full
	}
	if _, ok := s.begin(); !ok {
		return core.Full
	}
	fits := c.fits(d, o)
	c.out.Cancel()
	if !fits {
		return core.Dropped(core.DropTooLarge)
	}
	e := &gated{d: *d, o: *o, from: s}
	if o.qos == 0 {
		c.gate.add(e, d.Batch, false)
		return core.Settled
	}
	var ok bool
	if e.id, ok = c.state.send(s, d, o.qos, true); !ok {
		return core.Full
	}
	c.gate.add(e, d.Batch, o.qos == 2)
	return core.Held
}

// skipLost has the client release what was in flight before a restart and does
// not come again: the queue has come to a later place.
func (s *source) skipLost(d *core.Delivery) {
	if s.kind != topics || !s.conn.state.rebuilt || s.conn.state.whole.Load() {
		return
	}
	for _, id := range s.conn.state.lost(s.conn, d.Seq) {
		buf := s.conn.out.BeginAnswer()
		s.conn.out.End(d.Batch, appendAck(buf, packets.Pubrel<<4|2, s.conn.version, id, success, ""))
	}
}

// sendKept sends the messages again that a group gave up to this session.
func (c *conn) sendKept(b *core.Batch) {
	for {
		p, ok := c.state.nextAgain(c)
		if !ok {
			return
		}
		d := core.Delivery{Message: p.msg, Batch: b}
		o := offer{topic: p.msg.Topic.String()}
		o.add(p.sub, &d, qosOf(p.msg.Guarantee))
		o.qos = 2
		buf, ok := c.out.BeginDelivery()
		if !ok {
			c.state.notAgain(&p)
			return
		}
		if !c.write(buf, &d, &o, p.id, !p.fresh) {
			c.state.unsend(p.id)
			c.session.Drops().Add(core.DropTooLarge, 1)
		}
	}
}

// write appends the PUBLISH and unlocks the outbox. It is false when the packet
// is larger than the client takes ([MQTT-3.1.2-24]).
func (c *conn) write(buf []byte, d *core.Delivery, o *offer, id uint16, dup bool) bool {
	var space [128]byte
	topic, props, size := c.measure(space[:0], d, o)
	if uint64(1+varintSize(size)+size) > uint64(c.maxOut) {
		c.aliases.forget(topic)
		c.out.Cancel()
		return false
	}
	first := byte(packets.Publish<<4) | o.qos<<1
	if o.retain {
		first |= 1
	}
	if dup {
		first |= 8
	}
	payload := d.Payload
	buf = appendVarint(append(buf, first), size)
	buf = append(append(buf, byte(len(topic)>>8), byte(len(topic))), topic...)
	if o.qos > 0 {
		buf = append(buf, byte(id>>8), byte(id))
	}
	if c.version == 5 {
		buf = append(appendVarint(buf, len(props)), props...)
	}
	c.session.Traffic.CountOut(len(payload))
	c.out.EndLarge(d.Batch, buf, payload, nil)
	return true
}

// measure is what of a PUBLISH depends on the client, and the size of what
// follows its fixed header. With the outbox locked.
func (c *conn) measure(space []byte, d *core.Delivery, o *offer) (topic string, props []byte, size int) {
	topic = o.topic
	size = 2 + len(topic) + len(d.Payload)
	if o.qos > 0 {
		size += 2
	}
	if c.version == 5 {
		if c.plain && d.Props == nil && o.id == 0 && !o.moved {
			size++
		} else {
			topic, props = c.properties(space, d, o)
			size += len(topic) - len(o.topic) + len(props) + varintSize(len(props))
		}
	}
	return topic, props, size
}

// fits tells whether the client takes a delivery of that size, now or later. With
// the outbox locked.
func (c *conn) fits(d *core.Delivery, o *offer) bool {
	if c.maxOut >= noLimit {
		return true
	}
	topic, _, size := c.measure(nil, d, o)
	c.aliases.forget(topic)
	return uint64(1+varintSize(size)+size) <= uint64(c.maxOut)
}

// properties builds the block of an MQTT 5 PUBLISH and says which topic name
// goes with it.
func (c *conn) properties(b []byte, d *core.Delivery, o *offer) (topic string, _ []byte) {
	topic = o.topic
	if c.aliases.max > 0 {
		topic, b = c.aliases.replace(topic, b)
	}
	own := d.Origin != nil && d.Origin.Protocol == protocolName
	if d.Props != nil {
		b = appendProperties(b, d.Message, own)
	}
	if o.moved {
		b = appendUser(b, propTopic, printAddress(d.Address()), own)
	}
	if c.server.cfg.OriginProperty && d.Origin != nil {
		b = appendUser(b, propOrigin, d.Origin.Protocol+" "+d.Origin.ClientID, false)
		if d.Origin.User != "" {
			b = appendUser(b, propUser, d.Origin.User, false)
		}
	}
	if o.id != 0 {
		b = appendVarint(append(b, packets.PropSubscriptionIdentifier), int(o.id))
	}
	for _, id := range o.more {
		b = appendVarint(append(b, packets.PropSubscriptionIdentifier), int(id))
	}
	return topic, b
}

func varintSize(n int) int {
	switch {
	case n < 1<<7:
		return 1
	case n < 1<<14:
		return 2
	case n < 1<<21:
		return 3
	}
	return 4
}

func appendVarint(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// aliases are the topic aliases towards the client (MQTT 5, 3.3.2.3.4): the
// first topics get one and keep it. Under the outbox's lock.
type aliases struct {
	max    int
	topics map[string]uint16
	fresh  string // the topic that got its alias last
}

// minAliased is the length of the shortest topic for which an alias pays.
const minAliased = 4

// replace adds the alias property; the topic is empty when the client knows it.
func (a *aliases) replace(topic string, b []byte) (string, []byte) {
	if len(topic) < minAliased {
		return topic, b
	}
	n, known := a.topics[topic]
	if !known {
		if len(a.topics) >= a.max {
			return topic, b
		}
		if a.topics == nil {
			a.topics = map[string]uint16{}
		}
		n = uint16(len(a.topics) + 1)
		a.topics[topic] = n
		a.fresh = topic
	}
	b = append(b, packets.PropTopicAlias, byte(n>>8), byte(n))
	if known {
		return "", b
	}
	return topic, b
}

// forget takes back the alias that replace gave the topic, if it did: the
// packet is not sent.
func (a *aliases) forget(topic string) {
	if topic != "" && topic == a.fresh {
		delete(a.topics, topic)
		a.fresh = ""
	}
}
