package mqtt

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"time"

	"entrepot/core"
	"entrepot/core/auth"

	"github.com/mochi-mqtt/server/v2/packets"
)

// connect takes CONNECT (3.1) and answers CONNACK.
func (c *conn) connect(b []byte) error {
	level, err := protocolLevel(b)
	if err != nil {
		return c.turnAway(level, err)
	}
	will, err := c.checkConnect(b, level)
	if err != nil {
		return c.turnAway(level, err)
	}
	// The codec's strings are parts of what it reads.
	p := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect, Remaining: len(b)}}
	if err := p.ConnectDecode(bytes.Clone(b)); err != nil {
		return c.turnAway(level, faultf(malformed, "%v", err))
	}
	h, err := c.hello(p, &will)
	if err != nil {
		return c.turnAway(level, err)
	}
	return c.enter(p, h)
}

// protocolLevel reads the protocol's name and level; with badVersion the level
// says how to answer.
func protocolLevel(b []byte) (level byte, err error) {
	name, rest, err := takeBytes(b)
	if err != nil || len(rest) == 0 {
		return 0, errShort
	}
	level = rest[0]
	switch {
	case string(name) == "MQTT" && (level == 4 || level == 5), string(name) == "MQIsdp" && level == 3:
		return level, nil
	case string(name) != "MQTT" && string(name) != "MQIsdp": // [MQTT-3.1.2-1]
		return 0, faultf(badVersion, "protocol name is not MQTT")
	case level > 5:
		level = 5
	default:
		level = 4
	}
	return level, faultf(badVersion, "protocol level %d", rest[0]) // [MQTT-3.1.2-2]
}

// turnAway answers CONNACK with what was wrong, where the version has a code
// for it, and ends the connection.
func (c *conn) turnAway(level byte, why error) error {
	f, ok := errors.AsType[fault](why)
	if !ok {
		f = fault{publishReason(why), why.Error()}
	}
	c.server.tell(f.code)
	c.version = level
	p := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}}
	switch {
	case level == 5:
		p.ReasonCode = byte(f.code)
		p.Properties.ReasonString = clipped(f.text)
	default:
		code, ok := connack3(f.code)
		if !ok || level == 0 {
			return f
		}
		p.ReasonCode = code
	}
	c.send(p, &c.batch)
	c.batch.Flush()
	return f
}

// hello is what the core has to know of the client.
func (c *conn) hello(p *packets.Packet, will *brought) (h core.Hello, err error) {
	v5 := p.ProtocolVersion == 5
	if p.Properties.AuthenticationMethod == "" && len(p.Properties.AuthenticationData) > 0 { // 3.1.2.11.10
		return h, faultf(protocolError, "authentication data without a method")
	}
	h = core.Hello{
		// Cloned, so that the rest of the packet need not be kept.
		Protocol: protocolName, ClientID: strings.Clone(p.Connect.ClientIdentifier), Remote: c.net.RemoteAddr(),
		Resumable: true, Clean: p.Connect.Clean,
		Kick: func(why core.EndReason) { c.net.Kick(ending(why)) },
	}
	switch {
	case v5:
		h.Expiry = c.server.expiry(p.Properties.SessionExpiryInterval)
	case !h.Clean:
		h.Expiry = c.server.cfg.SessionExpiry3
	}
	if h.ClientID == "" {
		if !v5 && (!h.Clean || p.ProtocolVersion == 3) { // [MQTT-3.1.3-8] of 3.1.1
			return h, faultf(badClientID, "empty client identifier")
		}
		h.ClientID = "auto-" + rand.Text() // [MQTT-3.1.3-6]
		h.Resumable, h.Clean = h.Expiry > 0, true
		if v5 {
			p.Properties.AssignedClientID = h.ClientID
		}
	}
	if p.Connect.WillFlag {
		h.Will, err = c.will(p, will)
	}
	return h, err
}

// ending is what a client is told whose session the broker ended.
func ending(why core.EndReason) fault {
	switch why {
	case core.EndTakenOver:
		return fault{takenOver, why.String()}
	case core.EndExpired, core.EndRefused:
		return fault{notAuthorized, why.String()}
	}
	return fault{administrative, why.String()}
}

// expiry is a Session Expiry Interval, at most what the settings allow.
func (s *Server) expiry(seconds uint32) time.Duration {
	return min(time.Duration(seconds)*time.Second, s.cfg.SessionExpiry)
}

// logIn proves the user name by the password (3.1.3.5, 3.1.3.6). It may take its
// time, which is this client's own.
func (c *conn) logIn(b *core.Broker, p *packets.Packet, clientID string) (auth.Principal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.server.cfg.Limits.LoginTimeout)
	defer cancel()
	proof := c.net.Credentials(protocolName)
	proof.ClientID, proof.User, proof.Password = clientID, string(p.Connect.Username), string(p.Connect.Password)
	if err := c.method(b, p, &proof); err != nil {
		return auth.Principal{}, err
	}
	who, err := b.Authenticate(ctx, proof)
	switch {
	case errors.Is(err, core.ErrNotAllowed):
		err = fault{badLogIn, "user name or password is wrong"}
	case err != nil:
		err = fault{unavailable, err.Error()}
	}
	return who, err
}

// enter opens the session and says so.
func (c *conn) enter(p *packets.Packet, h core.Hello) error {
	broker, _ := c.server.realms.Broker("")
	who, err := c.logIn(broker, p, h.ClientID)
	if err != nil {
		return c.turnAway(p.ProtocolVersion, err)
	}
	h.Principal = who
	if wait := broker.Damp(h); wait > 0 {
		c.batch.Flush()
		if err := c.net.Rest(wait); err != nil {
			return err
		}
	}
	s, resumed, err := broker.Connect(context.Background(), h)
	switch {
	case errors.Is(err, core.ErrWill) && errors.Is(err, core.ErrUnsupported):
		err = fault{badTopic, err.Error()} // not malformed, and not accepted [MQTT5-3.2.2.2]
	case errors.Is(err, core.ErrNotAllowed):
		code, text := badClientID, "the client identifier may not be used"
		if errors.Is(err, core.ErrWill) {
			code, text = notAuthorized, err.Error()
		}
		err = fault{code, text}
	}
	if err != nil {
		return c.turnAway(p.ProtocolVersion, orUnavailable(err))
	}
	st, known := s.State().(*session)
	lasts := s.Lasting()
	if !known {
		if st, err = begin(s, resumed && lasts); err != nil {
			s.Close(core.CloseNormal)
			return c.turnAway(p.ProtocolVersion, fault{unavailable, err.Error()})
		}
	}
	c.session, c.id, c.clientID, c.version = s, s.ID(), h.ClientID, p.ProtocolVersion
	c.byToken = p.Properties.AuthenticationMethod != ""
	c.zeroExpiry = p.Properties.SessionExpiryInterval == 0
	c.state = st
	if lasts {
		c.gate = &gate{conn: c}
	}
	c.willQueue(h.Will)
	c.limits(p)
	release := st.attach(c, c.window(p))
	c.greet(p, h, resumed && (known || lasts))
	return c.restore(release)
}

// orUnavailable is a fault as it is, and any other error as one of the broker's.
func orUnavailable(err error) error {
	if f, ok := errors.AsType[fault](err); ok {
		return f
	}
	if errors.Is(err, core.ErrLimit) {
		return fault{quota, err.Error()}
	}
	return fault{unavailable, err.Error()}
}

// begin is a session's state: new, or of a restored session.
func begin(s *core.Session, restored bool) (*session, error) {
	st := &session{drops: s.Drops()}
	if restored {
		if err := st.rebuild(s); err != nil {
			return nil, err
		}
	}
	s.SetState(st)
	return st, nil
}

// willQueue makes the queue that a will goes to. Without it the will is counted
// as one that nobody matched.
func (c *conn) willQueue(w *core.Will) {
	if w == nil {
		return
	}
	if name, ok := (core.Address{Exchange: w.Message.Exchange, Topic: w.Message.Topic}).QueueName(); ok {
		_ = c.declareNamed(core.Named(name))
	}
}

// noLimit is a size that no packet has.
const noLimit = 1 << 30

// limits takes what the client says about itself.
func (c *conn) limits(p *packets.Packet) {
	c.maxOut = noLimit
	c.tells = c.version == 5 && !(p.Properties.RequestProblemInfoFlag && p.Properties.RequestProblemInfo == 0)
	if p.Properties.MaximumPacketSize > 0 {
		c.maxOut = p.Properties.MaximumPacketSize
	}
	c.aliases.max = min(int(p.Properties.TopicAliasMaximum), c.server.cfg.TopicAliasMaximum)
	c.plain = c.aliases.max == 0 && !c.server.cfg.OriginProperty
}

// window is how many deliveries the client takes without confirming.
func (c *conn) window(p *packets.Packet) int {
	if n := int(p.Properties.ReceiveMaximum); n > 0 {
		return min(n, c.server.cfg.MaxInFlight)
	}
	return c.server.cfg.MaxInFlight
}

// greet answers CONNACK with success and ends the limits before log-in.
func (c *conn) greet(p *packets.Packet, h core.Hello, present bool) {
	cfg := &c.server.cfg
	a := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, SessionPresent: present && c.version > 3}
	quiet := time.Duration(p.Connect.Keepalive) * time.Second
	if c.version == 5 {
		quiet = c.serverKeepAlive(quiet, &a.Properties)
		a.Properties.AuthenticationMethod = p.Properties.AuthenticationMethod // [MQTT-4.12.0-5]
		a.Properties.AssignedClientID = p.Properties.AssignedClientID
		if asked := p.Properties.SessionExpiryInterval; time.Duration(asked)*time.Second != h.Expiry {
			a.Properties.SessionExpiryInterval = uint32(h.Expiry / time.Second)
			a.Properties.SessionExpiryIntervalFlag = true
		}
		a.Properties.ReceiveMaximum = uint16(cfg.ReceiveMaximum)
		a.Properties.TopicAliasMaximum = uint16(cfg.TopicAliasMaximum)
		a.Properties.MaximumPacketSize = uint32(cfg.MaxPacket)
		a.Properties.MaximumQos, a.Properties.MaximumQosFlag = byte(cfg.MaxQoS), cfg.MaxQoS < 2
	}
	c.send(a, &c.batch)
	c.greeted.Store(true)
	c.net.LoggedIn(cfg.MaxPacket, quiet*3/2) // [MQTT-3.1.2-22]
	c.net.Pace(func() (time.Duration, bool) { return c.session.Pace(nil) })
}

// serverKeepAlive is the keep-alive that holds; the client is told when it is
// not its own ([MQTT-3.2.2-21]).
func (c *conn) serverKeepAlive(asked time.Duration, p *packets.Properties) time.Duration {
	most := c.server.cfg.KeepAlive.Truncate(time.Second)
	if most == 0 || asked > 0 && asked <= most {
		return asked
	}
	p.ServerKeepAlive, p.ServerKeepAliveFlag = uint16(most/time.Second), true
	return most
}

// restore goes on with a session: what was in flight, then what waits.
func (c *conn) restore(release []uint16) error {
	for _, id := range append(release, c.state.overdue()...) {
		c.answerID(packets.Pubrel<<4|2, id, success)
	}
	c.sendKept(&c.batch)
	if c.state.rebuilt {
		c.rebind()
	}
	subs, queued := c.state.held(c)
	if queued {
		if _, err := c.consume(topics, nil, core.Key(core.SessionQueue, c.clientID)); err != nil {
			return faultf(unspecified, "session's queue: %v", err)
		}
	}
	for _, sub := range subs {
		if err := c.reopen(sub); err != nil {
			c.forsake(sub, err)
		}
	}
	c.resumeRefused(&c.batch)
	return nil
}

// forsake gives up a subscription that cannot be taken up again.
func (c *conn) forsake(sub *subscription, why error) {
	c.server.log.Debug("subscription not taken up again", "client", c.clientID, "filter", sub.text, "error", why)
	c.state.unsubscribe(c, sub.text)
	if c.gate != nil {
		// Taken over or on a failing disk it is tried again by the next.
		_ = c.state.subscribed(c, sub.text, nil)
	}
}

// rebind gives the bindings of a session that was restored their subscriptions
// again, once.
func (c *conn) rebind() {
	key := core.Key(core.SessionQueue, c.clientID)
	all, first := c.state.restored(c)
	if !first {
		return
	}
	ctx := context.Background()
	info, err := c.session.DeclareQueue(ctx, core.QueueSpec{Key: key, Passive: true})
	if errors.Is(err, core.ErrNotFound) && len(all) > 0 {
		info, err = c.session.DeclareQueue(ctx, c.queueSpec(key))
	}
	if err == nil {
		c.state.setQueued(c)
	}
	if err != nil || info.Messages == 0 {
		for _, id := range c.state.lost(c, math.MaxUint64) {
			c.answerID(packets.Pubrel<<4|2, id, success)
		}
	}
	for _, sub := range all {
		if err := c.session.Rebind(ctx, c.binding(key, sub)); err != nil {
			c.forsake(sub, err)
		}
	}
}

// reopen consumes a group's or a named queue again.
func (c *conn) reopen(sub *subscription) error {
	if sub.kind == topics {
		return nil
	}
	_, err := c.session.DeclareQueue(context.Background(), core.QueueSpec{Key: c.queueOf(sub), Passive: true})
	if err != nil || sub.kind == serve {
		err = c.declare(sub)
	}
	if err == nil {
		_, err = c.consume(sub.kind, sub, c.queueOf(sub))
	}
	return err
}
