package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
)

const (
	flood     = 60_000 // messages
	floodBody = 1 << 10
	window    = 2_000    // how far the publisher runs ahead of the fast subscriber
	waiting   = 5_000    // messages that may wait for a slow subscriber
	slowHeap  = 24 << 20 // what two of them may cost, of the flood's 60 MB each
)

// TestSlowSubscribers: one MQTT and one STOMP subscriber that do not read,
// beside a fast one, while a publisher sends as fast as the fast one reads.
// The fast one gets everything, in order and in time; the slow ones cost a
// bounded amount of memory; and what they miss is counted to the last message.
// It shows fault 85.
func TestSlowSubscribers(t *testing.T) {
	alone := runFlood(t, false)
	beside := runFlood(t, true)
	t.Logf("fast subscriber alone %v, beside slow ones %v", alone, beside)
	if beside > 6*alone+time.Second {
		t.Errorf("the fast subscriber took %v beside slow ones, %v alone", beside, alone)
	}
}

func runFlood(t *testing.T, withSlow bool) time.Duration {
	set := settings{mqtt: mqtt.DefaultConfig(), stomp: stomp.DefaultConfig()}
	set.mqtt.QueueLength, set.stomp.SubscriptionLength = waiting, waiting
	b := newBroker(set)
	defer b.stop(t)
	mqttAddr, stompAddr := b.listen(t)
	c := &crowd{t: t, mqttAddr: mqttAddr, stompAddr: stompAddr}
	var slow []*slowSubscriber
	if withSlow {
		slow = []*slowSubscriber{c.slowMQTT("slow"), c.slowSTOMP()}
	}
	fast := c.subscribeMQTT("fast", 4)
	defer fast.conn.Close()
	before := heapBytes()
	begin := time.Now()
	seen := &atomic.Int64{}
	end := make(chan error, 1)
	go func() { end <- readInOrder(fast, seen) }()
	c.flood(seen)
	if err := <-end; err != nil {
		t.Fatalf("fast subscriber: %v", err)
	}
	took := time.Since(begin)
	if grown := heapBytes() - before; grown > slowHeap {
		t.Errorf("heap grew by %d MiB, bound %d MiB", grown>>20, slowHeap>>20)
	} else if withSlow {
		t.Logf("heap grew by %d KiB for two slow subscribers", grown>>10)
	}
	for _, s := range slow {
		s.catchUp(t, b)
	}
	return took
}

// link is a connection with its reader.
type link struct {
	conn net.Conn
	in   *bufio.Reader
}

func (c *crowd) subscribeMQTT(id string, version byte) link {
	m := &mqttClient{inbox: &inbox{}, version: version, conn: c.dial(c.mqttAddr)}
	r := bufio.NewReaderSize(m.conn, 64<<10)
	c.must(m.send(&packet{kind: connect, connect: &connectFields{clientID: id, clean: true}}))
	c.mustPacket(connack, version, r)
	c.must(m.send(&packet{kind: subscribe, id: 1, filters: []filterOption{{"flood", 0}}}))
	c.mustPacket(suback, version, r)
	return link{m.conn, r}
}

// flood publishes numbered messages at QoS 0, at most a window ahead of the
// fast subscriber.
func (c *crowd) flood(seen *atomic.Int64) {
	m := &mqttClient{inbox: &inbox{}, version: 4, conn: c.dial(c.mqttAddr)}
	defer m.conn.Close()
	c.must(m.send(&packet{kind: connect, connect: &connectFields{clientID: "publisher", clean: true}}))
	r := bufio.NewReader(m.conn)
	c.mustPacket(connack, 4, r)
	out := bufio.NewWriterSize(m.conn, 32<<10)
	body := make([]byte, floodBody)
	for n := range int64(flood) {
		if n-seen.Load() > window {
			c.must(out.Flush())
			if !eventually(20*time.Second, func() bool { return n-seen.Load() < window/2 }) {
				c.t.Errorf("the fast subscriber stands still at %d of %d", seen.Load(), n)
				return
			}
		}
		binary.BigEndian.PutUint64(body, uint64(n))
		p := &packet{version: 4, kind: publish, topic: "flood", payload: body}
		if _, err := out.Write(p.encode()); err != nil {
			c.t.Error(err)
			return
		}
	}
	c.must(out.Flush())
	// The answer to a ping: everything before it was taken.
	c.must(m.send(&packet{kind: pingreq}))
	c.mustPacket(pingresp, 4, r)
}

// readInOrder reads the whole flood and fails on the first gap.
func readInOrder(l link, seen *atomic.Int64) error {
	for want := range int64(flood) {
		if err := l.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return err
		}
		p, err := readPacket(4, l.in)
		if err != nil {
			return fmt.Errorf("after %d messages: %w", want, err)
		}
		if got := binary.BigEndian.Uint64(p.payload); int64(got) != want {
			return fmt.Errorf("message %d came, %d was next", got, want)
		}
		seen.Store(want + 1)
	}
	return nil
}

// slowSubscriber reads nothing until it catches up.
type slowSubscriber struct {
	link
	protocol string
	next     func() (payload []byte, err error)
}

func (c *crowd) slowMQTT(id string) *slowSubscriber {
	l := c.subscribeMQTT(id, 5)
	return &slowSubscriber{l, "mqtt", func() ([]byte, error) {
		p, err := readPacket(5, l.in)
		if err != nil {
			return nil, err
		}
		return p.payload, nil
	}}
}

func (c *crowd) slowSTOMP() *slowSubscriber {
	s := &stompClient{inbox: &inbox{}, version: "1.2", conn: c.dial(c.stompAddr)}
	r := bufio.NewReader(s.conn)
	c.must(s.send(&frame{command: "CONNECT", headers: [][2]string{{"accept-version", "1.2"}, {"host", "/"}}}))
	c.mustFrame("CONNECTED", r)
	c.must(s.send(&frame{command: "SUBSCRIBE", headers: [][2]string{{"id", "1"}, {"destination", "/topic/flood"}, {"receipt", "r"}}}))
	c.mustFrame("RECEIPT", r)
	return &slowSubscriber{link{s.conn, r}, "stomp", func() ([]byte, error) {
		f, err := readFrame("1.2", r)
		if err != nil {
			return nil, err
		}
		return f.body, nil
	}}
}

// catchUp reads what the broker kept, up to the last message of the flood:
// in order, and with what was dropped it is all there was.
func (s *slowSubscriber) catchUp(t *testing.T, b *broker) {
	t.Helper()
	defer s.conn.Close()
	got, last := uint64(0), int64(-1)
	for last < flood-1 {
		if err := s.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		body, err := s.next()
		if err != nil {
			t.Errorf("slow %s: after %d messages, the last %d: %v", s.protocol, got, last, err)
			return
		}
		n := int64(binary.BigEndian.Uint64(body))
		if n <= last {
			t.Errorf("slow %s: message %d came after %d", s.protocol, n, last)
			return
		}
		got, last = got+1, n
	}
	dropped := b.core.Stats().Protocols[s.protocol].Dropped["overflow"]
	t.Logf("slow %s: got %d, dropped %d", s.protocol, got, dropped)
	if dropped == 0 || got+dropped != flood {
		t.Errorf("slow %s: got %d and %d counted as dropped, of %d", s.protocol, got, dropped, flood)
	}
}
