package e2e

import (
	"bufio"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// ahead is how many unconfirmed messages a publisher may have.
const ahead = 50

// outgoing is one message of a publisher that is not confirmed, or whose
// exchange is not over.
type outgoing struct {
	id       uint16
	n        int
	received bool // PUBREC came
}

// mqttSender publishes at QoS 1, or at QoS 2 with a session that outlives it.
type mqttSender struct {
	flow  *flow
	topic string
	qos   byte

	mu      sync.Mutex
	waiting []outgoing // in the order they were sent
	lastID  uint16
}

func (s *mqttSender) protocol() string { return "mqtt" }

func (s *mqttSender) run(k *siege, c net.Conn) {
	m := &mqttClient{version: 4, conn: c}
	r := bufio.NewReader(c)
	if m.send(&packet{kind: connect, connect: &connectFields{clientID: "sender-" + s.topic[len(s.topic)-1:] + s.topic[:1], clean: s.qos == 1}}) != nil {
		return
	}
	p, err := readPacket(4, r)
	if err != nil || p.kind != connack {
		return
	}
	room := make(chan struct{}, ahead)
	if !s.resume(m, p.session, room) {
		return
	}
	gone := make(chan struct{})
	if k.fresh {
		k.all.Go(func() { s.send(m, room, gone) })
	}
	defer close(gone)
	for {
		p, err := readPacket(4, r)
		if err != nil {
			return
		}
		if s.answer(m, p) {
			<-room
		}
	}
}

// resume sends again what the broker should still know of ([MQTT-4.4.0-1]).
// What a broker without the session does not know is given up.
func (s *mqttSender) resume(m *mqttClient, session bool, room chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !session {
		s.waiting = nil
	}
	for _, o := range s.waiting {
		room <- struct{}{}
		p := s.packet(o)
		p.flags |= 8
		if o.received {
			p = &packet{kind: pubrel, id: o.id}
		}
		if m.send(p) != nil {
			return false
		}
	}
	return true
}

func (s *mqttSender) packet(o outgoing) *packet {
	return &packet{kind: publish, flags: s.qos << 1, id: o.id, topic: s.topic, payload: []byte(strconv.Itoa(o.n))}
}

// send publishes as fast as it is let.
func (s *mqttSender) send(m *mqttClient, room, gone chan struct{}) {
	for {
		select {
		case room <- struct{}{}:
		case <-gone:
			return
		}
		s.mu.Lock()
		s.lastID = s.lastID%60_000 + 1
		o := outgoing{id: s.lastID, n: s.flow.next()}
		s.waiting = append(s.waiting, o)
		s.mu.Unlock()
		if m.send(s.packet(o)) != nil {
			return
		}
	}
}

// answer tells whether a packet ends the exchange of a message.
func (s *mqttSender) answer(m *mqttClient, p *packet) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.waiting {
		o := &s.waiting[i]
		if o.id != p.id {
			continue
		}
		if p.kind == pubrec {
			o.received = true
			s.flow.confirm(o.n)
			_ = m.send(&packet{kind: pubrel, id: o.id}) // a failed write shows when reading
			return false
		}
		if s.qos == 1 {
			s.flow.confirm(o.n)
		}
		s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
		return true
	}
	s.flow.t.Errorf("%s: an answer to nothing: %v", s.flow.name, p)
	return false
}

// stompSender sends persistent messages and asks for a receipt for each.
type stompSender struct {
	flow  *flow
	queue string
}

func (s *stompSender) protocol() string { return "stomp" }

func (s *stompSender) run(k *siege, conn net.Conn) {
	c, r := openSTOMP(conn)
	if c == nil || !k.fresh {
		return
	}
	room, gone := make(chan struct{}, ahead), make(chan struct{})
	defer close(gone)
	k.all.Go(func() {
		for {
			select {
			case room <- struct{}{}:
			case <-gone:
				return
			}
			n := strconv.Itoa(s.flow.next())
			if c.send(&frame{command: "SEND", body: []byte(n), headers: [][2]string{
				{"destination", "/queue/" + s.queue}, {"persistent", "true"}, {"receipt", n}}}) != nil {
				return
			}
		}
	})
	for {
		f, err := readFrame("1.2", r)
		if err != nil {
			return
		}
		n, err := strconv.Atoi(f.get("receipt-id"))
		if f.command != "RECEIPT" || err != nil {
			s.flow.t.Errorf("%s: %v", s.flow.name, f)
			return
		}
		s.flow.confirm(n)
		<-room
	}
}

// openSTOMP connects; nil when the broker is gone.
func openSTOMP(conn net.Conn) (*stompClient, *bufio.Reader) {
	c, r := &stompClient{version: "1.2", conn: conn}, bufio.NewReader(conn)
	if c.send(&frame{command: "CONNECT", headers: [][2]string{{"accept-version", "1.2"}, {"host", "/"}}}) != nil {
		return nil, nil
	}
	if f, err := readFrame("1.2", r); err != nil || f.command != "CONNECTED" {
		return nil, nil
	}
	return c, r
}

// stompWorker acknowledges each message of a queue and asks for a receipt.
type stompWorker struct {
	flow  *flow
	queue string
}

func (s *stompWorker) protocol() string { return "stomp" }

func (s *stompWorker) run(_ *siege, conn net.Conn) {
	c, r := openSTOMP(conn)
	if c == nil || c.send(&frame{command: "SUBSCRIBE", headers: [][2]string{
		{"id", "1"}, {"destination", "/queue/" + s.queue}, {"ack", "client-individual"}}}) != nil {
		return
	}
	for {
		f, err := readFrame("1.2", r)
		if err != nil {
			return
		}
		number := string(f.body)
		if f.command == "RECEIPT" {
			number = f.get("receipt-id")
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			s.flow.t.Errorf("%s: %v", s.flow.name, f)
			return
		}
		if f.command == "RECEIPT" {
			s.flow.settle(n)
			continue
		}
		s.flow.take(n)
		if c.send(&frame{command: "ACK", headers: [][2]string{{"id", f.get("ack")}, {"receipt", number}}}) != nil {
			return
		}
	}
}

// sessionTaker has a session that outlives its connections, with what is on
// its way at QoS 2.
type sessionTaker struct {
	flows map[string]*flow // by topic

	known atomic.Bool    // to the broker
	open  map[uint16]int // received and not released, by packet id
}

func (s *sessionTaker) protocol() string { return "mqtt" }

func (s *sessionTaker) run(k *siege, c net.Conn) {
	m := &mqttClient{version: 4, conn: c}
	r := bufio.NewReader(c)
	if m.send(&packet{kind: connect, connect: &connectFields{clientID: "taker"}}) != nil {
		return
	}
	p, err := readPacket(4, r)
	if err != nil || p.kind != connack {
		return
	}
	if known := s.known.Load(); p.session != known {
		k.t.Errorf("session present %t, want %t", p.session, known)
		return
	}
	if !p.session {
		s.open = map[uint16]int{}
		if m.send(&packet{kind: subscribe, id: 1, filters: []filterOption{{"kill/+", 2}}}) != nil {
			return
		}
	}
	for {
		p, err := readPacket(4, r)
		if err != nil {
			return
		}
		switch p.kind {
		case suback:
			s.known.Store(true) // it was synced
		case publish:
			s.take(k, m, p)
		case pubrel:
			// That the message was released is on disk: it may not return.
			if n, ok := s.open[p.id]; ok {
				s.flows["kill/2"].settle(n)
				delete(s.open, p.id)
			}
			_ = m.send(&packet{kind: pubcomp, id: p.id}) // a failed write shows when reading
		}
	}
}

func (s *sessionTaker) take(k *siege, m *mqttClient, p *packet) {
	n, err := strconv.Atoi(string(p.payload))
	f := s.flows[p.topic]
	if err != nil || f == nil {
		k.t.Errorf("taker got %v", p)
		return
	}
	if p.qos() == 1 {
		f.take(n)
		_ = m.send(&packet{kind: puback, id: p.id})
		return
	}
	before, again := s.open[p.id]
	switch {
	case !again:
		f.take(n)
		s.open[p.id] = n
	case before != n:
		k.t.Errorf("packet id %d is %d, was %d and not released", p.id, n, before)
	}
	_ = m.send(&packet{kind: pubrec, id: p.id})
}
