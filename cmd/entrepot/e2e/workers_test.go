package e2e

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	orders      = 20_000
	workers     = 9
	beforeLeave = 300 // messages that a worker does before it is lost
)

// TestWorkersComeAndGo: orders are published at full rate to a queue that
// workers of every protocol share; each worker is lost after a while, with
// messages that it has not acknowledged, and another one comes. Every order is
// done, and done again only where the worker that had it was lost.
// It shows fault 76.
func TestWorkersComeAndGo(t *testing.T) {
	b := startBroker(t)
	defer b.stop(t)
	mqttAddr, stompAddr := b.listen(t)
	c := &crowd{t: t, mqttAddr: mqttAddr, stompAddr: stompAddr}
	shop := &shop{crowd: c, doneBy: make([][]*life, orders), over: make(chan struct{})}
	var all sync.WaitGroup
	for i := range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := i; !shop.closed(); n += workers {
				shop.work(n)
			}
		}()
	}
	c.publishOrders()
	if !eventually(60*time.Second, func() bool { return shop.done.Load() == orders }) {
		t.Errorf("%d of %d orders are done; %+v", shop.done.Load(), orders, b.core.Stats().Engine)
	}
	close(shop.over)
	all.Wait()
	again := 0
	for n, lives := range shop.doneBy {
		for _, l := range lives[:max(0, len(lives)-1)] {
			if again++; !l.lost.Load() {
				t.Fatalf("order %d was done again though its worker was not lost", n)
			}
		}
	}
	t.Logf("%d workers came, %d orders were done again", shop.lives.Load(), again)
}

// shop is what the workers of one test share.
type shop struct {
	*crowd
	over  chan struct{} // closed when all is done
	done  atomic.Int64  // orders done at least once
	lives atomic.Int64

	mu     sync.Mutex
	doneBy [][]*life // by order: who acknowledged it, in turn
}

// life is one worker from its connect to its loss.
type life struct {
	conn net.Conn
	lost atomic.Bool
	left int // how many more it does
}

func (s *shop) closed() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// settle notes that a worker acknowledges an order; false when it is to be
// lost before it does.
func (s *shop) settle(l *life, body string) bool {
	n, err := strconv.Atoi(body)
	if err != nil || n < 0 || n >= orders {
		s.t.Errorf("order %q", body)
		return false
	}
	if l.left--; l.left < 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doneBy[n] = append(s.doneBy[n], l); len(s.doneBy[n]) == 1 {
		s.done.Add(1)
	}
	return true
}

// work is one life of the worker in a place; its number chooses the protocol
// and how long it lives.
func (s *shop) work(n int) {
	l := &life{left: beforeLeave + n%7*100}
	s.lives.Add(1)
	ended := make(chan struct{})
	if n%3 == 0 {
		l.conn = s.dial(s.stompAddr)
	} else {
		l.conn = s.dial(s.mqttAddr)
	}
	go func() {
		defer close(ended)
		if n%3 == 0 {
			s.workSTOMP(l)
		} else {
			s.workMQTT(l, n, byte(3+n%3))
		}
		// Marked before the broker can know, and give its orders to others.
		l.lost.Store(true)
		closePipe(l.conn)
	}()
	select {
	case <-ended:
	case <-s.over:
		closePipe(l.conn)
		<-ended
	}
}

func (s *shop) workMQTT(l *life, n int, version byte) {
	m := &mqttClient{inbox: &inbox{}, version: version, conn: l.conn}
	r := bufio.NewReader(l.conn)
	if m.send(&packet{kind: connect, connect: &connectFields{clientID: fmt.Sprintf("w%d", n), clean: true}}) != nil ||
		m.send(&packet{kind: subscribe, id: 1, filters: []filterOption{{"$queue/orders", 1}}}) != nil {
		return // all is over
	}
	for {
		p, err := readPacket(version, r)
		if err != nil {
			return
		}
		if p.kind == publish && (!s.settle(l, string(p.payload)) || m.send(&packet{kind: puback, id: p.id}) != nil) {
			return
		}
	}
}

func (s *shop) workSTOMP(l *life) {
	c := &stompClient{inbox: &inbox{}, version: "1.2", conn: l.conn}
	r := bufio.NewReader(l.conn)
	if c.send(&frame{command: "CONNECT", headers: [][2]string{{"accept-version", "1.2"}, {"host", "/"}}}) != nil ||
		c.send(&frame{command: "SUBSCRIBE", headers: [][2]string{
			{"id", "1"}, {"destination", "/queue/orders"}, {"ack", "client-individual"}}}) != nil {
		return // all is over
	}
	for {
		f, err := readFrame("1.2", r)
		if err != nil {
			return
		}
		if f.command != "MESSAGE" {
			continue
		}
		ack := &frame{command: "ACK", headers: [][2]string{{"id", f.get("ack")}}}
		if !s.settle(l, string(f.body)) || c.send(ack) != nil {
			return
		}
	}
}

// publishOrders publishes all orders at QoS 1 and waits for every PUBACK.
func (c *crowd) publishOrders() {
	m := &mqttClient{inbox: &inbox{}, version: 4, conn: c.dial(c.mqttAddr)}
	defer closePipe(m.conn)
	r := bufio.NewReader(m.conn)
	c.must(m.send(&packet{kind: connect, connect: &connectFields{clientID: "shop", clean: true}}))
	c.mustPacket(connack, 4, r)
	const ahead = 200
	c.must(m.conn.SetDeadline(time.Now().Add(60 * time.Second)))
	for n := range orders + ahead {
		if n >= ahead {
			c.mustPacket(puback, 4, r)
		}
		if n < orders {
			c.must(m.send(&packet{kind: publish, flags: 2, id: uint16(n%60_000 + 1), topic: "$queue/orders",
				payload: []byte(strconv.Itoa(n))}))
		}
	}
}
