package mqtt

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"entrepot/adapters"
	"entrepot/core"

	"github.com/mochi-mqtt/server/v2/packets"
)

// conn is one client's connection, an adapters.Protocol.
type conn struct {
	server *Server
	net    *adapters.Conn
	out    *adapters.Outbox

	// Written by the reader before the first delivery, then read by all.
	session *core.Session
	state   *session
	id      core.SessionID
	version byte // 3, 4 or 5; 0 before CONNECT
	tells   bool // the client wants reason strings (Request Problem Information)
	byToken bool // by the authentication method JWT
	plain   bool // MQTT 5 deliveries have no property that the message does not ask for
	maxOut  uint32
	aliases aliases // under the outbox's lock
	gate    *gate   // of a session that lasts: outlives a restart of the broker

	// The reader's own.
	clientID   string
	zeroExpiry bool // the session was to end with the connection
	reason     core.CloseReason
	batch      core.Batch
	publisher  *publisher // nil until the client publishes
	settling   settling

	releaseLane *core.Lane // see releases

	paused  atomic.Bool // a SUBSCRIBE is being answered: deliveries wait
	greeted atomic.Bool // CONNACK with success is out
	parted  atomic.Bool // DISCONNECT is out
}

func (s *Server) open(nc *adapters.Conn) adapters.Protocol {
	c := &conn{server: s, net: nc, out: nc.Outbox, reason: core.CloseLost}
	nc.OnRoom(c.room)
	return c
}

// Feed implements adapters.Protocol.
func (c *conn) Feed(b []byte) (int, error) {
	if c.publisher != nil {
		c.publisher.acks.hold()
	}
	used := 0
	for len(b)-used >= 2 {
		first := b[used]
		head, size := 2, 2+int(b[used+1])
		if b[used+1] >= 0x80 || c.version == 0 {
			var err error
			if head, size, err = c.frame(b[used:]); err != nil || size == 0 {
				return used, err
			}
		}
		if len(b)-used < size {
			break
		}
		body := b[used+head : used+size]
		used += size
		var err error
		if first>>4 == packets.Publish && c.version != 0 {
			err = c.publish(first, body)
		} else {
			err = c.packet(first, body)
		}
		if err != nil {
			return used, err
		}
	}
	return used, nil
}

// frame is the rare part of finding a packet: long ones, and those of clients
// who have not said who they are. What is claimed is checked before it comes.
func (c *conn) frame(b []byte) (head, size int, err error) {
	limit := c.server.cfg.MaxPacket
	if c.version == 0 {
		if b[0] != packets.Connect<<4 { // [MQTT-3.1.0-1]
			return 0, 0, faultf(protocolError, "the first packet is not CONNECT")
		}
		limit = min(limit, c.server.cfg.Limits.LoginBytes)
	}
	head, size, err = frame(b)
	if err == nil && size > limit {
		err = faultf(tooLarge, "packet of %d bytes, limit %d", size, limit)
	}
	return head, size, err
}

// packet handles all but PUBLISH.
func (c *conn) packet(first byte, b []byte) error {
	kind := first >> 4
	if err := checkFlags(first); err != nil {
		return err
	}
	if c.version == 0 {
		return c.connect(b)
	}
	switch kind {
	case packets.Connect: // [MQTT-3.1.0-2]
		return faultf(protocolError, "second CONNECT")
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		id, code, err := c.takeAck(kind, b)
		if err != nil {
			return err
		}
		return c.acknowledged(kind, id, code)
	case packets.Subscribe:
		return c.subscribe(b)
	case packets.Unsubscribe:
		return c.unsubscribe(b)
	case packets.Pingreq:
		if len(b) > 0 {
			return errSurplus
		}
		c.net.Chore()
		c.answer(packets.Pingresp<<4, 0) // [MQTT-3.12.4-1]
		return nil
	case packets.Disconnect:
		return c.disconnect(b)
	case packets.Auth:
		if c.version == 5 {
			return c.authenticateAgain(b)
		}
	}
	return faultf(protocolError, "packet type %d from a client", kind)
}

// answer writes a short packet.
func (c *conn) answer(packet ...byte) {
	c.out.End(&c.batch, append(c.out.BeginAnswer(), packet...))
}

// answerID writes an acknowledgement that has nothing to say.
func (c *conn) answerID(first byte, id uint16, code reason) {
	buf := c.out.BeginAnswer()
	c.out.End(&c.batch, appendAck(buf, first, c.version, id, code, ""))
}

// appendAck writes PUBACK, PUBREC, PUBREL or PUBCOMP; before MQTT 5 it has no
// code.
func appendAck(b []byte, first, version byte, id uint16, code reason, text string) []byte {
	switch {
	case code == success || version < 5:
		return append(b, first, 2, byte(id>>8), byte(id))
	case text == "":
		return append(b, first, 3, byte(id>>8), byte(id), byte(code))
	}
	props := 3 + len(text)
	b = appendVarint(append(b, first), 3+varintSize(props)+props)
	b = append(b, byte(id>>8), byte(id), byte(code))
	b = append(appendVarint(b, props), packets.PropReasonString)
	return appendText(b, text)
}

// send writes a control packet by mochi's codec. A reason string goes when the
// client does not want it, or when the packet would be larger than the client
// takes; a packet that still is goes nowhere (false).
func (c *conn) send(p *packets.Packet, b *core.Batch) bool {
	p.ProtocolVersion = c.version
	buf := &bytes.Buffer{}
	encode := map[byte]func(*bytes.Buffer) error{
		packets.Connack: p.ConnackEncode, packets.Suback: p.SubackEncode,
		packets.Unsuback: p.UnsubackEncode, packets.Disconnect: p.DisconnectEncode, packets.Auth: p.AuthEncode,
	}[p.FixedHeader.Type]
	for range 2 {
		buf.Reset()
		if err := encode(buf); err != nil {
			return false
		}
		if c.maxOut == 0 || buf.Len() <= int(c.maxOut) || p.Properties.ReasonString == "" {
			break
		}
		p.Properties.ReasonString = ""
	}
	if c.maxOut > 0 && buf.Len() > int(c.maxOut) {
		return false
	}
	c.out.End(b, append(c.out.BeginAnswer(), buf.Bytes()...))
	return true
}

// Idle implements adapters.Protocol.
func (c *conn) Idle() {
	c.settle()
	c.flushAcks()
	if c.settling.hungry {
		c.feedHungry()
	}
	if c.gate != nil {
		c.letGo()
	}
	c.batch.Flush()
}

// feedHungry resumes what waited for a place in the window.
func (c *conn) feedHungry() {
	c.settling.hungry = false
	for _, src := range c.state.hungry() {
		src.consumer.Resume(&c.batch)
	}
	c.sendKept(&c.batch)
}

// letGo ends the sources of subscriptions that ended, when what they had out is
// confirmed on disk.
func (c *conn) letGo() {
	for _, src := range c.state.gone() {
		src.consumer.Cancel(core.Requeue)
	}
}

// room is called when the outbox refused a delivery and has room again.
func (c *conn) room(b *core.Batch) {
	if c.gate != nil {
		c.gate.pump(b)
	}
	c.resumeRefused(b)
	c.sendKept(b)
}

// disconnect takes DISCONNECT (3.14).
func (c *conn) disconnect(b []byte) error {
	if c.version < 5 {
		if len(b) > 0 {
			return errSurplus
		}
		c.reason = core.CloseNormal
		return adapters.ErrDone
	}
	code := success
	if len(b) > 0 {
		code, b = reason(b[0]), b[1:]
	}
	if len(b) > 0 {
		rest, err := c.checkProperties(packets.Disconnect, b)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return errSurplus
		}
		var p packets.Properties
		if _, err := p.Decode(packets.Disconnect, bytes.NewBuffer(bytes.Clone(b))); err != nil {
			return faultf(malformed, "%v", err)
		}
		if p.SessionExpiryIntervalFlag {
			if c.zeroExpiry && p.SessionExpiryInterval > 0 { // [MQTT-3.14.2-2]
				return faultf(protocolError, "session expiry on DISCONNECT of a session without")
			}
			c.session.SetExpiry(c.server.expiry(p.SessionExpiryInterval))
		}
	}
	c.reason = core.CloseWithWill
	if code == success { // [MQTT-3.14.4-3]
		c.reason = core.CloseNormal
	}
	return adapters.ErrDone
}

// Shutdown implements adapters.Protocol.
func (c *conn) Shutdown() { c.part(shuttingDown, "the broker stops") }

// part tells an MQTT 5 client why its connection ends, once.
func (c *conn) part(code reason, text string) {
	if !c.greeted.Load() || c.version < 5 || c.parted.Swap(true) {
		return
	}
	p := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: byte(code)}
	p.Properties.ReasonString = clipped(text)
	var b core.Batch
	c.send(p, &b)
	b.Flush()
}

// Closed implements adapters.Protocol.
func (c *conn) Closed(err error) {
	if c.session == nil {
		c.server.log.Debug("closed before log-in", "remote", c.net.RemoteAddr(), "error", err)
		return
	}
	c.settle()
	c.flushAcks()
	if err != nil {
		code, text := endReason(err)
		c.server.tell(code)
		c.part(code, text)
		if errors.Is(err, adapters.ErrKicked) {
			c.reason = core.CloseShutdown
		}
	}
	c.state.park(c)
	c.session.Close(c.reason)
	c.batch.Flush()
	c.server.log.Debug("closed", "client", c.clientID, "remote", c.net.RemoteAddr(), "error", err)
}

// endReason is what the client is told of an error that ends its connection.
func endReason(err error) (reason, string) {
	f, ok := errors.AsType[fault](err)
	switch {
	case ok:
		return f.code, f.text
	case errors.Is(err, adapters.ErrTimeout):
		return keepAliveTimeout, "nothing heard in time"
	case errors.Is(err, adapters.ErrFrameTooLarge):
		return tooLarge, fmt.Sprint(err)
	case errors.Is(err, adapters.ErrKicked):
		return shuttingDown, "the broker stops"
	}
	return unspecified, "connection lost"
}
