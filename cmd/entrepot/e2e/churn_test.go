package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"entrepot/core"
)

const (
	clients = 1000
	// pooled is how many goroutines the front-ends may keep for use again.
	pooled = 128
	// grows is what the heap may grow by, in bytes, for 1,000 clients that are
	// gone: round after round it goes up and down by some 300 KiB.
	grows = 640 << 10
	// rounds is how often it may grow by more: what is made once is no leak, one
	// that grows with the clients grows in each.
	rounds = 3
)

// TestThousandClientsVanish: clients of all protocols connect, subscribe,
// publish and are gone, most without a word and with messages unacknowledged;
// then the broker is as it was: no connection, session, queue, binding,
// consumer, message, goroutine, and no memory that grows with them.
// It shows faults 26 and 89.
func TestThousandClientsVanish(t *testing.T) {
	atFirst := runtime.NumGoroutine()
	b := startBroker(t)
	mqttAddr, stompAddr := b.listen(t)
	c := &crowd{t: t, mqttAddr: mqttAddr, stompAddr: stompAddr}
	keeper := c.keepQueueEmpty()
	before := b.core.Stats()
	idle := runtime.NumGoroutine() + pooled
	c.come(clients)() // what starts once and stays is there from now on
	settled(t, b, before, idle)
	first := heapBytes()
	var grown int64
	for range rounds {
		leave := c.come(clients)
		if n := connections(b.core.Stats()); n != clients+1 {
			t.Errorf("%d connections open, want %d", n, clients+1)
		}
		full := heapBytes()
		leave()
		settled(t, b, before, idle)
		last := heapBytes()
		t.Logf("heap %d KiB with all there, %d KiB after; %d goroutines", full>>10, last>>10, runtime.NumGoroutine())
		if grown = last - first; grown <= grows {
			break
		}
		first = last
	}
	if grown > grows {
		t.Errorf("heap grew by %d bytes over %d more clients, and before that too", grown, clients)
	}
	keeper()
	b.stop(t)
	if !eventually(10*time.Second, func() bool { return runtime.NumGoroutine() <= atFirst }) {
		t.Errorf("the broker has ended and %d goroutines are left, %d at first:\n%s", runtime.NumGoroutine(), atFirst, goroutines())
	}
}

// heapBytes is what is live after a collection that also empties the pools.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func connections(s core.Stats) int {
	n := 0
	for _, p := range s.Protocols {
		n += p.Connections
	}
	return n
}

// settled waits until only the keeper is connected and the broker's sums and
// the number of goroutines are back to what they were.
func settled(t *testing.T, b *broker, before core.Stats, most int) {
	t.Helper()
	var s core.Stats
	ok := eventually(30*time.Second, func() bool {
		s = b.core.Stats()
		e, was := s.Engine, before.Engine
		return connections(s) == 1 && s.Sessions == 0 && e.Ready+e.Unsettled == 0 && e.Bytes == 0 &&
			e.Queues == was.Queues && e.Bindings == was.Bindings && e.Consumers == was.Consumers &&
			e.Exchanges == was.Exchanges && runtime.NumGoroutine() <= most
	})
	if !ok {
		t.Fatalf("something is left: %+v, before %+v, %d goroutines, at most %d\n%s", s, before,
			runtime.NumGoroutine(), most, goroutines())
	}
}

// goroutines lists where they are, alike ones summed up.
func goroutines() string {
	var stacks strings.Builder
	// Writing to memory does not fail.
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
	return stacks.String()
}

// eventually asks until the answer is yes, for at most so long.
func eventually(d time.Duration, yes func() bool) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-deadline.C:
			return yes()
		case <-tick.C:
		}
	}
	return true
}

// crowd makes clients.
type crowd struct {
	t                   *testing.T
	mqttAddr, stompAddr string
}

func (c *crowd) dial(addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		c.t.Error(err)
		panic(err) // on a client's goroutine: ends the test run
	}
	return conn
}

// keepQueueEmpty works on the queue that the crowd leaves messages in, until
// its return value is called.
func (c *crowd) keepQueueEmpty() (stop func()) {
	s := &stompClient{inbox: &inbox{}, version: "1.2", conn: c.dial(c.stompAddr)}
	r := bufio.NewReader(s.conn)
	c.must(s.send(&frame{command: "CONNECT", headers: [][2]string{{"accept-version", "1.2"}, {"host", "/"}}}))
	c.mustFrame("CONNECTED", r)
	c.must(s.send(&frame{command: "SUBSCRIBE", headers: [][2]string{{"id", "1"}, {"destination", "/queue/churn"}, {"receipt", "r"}}}))
	c.mustFrame("RECEIPT", r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := readFrame("1.2", r); err != nil {
				return
			}
		}
	}()
	return func() {
		c.must(s.conn.Close())
		<-done
	}
}

func (c *crowd) must(err error) {
	if err != nil {
		c.t.Error(err)
	}
}

func (c *crowd) mustFrame(command string, r *bufio.Reader) {
	f, err := readFrame("1.2", r)
	if err != nil || f.command != command {
		c.t.Errorf("%s wanted, got %v, %v", command, f, err)
	}
}

// come connects n clients at once and returns when all have subscribed and
// published; the function that it returns makes them vanish.
func (c *crowd) come(n int) (vanish func()) {
	var there, gone sync.WaitGroup
	leaving := make(chan struct{})
	for i := range n {
		there.Add(1)
		gone.Add(1)
		go func() {
			defer gone.Done()
			var conn net.Conn
			var rest func()
			if i%3 == 0 {
				conn, rest = c.stompLife(i)
			} else {
				conn, rest = c.mqttLife(i, byte(3+i%3))
			}
			there.Done()
			<-leaving
			rest()
			c.leave(i, conn)
		}()
	}
	there.Wait()
	return func() {
		close(leaving)
		gone.Wait()
	}
}

// leave closes: a third resets, so that the broker's writes fail.
func (c *crowd) leave(i int, conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok && i%2 == 0 {
		c.must(tcp.SetLinger(0))
	}
	if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
		c.must(err)
	}
}

// mqttLife: version 4 or 5; what it does last is done by rest.
func (c *crowd) mqttLife(i int, version byte) (conn net.Conn, rest func()) {
	m := &mqttClient{inbox: &inbox{}, version: version, conn: c.dial(c.mqttAddr)}
	r := bufio.NewReader(m.conn)
	hello := &connectFields{clientID: fmt.Sprintf("c%d", i), clean: true, keepAlive: 60,
		will: &packet{topic: fmt.Sprintf("churn/%d/will", i%50), payload: []byte("gone"), flags: 2}}
	c.must(m.send(&packet{kind: connect, connect: hello}))
	c.mustPacket(connack, version, r)
	for id, f := range []filterOption{
		{fmt.Sprintf("churn/%d/#", i%50), 1}, {"churn/+/all", 0}, {"$share/g/churn/+/shared", 1}, {"$queue/churn", 1},
	} {
		c.must(m.send(&packet{kind: subscribe, id: uint16(id + 1), filters: []filterOption{f}}))
		c.mustPacket(suback, version, r)
	}
	topics := []string{fmt.Sprintf("churn/%d/x", i%50), "churn/1/shared", "$queue/churn"}
	for id, topic := range topics {
		c.must(m.send(&packet{kind: publish, flags: 2, id: uint16(id + 1), topic: topic, payload: make([]byte, 100)}))
		c.mustPacket(puback, version, r)
	}
	return m.conn, func() {
		if i%20 == 1 {
			c.must(m.send(&packet{kind: publish, topic: "churn/0/all", payload: []byte("last")}))
		}
		if i%5 == 0 {
			c.must(m.send(&packet{kind: disconnect}))
		}
	}
}

// mustPacket reads up to the next packet of a kind; deliveries before it stay
// unacknowledged.
func (c *crowd) mustPacket(kind, version byte, r *bufio.Reader) {
	for {
		p, err := readPacket(version, r)
		if err != nil {
			c.t.Errorf("%s wanted: %v", packetNames[kind], err)
			return
		}
		if p.kind == kind {
			return
		}
	}
}

func (c *crowd) stompLife(i int) (conn net.Conn, rest func()) {
	s := &stompClient{inbox: &inbox{}, version: "1.2", conn: c.dial(c.stompAddr)}
	r := bufio.NewReader(s.conn)
	c.must(s.send(&frame{command: "CONNECT", headers: [][2]string{{"accept-version", "1.2"}, {"host", "/"}}}))
	c.mustFrame("CONNECTED", r)
	for id, destination := range []string{fmt.Sprintf("/topic/churn.%d.#", i%50), "/topic/churn.*.all", "/queue/churn"} {
		c.must(s.send(&frame{command: "SUBSCRIBE", headers: [][2]string{{"destination", destination},
			{"id", fmt.Sprint(id)}, {"ack", "client-individual"}, {"receipt", "s"}}}))
		c.mustReceipt(r)
	}
	for _, destination := range []string{fmt.Sprintf("/topic/churn.%d.x", i%50), "/topic/churn.1.shared", "/queue/churn"} {
		c.must(s.send(&frame{command: "SEND", body: make([]byte, 100),
			headers: [][2]string{{"destination", destination}, {"receipt", "p"}}}))
		c.mustReceipt(r)
	}
	return s.conn, func() {
		if i%20 == 0 {
			c.must(s.send(&frame{command: "SEND", body: []byte("last"), headers: [][2]string{{"destination", "/topic/churn.0.all"}}}))
		}
	}
}

// mustReceipt reads up to the next receipt.
func (c *crowd) mustReceipt(r *bufio.Reader) {
	for {
		f, err := readFrame("1.2", r)
		if err != nil || f.command == "ERROR" {
			c.t.Errorf("RECEIPT wanted: %v, %v", f, err)
			return
		}
		if f.command == "RECEIPT" {
			return
		}
	}
}
