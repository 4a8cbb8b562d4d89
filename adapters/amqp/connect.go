package amqp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"entrepot/adapters"
	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/routing"
)

// capabilities is what the client says that it can (RabbitMQ's extension of
// client-properties).
type capabilities struct {
	cancelNotify bool // consumer_cancel_notify
	blocked      bool // connection.blocked
	authClose    bool // authentication_failure_close
	name         string
}

// serverCapabilities is what this server can.
func serverCapabilities() routing.Headers {
	var list routing.Headers
	for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
		"consumer_cancel_notify", "connection.blocked", "consumer_priorities", "authentication_failure_close",
		"per_consumer_qos", "direct_reply_to"} {
		list = append(list, routing.Header{Name: name, Value: true})
	}
	return list
}

// protocolHeader takes the first eight bytes (AMQP 0-9-1, 4.2.2). A client of
// another protocol or version is told ours, and the connection ends.
func (c *conn) protocolHeader(b []byte) (used int, err error) {
	const ours = frame.ProtocolHeader
	n := min(len(b), len(ours))
	if string(b[:n]) != ours[:n] {
		buf := c.conn.Outbox.BeginAnswer()
		c.conn.Outbox.End(&c.batch, append(buf, ours...))
		return 0, errors.New("the client does not speak AMQP 0-9-1")
	}
	if n < len(ours) {
		return 0, nil
	}
	c.phase = awaitsStartOK
	buf := c.conn.Outbox.BeginAnswer()
	c.greeted = true
	c.conn.Outbox.End(&c.batch, c.appendStart(buf))
	return n, nil
}

// appendStart writes connection.start.
func (c *conn) appendStart(buf []byte) []byte {
	start := len(buf)
	buf = append(frame.Begin(buf, 0, frame.ConnectionStart), 0, 9)
	buf = frame.AppendTable(buf, routing.Headers{
		{Name: "capabilities", Value: serverCapabilities()},
		{Name: "product", Value: "Entrepot"},
		{Name: "platform", Value: "Go"},
	})
	buf = frame.AppendLongText(buf, c.mechanisms())
	return frame.End(frame.AppendLongText(buf, "en_US"), start)
}

// connectionMethod does the methods of class connection, which are on channel 0.
func (c *conn) connectionMethod(f frame.Frame) error {
	r := frame.NewReader(f.Payload)
	c.method, c.last = r.Method(), nil
	switch {
	case c.method == frame.ConnectionClose:
		return c.clientCloses(&r)
	case c.method == frame.ConnectionCloseOK: // to nothing that we sent
		return adapters.ErrDone
	case c.phase == awaitsStartOK && c.method == frame.ConnectionStartOK:
		return c.startOK(&r)
	case c.phase == awaitsTuneOK && c.method == frame.ConnectionTuneOK:
		return c.tuneOK(&r)
	case c.phase == awaitsOpen && c.method == frame.ConnectionOpen:
		return c.open(&r)
	case c.phase == isOpen && c.method == frame.ConnectionUpdateSecret:
		return c.updateSecret(&r)
	case c.method.Class() == frame.ConnectionClass:
		return refuse(frame.CommandInvalid, "%v is not expected here", c.method)
	}
	return refuse(frame.ChannelError, "%v on channel 0", c.method)
}

// startOK is the client's answer to connection.start.
func (c *conn) startOK(r *frame.Reader) error {
	properties, mechanism := r.Table(), string(r.ShortText())
	response := append([]byte(nil), r.LongText()...)
	r.ShortText() // locale
	if err := r.End(); err != nil {
		return broken(frame.FrameError, "%v", err)
	}
	c.client = readCapabilities(properties)
	if err := c.authenticate(mechanism, response); err != nil {
		if f := c.faultOf(err, noun{}); f.code == frame.AccessRefused && !c.client.authClose {
			return fmt.Errorf("%w: %w", errUntold, err)
		}
		return err
	}
	c.phase = awaitsTuneOK
	c.reply(nil, frame.ConnectionTune, func(b []byte) []byte {
		b = frame.AppendShort(b, uint16(c.cfg.ChannelMax))
		b = frame.AppendLong(b, uint32(c.cfg.FrameMax))
		return frame.AppendShort(b, uint16(c.cfg.Heartbeat/time.Second))
	})
	return nil
}

func readCapabilities(properties routing.Headers) capabilities {
	var can capabilities
	v, _ := properties.Get("capabilities")
	list, _ := v.(routing.Headers)
	for name, flag := range map[string]*bool{"consumer_cancel_notify": &can.cancelNotify,
		"connection.blocked": &can.blocked, "authentication_failure_close": &can.authClose} {
		v, _ := list.Get(name)
		*flag, _ = v.(bool)
	}
	v, _ = properties.Get("connection_name")
	if name, ok := v.(string); ok && len(name) <= 255 {
		can.name = name
	}
	return can
}

// tuneOK is what the client makes of connection.tune (AMQP 0-9-1, 1.4.2.6): it
// may ask for less.
func (c *conn) tuneOK(r *frame.Reader) error {
	channels, size, beat := r.Short(), r.Long(), r.Short()
	if err := r.End(); err != nil {
		return broken(frame.FrameError, "%v", err)
	}
	if err := negotiated("channel_max", int(channels), 1, c.cfg.ChannelMax); err != nil {
		return err
	}
	if err := negotiated("frame_max", int(min(size, math.MaxInt32)), frame.MinMax, c.cfg.FrameMax); err != nil {
		return err
	}
	c.channelMax, c.frameMax = channels, int(size)
	c.heartbeat = time.Duration(beat) * time.Second
	c.phase = awaitsOpen
	return nil
}

// negotiated refuses what is not within bounds, in RabbitMQ's words; 0 asks for
// no limit.
func negotiated(name string, asked, low, high int) error {
	switch {
	case asked == 0:
		return refuse(frame.NotAllowed, "negotiated %s = no limit (0) is higher than the maximum allowed value (%d)", name, high)
	case asked < low:
		return refuse(frame.NotAllowed, "negotiated %s = %d is lower than the minimum allowed value (%d)", name, asked, low)
	case asked > high:
		return refuse(frame.NotAllowed, "negotiated %s = %d is higher than the maximum allowed value (%d)", name, asked, high)
	}
	return nil
}

// open opens the session in the realm that the virtual host names.
func (c *conn) open(r *frame.Reader) error {
	c.vhost = string(r.ShortText())
	r.ShortText()
	r.Bits()
	if err := r.End(); err != nil {
		return broken(frame.FrameError, "%v", err)
	}
	realm, exact := c.server.realms.Broker(c.vhost)
	if !exact && c.vhost != "/" {
		return refuse(frame.NotAllowed, "vhost %s not found", c.vhost)
	}
	if err := c.enter(realm); err != nil {
		return err
	}
	who := c.login.who
	who.ClientID = c.client.name
	session, _, err := realm.Connect(context.Background(), core.Hello{
		Protocol:  protocol,
		Principal: who,
		ClientID:  c.client.name,
		Remote:    c.conn.RemoteAddr(),
		Kick:      c.kicked,
		Withdrawn: c.withdrawn,
	})
	if errors.Is(err, core.ErrLimit) { // as RabbitMQ has it
		return refuse(frame.NotAllowed, "access to vhost '%s' refused for user '%s': connection limit is reached", c.vhost, c.login.user())
	}
	if err != nil {
		return err
	}
	c.session, c.realm, c.bodyMax = session, realm, min(c.cfg.MaxBody, realm.MaxMessage())
	c.unacked = adapters.NewUnacked(c.cfg.UnackedBytes, func() { session.Reached(core.LimitUnackedBytes) })
	c.channels = map[uint16]*channel{}
	c.conn.OnRoom(c.resume)
	// Twice the interval, for networks and for the wheel.
	c.conn.LoggedIn(c.frameMax, 2*c.heartbeat)
	c.conn.Pace(func() (time.Duration, bool) { return c.session.Pace(nil) })
	c.phase = isOpen
	c.reply(nil, frame.ConnectionOpenOK, func(b []byte) []byte { return frame.AppendShortText(b, "") })
	if c.heartbeat > 0 {
		c.beat.Start(c.conn, c.heartbeat, frame.AppendHeartbeat(nil), c.written)
	}
	c.watchAlarms()
	return nil
}

// clientCloses answers connection.close when all that the client had is given
// back.
func (c *conn) clientCloses(r *frame.Reader) error {
	r.Short()
	r.ShortText()
	r.Long()
	if err := r.End(); err != nil {
		return broken(frame.FrameError, "%v", err)
	}
	c.tellConfirms(&c.batch)
	c.leave(core.CloseNormal)
	buf, ok := c.begin(nil)
	if ok {
		c.ended = true
		c.send(frame.AppendEmpty(buf, 0, frame.ConnectionCloseOK))
	}
	return adapters.ErrDone
}
