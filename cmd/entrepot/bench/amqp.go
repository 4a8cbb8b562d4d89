package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// AMQP 0-9-1 frame types (2.3.5), and what ends each frame.
const (
	amqpMethod    = 1
	amqpHeader    = 2
	amqpBody      = 3
	amqpHeartbeat = 8
	amqpEnd       = 0xCE
	amqpHead      = 7 // type 1, channel 2, size 4
)

// amqpClass is a method by its class and its number.
type amqpClass uint32

// Methods (AMQP 0-9-1, 1).
const (
	connectionStart   amqpClass = 10<<16 | 10
	connectionStartOk amqpClass = 10<<16 | 11
	connectionTune    amqpClass = 10<<16 | 30
	connectionTuneOk  amqpClass = 10<<16 | 31
	connectionOpen    amqpClass = 10<<16 | 40
	connectionOpenOk  amqpClass = 10<<16 | 41
	connectionClose   amqpClass = 10<<16 | 50
	channelOpen       amqpClass = 20<<16 | 10
	channelOpenOk     amqpClass = 20<<16 | 11
	channelClose      amqpClass = 20<<16 | 40
	queueDeclare      amqpClass = 50<<16 | 10
	queueDeclareOk    amqpClass = 50<<16 | 11
	queueBind         amqpClass = 50<<16 | 20
	queueBindOk       amqpClass = 50<<16 | 21
	basicConsume      amqpClass = 60<<16 | 20
	basicConsumeOk    amqpClass = 60<<16 | 21
	basicPublish      amqpClass = 60<<16 | 40
	basicDeliver      amqpClass = 60<<16 | 60
	basicAck          amqpClass = 60<<16 | 80
	basicNack         amqpClass = 60<<16 | 120
	confirmSelect     amqpClass = 85<<16 | 10
	confirmSelectOk   amqpClass = 85<<16 | 11
)

// amqpFrame is the largest frame that is offered: RabbitMQ's own bound.
const amqpFrame = 131_072

// Persistent messages (4.2.6.1): the flag of delivery-mode, and its value.
const (
	amqpModeFlag       = 0x1000
	amqpModePersistent = 2
)

var (
	errAmqpFrame    = errors.New("amqp: a frame without its end")
	errAmqpDelivery = errors.New("amqp: a malformed delivery")
)

// amqp speaks AMQP 0-9-1 on one channel a connection.
type amqp struct {
	endpoint
	o *Options
}

func newAmqp(e endpoint, o *Options) *amqp { return &amqp{endpoint: e, o: o} }

// amqpSize is the length of the frame at the start of b, 0 when b does not hold
// all of it.
func amqpSize(b []byte) (int, error) {
	if len(b) < amqpHead {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(b[3:])
	if n > largestFrame {
		return 0, errLarge
	}
	size := amqpHead + int(n) + 1
	if size > len(b) {
		return 0, nil
	}
	if b[size-1] != amqpEnd {
		return 0, errAmqpFrame
	}
	return size, nil
}

// amqpOpen begins a frame and amqpSeal ends it.
func amqpOpen(to []byte, kind byte, channel uint16) []byte {
	return append(binary.BigEndian.AppendUint16(append(to, kind), channel), 0, 0, 0, 0)
}

func amqpSeal(b []byte, from int) []byte {
	binary.BigEndian.PutUint32(b[from+3:], uint32(len(b)-from-amqpHead))
	return append(b, amqpEnd)
}

// call appends a method frame with its arguments, encoded.
func (m amqpClass) call(to []byte, channel uint16, args ...any) []byte {
	from := len(to)
	to = binary.BigEndian.AppendUint32(amqpOpen(to, amqpMethod, channel), uint32(m))
	for _, a := range args {
		switch a := a.(type) {
		case byte:
			to = append(to, a)
		case uint16:
			to = binary.BigEndian.AppendUint16(to, a)
		case uint32:
			to = binary.BigEndian.AppendUint32(to, a)
		case uint64:
			to = binary.BigEndian.AppendUint64(to, a)
		case string: // a short one
			to = append(append(to, byte(len(a))), a...)
		case []byte: // a long string or a table
			to = append(binary.BigEndian.AppendUint32(to, uint32(len(a))), a...)
		}
	}
	return amqpSeal(to, from)
}

// await waits for a method, and returns its arguments. Deliveries that come
// before go to take.
func (a *amqp) await(l *link, want amqpClass, take scanner) ([]byte, error) {
	for {
		whole, err := l.next(func(b []byte) (int, error) {
			if take != nil {
				n, err := take(b)
				if n > 0 || err != nil {
					return n, err
				}
			}
			return amqpSize(b)
		})
		if err != nil {
			return nil, fmt.Errorf("amqp: %w", err)
		}
		got, args := amqpMethodOf(whole)
		switch got {
		case want:
			return args, nil
		case 0, basicDeliver: // taken
		default:
			return nil, amqpUnexpected(got, args)
		}
		if err := l.flush(); err != nil {
			return nil, err
		}
	}
}

// amqpMethodOf takes a method frame apart; 0 for others.
func amqpMethodOf(b []byte) (amqpClass, []byte) {
	if len(b) < amqpHead+5 || b[0] != amqpMethod {
		return 0, nil
	}
	return amqpClass(binary.BigEndian.Uint32(b[amqpHead:])), b[amqpHead+4 : len(b)-1]
}

// amqpUnexpected is the error that a method stands for that closes something,
// or that was not expected.
func amqpUnexpected(m amqpClass, args []byte) error {
	if (m == connectionClose || m == channelClose) && len(args) >= 3 {
		text := args[3:min(len(args), 3+int(args[2]))]
		return fmt.Errorf("amqp: closed by the broker: %d %s", binary.BigEndian.Uint16(args), text)
	}
	return fmt.Errorf("amqp: unexpected method %d.%d", m>>16, m&0xFFFF)
}

// ask sends a method on the channel and waits for its answer.
func (a *amqp) ask(l *link, request []byte, answer amqpClass) ([]byte, error) {
	if _, err := l.conn.Write(request); err != nil {
		return nil, closedAs(err)
	}
	return a.await(l, answer, nil)
}

func (a *amqp) greet(l *link, _ string) error {
	user, password := "guest", "guest"
	if a.login {
		user, password = a.user, a.password
	}
	if _, err := a.ask(l, []byte("AMQP\x00\x00\x09\x01"), connectionStart); err != nil {
		return err
	}
	plain := []byte("\x00" + user + "\x00" + password)
	args, err := a.ask(l, connectionStartOk.call(nil, 0, []byte(nil), "PLAIN", plain, "en_US"), connectionTune)
	if err != nil {
		return err
	}
	if len(args) < 8 {
		return errors.New("amqp: a malformed Tune")
	}
	frame := binary.BigEndian.Uint32(args[2:])
	if frame == 0 || frame > amqpFrame {
		frame = amqpFrame
	}
	if part := min(a.o.Size, amqpFrame-amqpHead-1); int(frame) < part+amqpHead+1 {
		return fmt.Errorf("amqp: the broker's frames are of %d bytes, too small for parts of %d", frame, part)
	}
	request := connectionTuneOk.call(nil, 0, binary.BigEndian.Uint16(args), frame, uint16(0)) // no heartbeat
	if _, err := a.ask(l, connectionOpen.call(request, 0, a.vhost, "", byte(0)), connectionOpenOk); err != nil {
		return err
	}
	if _, err := a.ask(l, channelOpen.call(nil, 1, ""), channelOpenOk); err != nil {
		return err
	}
	if a.o.Receipts {
		if _, err := a.ask(l, confirmSelect.call(nil, 1, byte(0)), confirmSelectOk); err != nil {
			return err
		}
	}
	l.farewell = connectionClose.call(nil, 0, uint16(200), "", uint16(0), uint16(0))
	return nil
}

// address is where a publisher sends for a name: exchange and routing key.
func (a *amqp) address(name string) (exchange, key string) {
	key = strings.ReplaceAll(name, "/", ".")
	if destinations[a.o.Destination].queue {
		return "", key
	}
	return "amq.topic", key
}

const (
	amqpDurable    = 2
	amqpPassive    = 1
	amqpExclusive  = 4
	amqpAutoDelete = 8
	amqpNoAck      = 2
)

// subscribe consumes from a durable queue of the name, or from one of its own
// that is bound to the topic exchange.
func (a *amqp) subscribe(s *subscriber, name string) error {
	exchange, key := a.address(name)
	queue, flags := key, byte(amqpDurable)
	switch {
	case exchange != "":
		queue, flags = "", amqpExclusive|amqpAutoDelete
	case a.o.Destination == "amq-queue":
		flags = amqpPassive
	}
	args, err := a.ask(s.link, queueDeclare.call(nil, 1, uint16(0), queue, flags, []byte(nil)), queueDeclareOk)
	if err != nil {
		return err
	}
	if len(args) < 1 || len(args) < 1+int(args[0]) {
		return errors.New("amqp: a malformed DeclareOk")
	}
	queue = string(args[1 : 1+args[0]])
	if exchange != "" {
		bind := queueBind.call(nil, 1, uint16(0), queue, exchange, key, byte(0), []byte(nil))
		if _, err := a.ask(s.link, bind, queueBindOk); err != nil {
			return err
		}
	}
	var consume byte
	if a.o.Ack == "auto" {
		consume = amqpNoAck
	}
	if _, err := s.link.conn.Write(basicConsume.call(nil, 1, uint16(0), queue, "", consume, []byte(nil))); err != nil {
		return closedAs(err)
	}
	_, err = a.await(s.link, basicConsumeOk, a.deliveries(s))
	return err
}

// frame is Publish, header and as many bodies as the payload needs.
func (a *amqp) frame(name string, size int) frame {
	exchange, key := a.address(name)
	b := basicPublish.call(nil, 1, uint16(0), exchange, key, byte(0))
	from := len(b)
	b = append(amqpOpen(b, amqpHeader, 1), 0, 60, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(size))
	if a.o.Persistent {
		b = append(binary.BigEndian.AppendUint16(b, amqpModeFlag), amqpModePersistent)
	} else {
		b = append(b, 0, 0)
	}
	b = amqpSeal(b, from)
	f := frame{payload: len(b) + amqpHead, counted: a.o.Receipts}
	for payload := fill(nil, size); len(payload) > 0; {
		part := min(len(payload), amqpFrame-amqpHead-1)
		from = len(b)
		b = amqpSeal(append(amqpOpen(b, amqpBody, 1), payload[:part]...), from)
		payload = payload[part:]
	}
	f.bytes = b
	return f
}

// amqpDelivery is the parts of one delivery that count.
type amqpDelivery struct {
	tag  uint64
	body []byte // the first part of it
}

// amqpDelivered reads the delivery at the start of b, which is a Deliver, and
// returns its length, 0 when b does not hold all of it.
func amqpDelivered(b []byte, at int) (d amqpDelivery, size int, err error) {
	_, args := amqpMethodOf(b[:at])
	if len(args) < 9+int(args[0]) {
		return d, 0, errAmqpDelivery
	}
	d.tag = binary.BigEndian.Uint64(args[1+args[0]:])
	n, err := amqpSize(b[at:])
	if n == 0 || err != nil {
		return d, 0, err
	}
	if b[at] != amqpHeader || n < amqpHead+12+1 {
		return d, 0, errAmqpDelivery
	}
	left := binary.BigEndian.Uint64(b[at+amqpHead+4:])
	for at += n; left > 0; at += n {
		if n, err = amqpSize(b[at:]); n == 0 || err != nil {
			return d, 0, err
		}
		part := b[at+amqpHead : at+n-1]
		if b[at] != amqpBody || len(part) == 0 || uint64(len(part)) > left {
			return d, 0, errAmqpDelivery
		}
		if d.body == nil {
			d.body = part
		}
		left -= uint64(len(part))
	}
	return d, at, nil
}

// deliveries counts messages into s and acknowledges them. In the client mode,
// which is cumulative, the last of each read stands for all.
func (a *amqp) deliveries(s *subscriber) scanner {
	each, cumulative := a.o.Ack == "client-individual", a.o.Ack == "client"
	return func(b []byte) (int, error) {
		var last uint64
		at := 0
		for {
			d, size, err := amqpNext(b[at:])
			if size == 0 || err != nil {
				if last > 0 {
					s.link.out = amqpAcknowledge(s.link.out, last, 1)
				}
				s.settle()
				return at, err
			}
			at += size
			if d.tag == 0 {
				continue
			}
			s.take(d.body)
			if each {
				s.link.out = amqpAcknowledge(s.link.out, d.tag, 0)
			} else if cumulative {
				last = d.tag
			}
		}
	}
}

// amqpNext reads what a consumer is sent: a delivery, or a frame that says
// nothing, with the tag 0.
func amqpNext(b []byte) (d amqpDelivery, size int, err error) {
	size, err = amqpSize(b)
	if size == 0 || err != nil || b[0] == amqpHeartbeat {
		return d, size, err
	}
	m, args := amqpMethodOf(b[:size])
	switch m {
	case basicDeliver:
		return amqpDelivered(b, size)
	case basicConsumeOk:
		return d, 0, nil // for who waits for it
	}
	return d, 0, amqpUnexpected(m, args)
}

// amqpAcknowledge appends Ack. It is written out, as it is there for each
// message.
func amqpAcknowledge(to []byte, tag uint64, multiple byte) []byte {
	to = append(to, amqpMethod, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80)
	return append(binary.BigEndian.AppendUint64(to, tag), multiple, amqpEnd)
}

// confirmed is which of a publisher's messages, numbered from 1, the broker has
// confirmed.
type confirmed struct {
	upTo  uint64          // all of these
	above map[uint64]bool // and some behind
}

// take books one confirmation, of one message or of all up to it.
func (c *confirmed) take(tag uint64, multiple bool) {
	switch {
	case multiple && tag > c.upTo:
		for n := range c.above {
			if n <= tag {
				delete(c.above, n)
			}
		}
		c.upTo = tag
	case tag == c.upTo+1:
		c.upTo = tag
	case tag > c.upTo:
		c.above[tag] = true
	}
	for len(c.above) > 0 && c.above[c.upTo+1] {
		c.upTo++
		delete(c.above, c.upTo)
	}
}

func (c *confirmed) count() uint64 { return c.upTo + uint64(len(c.above)) }

// answers counts confirmations.
func (a *amqp) answers(_ *link, to *answers) scanner {
	c := confirmed{above: map[uint64]bool{}}
	return func(b []byte) (int, error) {
		at := 0
		for {
			size, err := amqpSize(b[at:])
			if size == 0 || err != nil {
				to.settle()
				return at, err
			}
			if b[at] != amqpHeartbeat {
				m, args := amqpMethodOf(b[at : at+size])
				if (m != basicAck && m != basicNack) || len(args) < 9 {
					return at, amqpUnexpected(m, args)
				}
				before := c.count()
				c.take(binary.BigEndian.Uint64(args), args[8]&1 != 0)
				to.acked = c.count()
				if m == basicNack {
					to.refused += to.acked - before
				}
			}
			at += size
		}
	}
}
