package mqtt

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"entrepot/core"

	"github.com/mochi-mqtt/server/v2/packets"
)

// guarantee is what a QoS asks for.
func guarantee(qos byte) core.Guarantee {
	switch qos {
	case 0:
		return core.AtMostOnce
	case 1:
		return core.Durable
	}
	return core.Once
}

// publisher is what a connection has that publishes.
type publisher struct {
	lane  *core.Lane
	done  core.Done // conn.published, bound once
	names names
	acks  acks
}

// names remembers what the client's topic names mean, so that checking one and
// making it a topic is done once. The reader's own, except stale.
type names struct {
	last    *place
	known   map[string]*place
	aliases []*place // what the client's topic aliases stand for, from 1
	stale   atomic.Bool
}

// place is a topic name and what it means.
type place struct {
	text    string
	address core.Address
	delay   time.Duration
	queue   bool  // a queue that was declared when the place was learned
	refused error // why nothing goes there
}

const (
	maxNames = 256
	longName = 512 // bytes; longer ones are not remembered beside others
)

// find returns the place of a topic name. The error is a fault.
func (c *conn) find(name []byte) (*place, error) {
	n := &c.publisher.names
	if n.last != nil && string(name) == n.last.text {
		return n.last, nil
	}
	p, ok := n.known[string(name)]
	if !ok {
		var err error
		if p, err = c.learn(string(name)); err != nil {
			return nil, err
		}
	}
	n.last = p
	return p, nil
}

func (c *conn) learn(name string) (*place, error) {
	p := &place{text: name}
	if !validString([]byte(name)) { // [MQTT-3.3.2-1]
		return nil, errUTF8
	}
	rest, delay, err := delayedTopic(name)
	if err == nil {
		p.delay = delay
		p.address, err = publishAddress(rest)
	}
	if err == nil {
		if queue, ok := p.address.QueueName(); ok && !p.address.IsReply() {
			p.queue = true
			err = c.declareNamed(core.Named(queue))
		}
	}
	if _, hard := errors.AsType[fault](err); hard {
		return nil, err
	}
	if p.refused = err; err != nil {
		return p, nil
	}
	n := &c.publisher.names
	switch {
	case n.last == nil || len(name) > longName:
		return p, nil // one topic needs no map, and long ones are learned again
	case n.known == nil:
		n.known = map[string]*place{}
	case len(n.known) >= maxNames:
		for k := range n.known { // Go starts at a random place
			delete(n.known, k)
			break
		}
	}
	n.known[name] = p
	return p, nil
}

// declareNamed makes a queue that is only named, or finds it; what another
// session holds for itself exists, too.
func (c *conn) declareNamed(k core.QueueKey) error {
	ctx := context.Background()
	_, err := c.session.DeclareQueue(ctx, core.QueueSpec{Key: k, Durable: true})
	if err == nil || errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrLocked) {
		return nil
	}
	if _, there := c.session.DeclareQueue(ctx, core.QueueSpec{Key: k, Passive: true}); there == nil || errors.Is(there, core.ErrLocked) {
		return nil
	}
	return err
}

// forgetQueues makes the client's next publish to a queue declare it again: a
// message found none.
func (n *names) forgetQueues() {
	n.stale.Store(false)
	n.last = nil
	for k, p := range n.known {
		if p.queue {
			delete(n.known, k)
		}
	}
	for i, p := range n.aliases {
		if p != nil && p.queue {
			n.aliases[i] = &place{text: p.text, queue: true}
		}
	}
}

// publish takes PUBLISH (3.3).
func (c *conn) publish(first byte, b []byte) error {
	if c.publisher == nil {
		c.publisher = &publisher{lane: core.NewLane(&c.batch), done: c.published}
	}
	qos := first >> 1 & 3
	if qos == 3 || first&0x0E == 8 { // [MQTT-3.3.1-4] [MQTT-3.3.1-2]
		return faultf(malformed, "QoS 3, or DUP with QoS 0")
	}
	name, b, err := takeBytes(b)
	if err != nil {
		return err
	}
	var id uint16
	if qos > 0 {
		if id, b, err = takeID(b); err != nil {
			return err
		}
	}
	var got brought
	if c.version == 5 {
		if len(b) > 0 && b[0] == 0 {
			b = b[1:]
		} else if got, b, err = c.takeMessageProperties(packets.Publish, b); err != nil {
			return err
		}
	}
	if c.publisher.names.stale.Load() {
		c.publisher.names.forgetQueues()
	}
	p, err := c.resolve(name, &got)
	if err != nil {
		return err
	}
	if qos > 0 {
		return c.publishConfirmed(first, id, p, &got, b)
	}
	if why := c.accept(p, &got, b); why != nil {
		c.session.Drops().Add(dropReason(publishReason(why)), 1)
		return nil
	}
	c.session.Publish(c.publisher.lane, message(first, p, &got, b), nil)
	return nil
}

// resolve finds the place that a topic name or an alias stands for (MQTT 5,
// 3.3.2.3.4).
func (c *conn) resolve(name []byte, got *brought) (*place, error) {
	if !got.hasAlias {
		if len(name) == 0 { // [MQTT-4.7.3-1]
			return nil, faultf(protocolError, "empty topic name without an alias")
		}
		return c.find(name)
	}
	n := &c.publisher.names
	if got.alias == 0 || int(got.alias) > c.server.cfg.TopicAliasMaximum { // [MQTT-3.3.2-8] [MQTT-3.3.2-9]
		return nil, faultf(badAlias, "topic alias %d", got.alias)
	}
	if n.aliases == nil {
		n.aliases = make([]*place, c.server.cfg.TopicAliasMaximum+1)
	}
	if len(name) == 0 {
		p := n.aliases[got.alias]
		switch {
		case p == nil:
			return nil, faultf(protocolError, "topic alias %d stands for nothing", got.alias)
		case p.address.IsZero() && p.refused == nil: // see forgetQueues
			return c.setAlias(got.alias, []byte(p.text))
		}
		return p, nil
	}
	return c.setAlias(got.alias, name)
}

func (c *conn) setAlias(alias uint16, name []byte) (*place, error) {
	p, err := c.find(name)
	if err == nil {
		c.publisher.names.aliases[alias] = p
	}
	return p, err
}

// accept tells why a message is not taken, nil when it is.
func (c *conn) accept(p *place, got *brought, payload []byte) error {
	switch {
	case p.refused != nil:
		return p.refused
	case got.refused != nil:
		return got.refused
	case got.props != nil && got.props.Text && !utf8.Valid(payload): // 3.3.2.3.2
		return refuse(badPayload, "the payload is not UTF-8")
	}
	return nil
}

// message makes the core's message; b is copied.
func message(first byte, p *place, got *brought, b []byte) *core.Message {
	m := core.NewMessage(len(b))
	copy(m.Payload, b)
	m.Exchange, m.Topic = p.address.Exchange, p.address.Topic
	m.Guarantee = guarantee(first >> 1 & 3)
	m.Retain = first&1 != 0 || got.retain
	m.Props = got.props
	if p.delay > 0 {
		got.fields().Delay = p.delay
		m.Props = got.props
	}
	return m
}

// publishConfirmed publishes at QoS 1 or 2.
func (c *conn) publishConfirmed(first byte, id uint16, p *place, got *brought, b []byte) error {
	qos := first >> 1 & 3
	if int(qos) > c.server.cfg.MaxQoS { // [MQTT-3.2.2-11]
		return faultf(badQoS, "QoS %d", qos)
	}
	k := ack{id: id, first: packets.Puback << 4, queue: p.queue}
	why := c.accept(p, got, b)
	again := false
	if qos == 2 {
		k.first = packets.Pubrec << 4
		var err error
		if again, k.waits, err = c.state.remember(c, id, why == nil); err != nil {
			return err
		}
	}
	switch {
	case again: // [MQTT-4.3.3-10]
		k.ended = !k.waits
	case why == errReserved && c.version < 5: // [MQTT-3.3.5-2] of 3.1.1: a refusal may be confirmed
		c.session.Drops().Add(core.DropNotAllowed, 1)
		k.ended = true
	case why != nil:
		k.code, k.text, k.ended = publishReason(why), clipped(why.Error()), true
	}
	limit := 65535 // as many as there are identifiers
	if c.version == 5 {
		limit = c.server.cfg.ReceiveMaximum
	}
	if !c.expect(k, !again, limit) { // [MQTT-3.3.4-7]
		return faultf(receiveMaximum, "more than %d messages without confirmation", limit)
	}
	if !again && why == nil {
		if qos == 2 && c.gate != nil { // the message and its identifier, or neither
			c.session.PublishNoted(c.publisher.lane, message(first, p, got, b), []core.Note{incoming(id)}, c.publisher.done)
		} else {
			c.session.Publish(c.publisher.lane, message(first, p, got, b), c.publisher.done)
		}
	}
	if c.publisher.acks.failed.Load() {
		return c.publisher.acks.why
	}
	return nil
}
