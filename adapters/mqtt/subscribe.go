package mqtt

import (
	"bytes"
	"context"
	"strings"

	"entrepot/core"

	"github.com/mochi-mqtt/server/v2/packets"
)

// subscribe takes SUBSCRIBE (3.8). Deliveries wait meanwhile, so that SUBACK
// comes before what the subscription brings.
func (c *conn) subscribe(b []byte) error {
	p := &packets.Packet{ProtocolVersion: c.version, FixedHeader: packets.FixedHeader{Type: packets.Subscribe}}
	if err := c.checkSubscribe(packets.Subscribe, b); err != nil {
		return err
	}
	if err := p.SubscribeDecode(bytes.Clone(b)); err != nil {
		return faultf(malformed, "%v", err)
	}
	c.settle()
	c.paused.Store(true)
	a := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Suback}, PacketID: p.PacketID}
	for i := range p.Filters {
		code, err := c.grant(&p.Filters[i])
		if f, ok := err.(fault); ok {
			return f
		}
		if err != nil {
			code = c.refusal(&a.Properties, err)
		}
		a.ReasonCodes = append(a.ReasonCodes, code) // [MQTT-3.8.4-6]
	}
	if !c.send(a, &c.batch) {
		return faultf(tooLarge, "the answer to SUBSCRIBE is larger than the client takes")
	}
	c.paused.Store(false)
	c.resumeRefused(&c.batch)
	return nil
}

// refusal is the code of a filter that is not granted; the first one's text
// goes with the packet.
func (c *conn) refusal(p *packets.Properties, err error) byte {
	code := subscribeReason(err)
	c.server.tell(code)
	if c.version < 5 {
		return 0x80
	}
	if c.tells && p.ReasonString == "" {
		p.ReasonString = clipped(err.Error())
	}
	return byte(code)
}

// grant makes one subscription and returns its QoS. Errors: fault ends the
// connection.
func (c *conn) grant(f *packets.Subscription) (byte, error) {
	sub, err := parseFilter(strings.Clone(f.Filter)) // without the packet around it
	if err != nil {
		return 0, err
	}
	if sub.kind == shared && f.NoLocal { // [MQTT-3.8.3-4]
		return 0, faultf(protocolError, "no local on a shared subscription")
	}
	sub.qos = min(f.Qos, byte(c.server.cfg.MaxQoS))
	sub.id, sub.noLocal, sub.asPublished = uint32(f.Identifier), f.NoLocal, f.RetainAsPublished
	if !c.state.room(sub.text, c.server.cfg.MaxSubscriptions) {
		return 0, refuse(quota, "more than %d subscriptions", c.server.cfg.MaxSubscriptions)
	}
	if err := c.subscribeTo(&sub, f.RetainHandling); err != nil {
		return 0, err
	}
	return sub.qos, nil
}

// subscribeTo makes a subscription. What the disk has of it is there when it
// returns: the note comes before the binding, which waits for a sync.
func (c *conn) subscribeTo(sub *subscription, retainHandling byte) (err error) {
	old := c.state.subscription(sub.text)
	if c.gate != nil {
		if err := c.state.subscribed(c, sub.text, sub); err != nil {
			return err
		}
	}
	if sub.kind == topics {
		err = c.bind(sub, retainHandling)
	} else {
		err = c.join(sub)
	}
	if err != nil && c.gate != nil {
		// On a failing disk it is as before when that works again.
		_ = c.state.subscribed(c, sub.text, old)
		if old == nil && sub.kind == topics {
			_ = c.session.Unbind(context.Background(), c.binding(core.Key(core.SessionQueue, c.clientID), sub))
		}
	}
	return err
}

// bind subscribes to topics, in the session's own queue.
func (c *conn) bind(sub *subscription, retainHandling byte) error {
	key := core.Key(core.SessionQueue, c.clientID)
	if err := c.ownQueue(key); err != nil {
		return err
	}
	replay := [...]core.Replay{core.ReplayAlways, core.ReplayIfNew, core.ReplayNever}[retainHandling]
	undo, err := c.state.subscribe(c, sub)
	if err != nil {
		return err
	}
	spec := c.binding(key, sub)
	spec.Replay = replay
	if err = c.session.Bind(context.Background(), spec); err != nil {
		undo()
	}
	return err
}

// binding of the session's queue.
func (c *conn) binding(key core.QueueKey, sub *subscription) core.BindSpec {
	return core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: sub.filter, Value: sub,
		AtMostOnce: sub.qos == 0, Replay: core.ReplayNever}
}

// ownQueue declares and consumes the session's queue, once.
func (c *conn) ownQueue(key core.QueueKey) error {
	if c.state.isQueued() {
		return nil
	}
	_, err := c.session.DeclareQueue(context.Background(), c.queueSpec(key))
	if err != nil {
		return err
	}
	if _, err = c.consume(topics, nil, key); err == nil {
		c.state.setQueued(c)
	}
	return err
}

// queueSpec is the session's queue, durable if the session is.
func (c *conn) queueSpec(key core.QueueKey) core.QueueSpec {
	return core.QueueSpec{Key: key, Exclusive: true, Durable: c.gate != nil, Args: c.queueArgs()}
}

func (c *conn) queueArgs() core.QueueArgs {
	cfg := &c.server.cfg
	return core.QueueArgs{MaxLength: cfg.QueueLength, HasMaxLength: true, MaxBytes: cfg.QueueBytes, HasMaxBytes: true}
}

// join subscribes to a group's queue or to a named one.
func (c *conn) join(sub *subscription) error {
	if err := c.declare(sub); err != nil {
		return err
	}
	src := c.state.source(c, sub.text)
	if src != nil {
		src.sub.Store(sub)
	} else if _, err := c.consume(sub.kind, sub, c.queueOf(sub)); err != nil {
		c.release(sub)
		return err
	}
	_, err := c.state.subscribe(c, sub)
	return err
}

// declare sees to the queue of a subscription to a queue, and takes hold of a
// group's.
func (c *conn) declare(sub *subscription) error {
	switch sub.kind {
	case work:
		return c.declareNamed(sub.queue)
	case serve:
		return c.serve(sub)
	}
	ctx := context.Background()
	if _, err := c.session.DeclareQueue(ctx, core.QueueSpec{Key: sub.queue, Durable: c.gate != nil, Args: c.queueArgs()}); err != nil {
		return err
	}
	err := c.session.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: sub.queue, Filter: sub.filter})
	if err != nil {
		c.release(sub)
	}
	return err
}

// serve makes the client a callee, through a queue of its own. Calls that an
// earlier connection did not answer are over.
func (c *conn) serve(sub *subscription) error {
	ctx, key := context.Background(), c.queueOf(sub)
	if _, err := c.session.DeclareQueue(ctx, core.QueueSpec{Key: key, Exclusive: true, Args: c.queueArgs()}); err != nil {
		return err
	}
	if c.state.source(c, sub.text) == nil {
		if _, err := c.session.PurgeQueue(ctx, key); err != nil {
			return err
		}
	}
	return c.session.Bind(ctx, core.BindSpec{Source: core.RPCExchange, Queue: key, Filter: sub.filter})
}

// queueOf is the queue of a subscription that has one of its own.
func (c *conn) queueOf(sub *subscription) core.QueueKey {
	if sub.kind == serve {
		return core.Key(core.TopicQueue, "mqtt", c.clientID, sub.text)
	}
	return sub.queue
}

// release gives the hold on a group's queue up, unless it is an older
// subscription's.
func (c *conn) release(sub *subscription) {
	if sub.kind != shared && sub.kind != serve || c.state.source(c, sub.text) != nil {
		return
	}
	if sub.kind == serve {
		// Not bound is as good.
		_ = c.session.Unbind(context.Background(), core.BindSpec{Source: core.RPCExchange, Queue: c.queueOf(sub), Filter: sub.filter})
	}
	// The session may be fenced off, which released it.
	_, _ = c.session.DeleteQueue(context.Background(), c.queueOf(sub), core.DeleteOptions{})
}

// consume attaches a source, at rest until resumeRefused.
func (c *conn) consume(k kind, sub *subscription, key core.QueueKey) (*source, error) {
	src := &source{conn: c, kind: k}
	src.sub.Store(sub)
	src.refused.Store(true)
	src.recall.Store(k == topics && c.state.recalls())
	cons, err := c.session.Consume(context.Background(), key, core.ConsumeOptions{Paused: true}, src)
	if err != nil {
		return nil, err
	}
	src.consumer = cons
	c.state.enlist(c, src)
	return src, nil
}

// resumeRefused resumes the sources that waited.
func (c *conn) resumeRefused(b *core.Batch) {
	for _, src := range c.state.waiting(c) {
		src.consumer.Resume(b)
	}
}

// unsubscribe takes UNSUBSCRIBE (3.10).
func (c *conn) unsubscribe(b []byte) error {
	p := &packets.Packet{ProtocolVersion: c.version, FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}}
	if err := c.checkSubscribe(packets.Unsubscribe, b); err != nil {
		return err
	}
	if err := p.UnsubscribeDecode(bytes.Clone(b)); err != nil {
		return faultf(malformed, "%v", err)
	}
	c.settle()
	a := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsuback}, PacketID: p.PacketID}
	for i := range p.Filters {
		a.ReasonCodes = append(a.ReasonCodes, byte(c.leave(p.Filters[i].Filter))) // [MQTT-3.10.4-5]
	}
	if !c.send(a, &c.batch) {
		return faultf(tooLarge, "the answer to UNSUBSCRIBE is larger than the client takes")
	}
	return nil
}

// leave ends one subscription.
func (c *conn) leave(text string) reason {
	sub := c.state.unsubscribe(c, text)
	if sub == nil {
		if _, err := parseFilter(text); err != nil {
			return badFilter
		}
		return noSubscription
	}
	if c.gate != nil {
		// The sync that the end of the binding waits for has it too.
		if err := c.state.subscribed(c, text, nil); err != nil {
			return subscribeReason(err)
		}
	}
	ctx := context.Background()
	if sub.kind == topics {
		err := c.session.Unbind(ctx, core.BindSpec{
			Source: core.TopicExchange, Queue: core.Key(core.SessionQueue, c.clientID), Filter: sub.filter})
		if err != nil {
			return subscribeReason(err)
		}
		return success
	}
	// What the client has not confirmed is completed first ([MQTT-3.10.4-3]).
	src, now := c.state.delist(c, text)
	if now {
		src.consumer.Cancel(core.Requeue)
	}
	if sub.kind == shared || sub.kind == serve {
		c.release(sub)
	} else if c.gate != nil {
		if err := c.state.synced(c); err != nil {
			return subscribeReason(err)
		}
	}
	return success
}

// QueueGone implements core.QueueGone: somebody deleted the queue. MQTT cannot
// end one subscription, so the connection ends; the client comes back and
// subscribes anew.
func (s *source) QueueGone() {
	if s.kind == work && !s.leaving.Load() {
		s.conn.state.unsubscribe(s.conn, s.sub.Load().text)
		s.conn.net.Kick(fault{administrative, "the queue was deleted"})
	}
}
