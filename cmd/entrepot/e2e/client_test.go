package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
	"slices"
	"strings"
)

// shown is a value as scripts show it: quoted when a reader could mistake it.
func shown(s string) string {
	plain := s != ""
	for _, r := range s {
		if r <= ' ' || r == '"' || r == '=' || r >= 0x7f {
			plain = false
		}
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// event is one thing that a client got from the broker.
type event struct {
	packet *packet
	frame  *frame
	wamp   *wampEvent
	// delivery is of AMQP.
	delivery *amqp.Delivery
	number   int // counts what carries a message, from 1; else 0
	end      string
}

// String is the event as scripts show it.
func (e event) String() string {
	number := ""
	if e.number > 0 {
		number = fmt.Sprintf("#%d ", e.number)
	}
	switch {
	case e.packet != nil:
		return number + e.packet.String()
	case e.frame != nil:
		return number + e.frame.String()
	case e.delivery != nil:
		return number + shownDelivery(e.delivery)
	case e.wamp != nil:
		return number + e.wamp.text
	}
	return e.end
}

// inbox is what a client got and nobody has looked at yet.
type inbox struct {
	mu       sync.Mutex
	fresh    []event
	messages []event // every one that carried a message, by number
}

func (b *inbox) add(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.packet != nil && e.packet.kind == publish || e.frame != nil && e.frame.command == "MESSAGE" || e.delivery != nil ||
		e.wamp != nil && e.wamp.carries {
		e.number = len(b.messages) + 1
		b.messages = append(b.messages, e)
	}
	b.fresh = append(b.fresh, e)
}

// take empties the inbox. An AMQP client learns of returned messages, of
// deliveries and of its channel's end by different ways, so returns are put
// first, and the end of the channel behind that of the connection.
func (b *inbox) take() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := b.fresh
	b.fresh = nil
	slices.SortStableFunc(fresh, func(x, y event) int { return x.rank() - y.rank() })
	return fresh
}

func (e event) rank() int {
	switch {
	case strings.HasPrefix(e.end, "RETURN "):
		return 0
	case strings.HasPrefix(e.end, "CHANNEL CLOSED 320 "): // what ends connections
		return 2
	}
	return 1
}

// message is the message of a number.
func (b *inbox) message(n int) (event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < 1 || n > len(b.messages) {
		return event{}, fmt.Errorf("message #%d has not come", n)
	}
	return b.messages[n-1], nil
}

// mqttClient is a client that does what it is told and acknowledges at once
// unless it is told not to.
type mqttClient struct {
	*inbox
	version byte
	manual  bool
	conn    net.Conn
	lastID  uint16
}

// send writes a packet.
func (c *mqttClient) send(p *packet) error { return c.sendOn(c.conn, p) }

func (c *mqttClient) sendOn(conn net.Conn, p *packet) error {
	p.version = c.version
	_, err := conn.Write(p.encode())
	return err
}

// nextID is a packet id that is not in use, as long as there are few.
func (c *mqttClient) nextID() uint16 {
	c.lastID++
	return c.lastID
}

// listen reads until the connection, which may be an older one of the client,
// ends.
func (c *mqttClient) listen(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		p, err := readPacket(c.version, r)
		if err != nil {
			c.add(event{end: ending(err)})
			return
		}
		c.add(event{packet: p})
		if !c.manual {
			c.acknowledge(conn, p)
		}
	}
}

// acknowledge answers as the QoS asks. A failed write shows as the end of
// reading.
func (c *mqttClient) acknowledge(conn net.Conn, p *packet) {
	switch {
	case p.kind == publish && p.qos() == 1:
		_ = c.sendOn(conn, &packet{kind: puback, id: p.id})
	case p.kind == publish && p.qos() == 2:
		_ = c.sendOn(conn, &packet{kind: pubrec, id: p.id})
	case p.kind == pubrec:
		_ = c.sendOn(conn, &packet{kind: pubrel, id: p.id})
	case p.kind == pubrel:
		_ = c.sendOn(conn, &packet{kind: pubcomp, id: p.id})
	}
}

// stompClient is a client that does what it is told.
type stompClient struct {
	*inbox
	version string
	conn    net.Conn
}

// send writes a frame.
func (c *stompClient) send(f *frame) error {
	_, err := c.conn.Write(f.encode(c.version))
	return err
}

// listen reads until the connection, which may be an older one of the client,
// ends.
func (c *stompClient) listen(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		f, err := readFrame(c.version, r)
		if err != nil {
			c.add(event{end: ending(err)})
			return
		}
		c.add(event{frame: f})
	}
}

// ending tells a closed connection from bytes that make no sense.
func ending(err error) string {
	if err == io.EOF || err == io.ErrClosedPipe {
		return "closed"
	}
	return "broken: " + err.Error()
}
