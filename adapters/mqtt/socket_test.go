package mqtt

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/local"
)

// plainClient speaks raw packets over a socket.
type plainClient struct {
	t       testing.TB
	conn    net.Conn
	version int
	got     []byte
}

func dialPlain(t testing.TB, addr net.Addr, lines ...string) *plainClient {
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &plainClient{t: t, conn: conn, version: 5}
	for _, line := range lines {
		c.say(line)
		c.packet()
	}
	return c
}

func (c *plainClient) say(line string) {
	if _, err := c.conn.Write(encode(line, &c.version)); err != nil {
		c.t.Error(err)
	}
}

// packet reads the next packet; "closed" at the end.
func (c *plainClient) packet() string {
	buf := make([]byte, 32<<10)
	for {
		if line, size := decode(c.got, c.version); size > 0 {
			c.got = c.got[size:]
			return line
		}
		c.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := c.conn.Read(buf)
		c.got = append(c.got, buf[:n]...)
		if err == io.EOF && len(c.got) == 0 {
			return "closed"
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

func listen(t testing.TB, cfg Config) (net.Addr, *core.Broker) {
	log := slog.New(slog.DiscardHandler)
	broker := core.NewBroker(core.DefaultConfig(), "test", local.New(log), nil, log)
	s := New(cfg, core.NewRealms(broker), log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		broker.Close()
	})
	return l.Addr(), broker
}

// [MQTT-4.2.0-1] over TCP, many messages of every QoS and size both ways, in
// order, each as often as its QoS says.
func TestSockets(t *testing.T) {
	addr, _ := listen(t, testConfig())
	const pairs, count = 4, 300
	var all sync.WaitGroup
	for i := range pairs {
		sub := dialPlain(t, addr, fmt.Sprintf("connect id=s%d clean v=%d", i, 4+i%2), fmt.Sprintf("subscribe id=1 f=t/%d q=2", i))
		pub := dialPlain(t, addr, fmt.Sprintf("connect id=p%d clean v=%d", i, 4+i/2))
		all.Go(func() { pub.publishAll(i, count) })
		all.Go(func() { sub.takeAll(count) })
	}
	all.Wait()
}

func (c *plainClient) publishAll(i, count int) {
	for n := range count {
		qos := n % 3
		id := ""
		if qos > 0 {
			id = fmt.Sprintf("id=%d", n%200+1)
		}
		c.say(fmt.Sprintf("publish topic=t/%d qos=%d %s payload=%d/rep:%d", i, qos, id, n, n*37%6000))
		if qos > 0 {
			c.packet()
		}
		if qos == 2 {
			c.say(fmt.Sprintf("pubrel id=%d", n%200+1))
			c.packet()
		}
	}
}

func (c *plainClient) takeAll(count int) {
	for next := 0; next < count; {
		var topic, payload string
		var qos, id, n int
		line := c.packet()
		if _, err := fmt.Sscanf(line, "pubrel id=%d", &id); err == nil {
			c.say(fmt.Sprintf("pubcomp id=%d", id))
			continue
		}
		if _, err := fmt.Sscanf(line, "publish topic=%s qos=%d id=%d payload=%d/%s", &topic, &qos, &id, &n, &payload); err != nil {
			fmt.Sscanf(line, "publish topic=%s payload=%d/%s", &topic, &n, &payload)
		}
		if n != next || qos != n%3 || len(payload) != n*37%6000 {
			c.t.Errorf("message %d: got %.80s", next, line)
			return
		}
		next++
		switch qos {
		case 1:
			c.say(fmt.Sprintf("puback id=%d", id))
		case 2:
			c.say(fmt.Sprintf("pubrec id=%d", id))
		}
	}
}

// A thousand clients that come, subscribe, publish and vanish leave nothing.
func TestNothingIsLeft(t *testing.T) {
	addr, broker := listen(t, testConfig())
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			c := dialPlain(t, addr, fmt.Sprintf("connect id=c%d clean v=%d will=w", i, 4+i%2),
				fmt.Sprintf("subscribe id=1 f=t/%d q=2 f=$share/g/t/+ q=1 f=t/# q=1", i%7))
			for n := range 5 {
				c.say(fmt.Sprintf("publish topic=t/%d qos=%d id=%d payload=x", i%7, n%3, n+1))
			}
			c.conn.Close()
		})
	}
	all.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := broker.Stats()
		e := s.Engine
		if s.Protocols[protocolName].Connections+s.Sessions+e.Queues+e.Bindings+e.Consumers+e.Ready+e.Unsettled == 0 && e.Bytes == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %+v", s)
		}
		<-time.After(time.Millisecond)
	}
}
