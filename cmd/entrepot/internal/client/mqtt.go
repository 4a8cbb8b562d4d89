package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

const keepAlive = 30 * time.Second

// mqttConn is a Conn that speaks MQTT.
type mqttConn struct {
	*line[packets.Packet]
	in      *bufio.Reader
	version byte
	note    func(string)
	maxQoS  int
	alive   time.Duration
	lastID  uint16
	// unreleased are the QoS 2 messages that were handled and not released yet.
	unreleased map[uint16]bool
}

func openMQTT(nc net.Conn, u URL, o Options) (Conn, error) {
	c := &mqttConn{
		line: newLine[packets.Packet](nc, o.Timeout), in: bufio.NewReader(nc),
		version: 5, note: o.Note, maxQoS: 2, alive: keepAlive, unreleased: map[uint16]bool{},
	}
	if o.Version == "3.1.1" {
		c.version = 4
	}
	if err := c.put(c.connect(u, o)); err != nil {
		return nil, err
	}
	ack, err := readPacket(c.in, c.version)
	if err != nil {
		return nil, err
	}
	if err := c.accepted(ack, o); err != nil {
		return nil, err
	}
	c.start(c.read, c.alive/2, func() error { return c.put(packet(packets.Pingreq)) })
	return c, nil
}

func (c *mqttConn) connect(u URL, o Options) packets.Packet {
	pk := packet(packets.Connect)
	pk.Connect = packets.ConnectParams{
		ProtocolName: []byte("MQTT"), ClientIdentifier: o.ID, Keepalive: uint16(keepAlive / time.Second),
		Clean:        o.Expiry == 0,
		UsernameFlag: u.User != "", Username: []byte(u.User),
		PasswordFlag: u.Password != "", Password: []byte(u.Password),
	}
	if c.version == 5 && o.Expiry > 0 {
		pk.Properties.SessionExpiryIntervalFlag = true
		pk.Properties.SessionExpiryInterval = uint32(min(o.Expiry/time.Second, 1<<32-1))
	}
	if c.version == 5 {
		pk.Properties.ReceiveMaximum = uint16(o.Prefetch)
	}
	return pk
}

// accepted looks at the CONNACK.
func (c *mqttConn) accepted(ack packets.Packet, o Options) error {
	if ack.FixedHeader.Type != packets.Connack {
		return fmt.Errorf("answers a CONNECT with %s: not an MQTT broker?", packets.PacketNames[ack.FixedHeader.Type])
	}
	if ack.ReasonCode != 0 {
		return fmt.Errorf("connection refused: %w", c.reason(ack.ReasonCode, ack.Properties.ReasonString, connackReasons()))
	}
	if p := ack.Properties; p.MaximumQosFlag {
		c.maxQoS = int(p.MaximumQos)
	}
	if p := ack.Properties; p.ServerKeepAliveFlag && p.ServerKeepAlive > 0 {
		c.alive = time.Duration(p.ServerKeepAlive) * time.Second
	}
	if ack.SessionPresent {
		c.note("resumed session " + o.ID)
	}
	return nil
}

func packet(kind byte) packets.Packet {
	return packets.Packet{FixedHeader: packets.FixedHeader{Type: kind}}
}

func (c *mqttConn) put(pk packets.Packet) error {
	b, err := encodePacket(pk, c.version)
	if err != nil {
		return err
	}
	return c.send(b)
}

// read handles one packet, on the reader's goroutine.
func (c *mqttConn) read() error {
	// The broker answers a ping at least.
	if err := c.conn.SetReadDeadline(time.Now().Add(c.alive + c.timeout)); err != nil {
		return err
	}
	pk, err := readPacket(c.in, c.version)
	if err != nil {
		return err
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		c.message(pk)
	case packets.Pubrel:
		pk.FixedHeader.Type = packets.Pubcomp // what it wants; it keeps its place behind messages
		c.message(pk)
	case packets.Disconnect:
		return fmt.Errorf("the broker ended the connection: %w", c.reason(pk.ReasonCode, pk.Properties.ReasonString, nil))
	case packets.Pingresp:
	default:
		c.answer(pk)
	}
	return nil
}

// Publish implements Conn.
func (c *mqttConn) Publish(ctx context.Context, m Message) error {
	if m.QoS > c.maxQoS {
		return fmt.Errorf("the broker takes QoS %d at most", c.maxQoS)
	}
	pk := packet(packets.Publish)
	pk.FixedHeader.Qos, pk.FixedHeader.Retain = byte(m.QoS), m.Retain
	pk.TopicName, pk.Payload = m.Topic, m.Payload
	pk.Properties.ContentType = m.ContentType
	pk.Properties.User = userProperties(m.Headers)
	if m.QoS > 0 {
		pk.PacketID = c.nextID()
	}
	if err := c.put(pk); err != nil || m.QoS == 0 {
		return err
	}
	if m.QoS == 1 {
		return c.taken(ctx, packets.Puback, pk.PacketID)
	}
	if err := c.taken(ctx, packets.Pubrec, pk.PacketID); err != nil {
		return err
	}
	release := packet(packets.Pubrel)
	release.FixedHeader.Qos, release.PacketID = 1, pk.PacketID
	if err := c.put(release); err != nil {
		return err
	}
	return c.taken(ctx, packets.Pubcomp, pk.PacketID)
}

func userProperties(headers []Header) []packets.UserProperty {
	var all []packets.UserProperty
	for _, h := range headers {
		all = append(all, packets.UserProperty{Key: h.Name, Val: h.Value})
	}
	return all
}

// nextID is never 0 ([MQTT-2.2.1-3]).
func (c *mqttConn) nextID() uint16 {
	c.lastID = c.lastID%65535 + 1
	return c.lastID
}

// taken waits for the answer of that kind to a packet.
func (c *mqttConn) taken(ctx context.Context, kind byte, id uint16) error {
	pk, err := c.await(ctx, "publish")
	switch {
	case err != nil:
		return err
	case pk.FixedHeader.Type != kind || pk.PacketID != id:
		return fmt.Errorf("the broker answers with %s of packet %d, not %s of %d",
			packets.PacketNames[pk.FixedHeader.Type], pk.PacketID, packets.PacketNames[kind], id)
	case pk.ReasonCode >= 0x80:
		return fmt.Errorf("message refused: %w", c.reason(pk.ReasonCode, pk.Properties.ReasonString, nil))
	case pk.ReasonCode == packets.CodeNoMatchingSubscribers.Code:
		c.note("no subscriber matched")
	}
	return nil
}

// Subscribe implements Conn.
func (c *mqttConn) Subscribe(ctx context.Context, i Interest, granted func(), handle Handler) error {
	pk := packet(packets.Subscribe)
	pk.FixedHeader.Qos, pk.PacketID = 1, c.nextID()
	pk.Properties.User = userProperties(i.Headers)
	for _, t := range i.Topics {
		s := packets.Subscription{Filter: t, Qos: byte(i.QoS), RetainAsPublished: c.version == 5}
		if i.NoRetained && c.version == 5 {
			s.RetainHandling = 2
		}
		pk.Filters = append(pk.Filters, s)
	}
	if err := c.put(pk); err != nil {
		return err
	}
	if err := c.granted(ctx, i); err != nil {
		return err
	}
	granted()
	for {
		pk, err := c.next(ctx)
		if err != nil {
			return err
		}
		if done, err := c.received(pk, i, handle); done || err != nil {
			return err
		}
	}
}

// granted waits for the SUBACK.
func (c *mqttConn) granted(ctx context.Context, i Interest) error {
	ack, err := c.await(ctx, "subscribe")
	if err != nil {
		return err
	}
	if ack.FixedHeader.Type != packets.Suback || len(ack.ReasonCodes) != len(i.Topics) {
		return errors.New("the broker's answer to SUBSCRIBE is not its SUBACK")
	}
	for n, code := range ack.ReasonCodes {
		if code >= 0x80 {
			return fmt.Errorf("subscription to %s refused: %w", i.Topics[n], c.reason(code, ack.Properties.ReasonString, nil))
		}
		if int(code) < i.QoS {
			c.note(fmt.Sprintf("%s was granted QoS %d", i.Topics[n], code))
		}
	}
	return nil
}

// received handles a PUBLISH and acknowledges it, or answers a PUBREL.
func (c *mqttConn) received(pk packets.Packet, i Interest, handle Handler) (done bool, err error) {
	if pk.FixedHeader.Type == packets.Pubcomp {
		delete(c.unreleased, pk.PacketID)
		return false, c.acknowledge(packets.Pubcomp, pk.PacketID)
	}
	again := pk.FixedHeader.Qos == 2 && c.unreleased[pk.PacketID]
	// MQTT 3.1.1 cannot ask for none; what is retained is marked on the way.
	old := i.NoRetained && c.version == 4 && pk.FixedHeader.Retain
	if !again && !old {
		if done, err = handle(c.toMessage(pk)); err != nil {
			return done, err
		}
	}
	switch pk.FixedHeader.Qos {
	case 1:
		err = c.acknowledge(packets.Puback, pk.PacketID)
	case 2:
		c.unreleased[pk.PacketID] = true
		err = c.acknowledge(packets.Pubrec, pk.PacketID)
	}
	return done, err
}

func (c *mqttConn) acknowledge(kind byte, id uint16) error {
	pk := packet(kind)
	pk.PacketID = id
	return c.put(pk)
}

func (c *mqttConn) toMessage(pk packets.Packet) Message {
	m := Message{
		Topic: pk.TopicName, Payload: pk.Payload, QoS: int(pk.FixedHeader.Qos), Retain: pk.FixedHeader.Retain,
		ContentType: pk.Properties.ContentType,
	}
	for _, p := range pk.Properties.User {
		m.Headers = append(m.Headers, Header{p.Key, p.Val})
	}
	return m
}

// Close implements Conn. The broker closes when it has read all that was sent
// ([MQTT-3.14.4-1] is the client's part).
func (c *mqttConn) Close() error {
	var err error
	select {
	case <-c.gone:
	default:
		err = c.put(packet(packets.Disconnect))
	}
	if last := c.drain(); last != nil && !errors.Is(last, errClosed) {
		err = last // a refusal of what had no answer of its own
	}
	_ = c.close() // the broker has closed
	return err
}
