// Command relay is the floor that the compare script sets brokers against: it
// speaks just enough MQTT 3.1.1 to pass PUBLISH packets of QoS 0 on to who
// subscribed to exactly that topic. No wildcards, no sessions, no checks, no
// queues: a slow subscriber slows its publishers down.
//
//	relay -listen 127.0.0.1:1883
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

func main() {
	address := flag.String("listen", "127.0.0.1:0", "where to listen")
	flag.Parse()
	l, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", l.Addr())
	r := new(relay)
	r.topics.Store(&map[string][]net.Conn{})
	for {
		conn, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go r.serve(conn)
	}
}

// relay knows who listens to what. Readers take the map as it is; who changes
// it makes a new one.
type relay struct {
	change sync.Mutex
	topics atomic.Pointer[map[string][]net.Conn]
}

func (r *relay) subscribe(topic string, conn net.Conn) {
	r.change.Lock()
	defer r.change.Unlock()
	m := maps.Clone(*r.topics.Load())
	m[topic] = append(slices.Clip(m[topic]), conn)
	r.topics.Store(&m)
}

func (r *relay) forget(conn net.Conn, topics []string) {
	r.change.Lock()
	defer r.change.Unlock()
	m := maps.Clone(*r.topics.Load())
	for _, t := range topics {
		m[t] = slices.DeleteFunc(slices.Clone(m[t]), func(c net.Conn) bool { return c == conn })
		if len(m[t]) == 0 {
			delete(m, t)
		}
	}
	r.topics.Store(&m)
}

var errPacket = errors.New("a packet that the relay does not know")

func (r *relay) serve(conn net.Conn) {
	c := client{relay: r, conn: conn}
	defer func() {
		r.forget(conn, c.topics)
		conn.Close()
	}()
	buffer, held := make([]byte, 64<<10), 0
	for {
		n, err := conn.Read(buffer[held:])
		if err != nil {
			return
		}
		held += n
		used, err := c.packets(buffer[:held])
		if err != nil {
			return
		}
		copy(buffer, buffer[used:held])
		if held -= used; held == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
	}
}

// client is one connection.
type client struct {
	relay  *relay
	conn   net.Conn
	topics []string
}

// packets handles all whole packets in b and returns their length. Neighbours
// of one topic go on in one write.
func (c *client) packets(b []byte) (used int, err error) {
	var topic []byte
	from, at := 0, 0
	for {
		size, body := packet(b[at:])
		if size == 0 {
			c.pass(topic, b[from:at])
			return at, nil
		}
		p := b[at : at+size]
		if p[0] == 0x30 {
			t := p[body : body+2+int(binary.BigEndian.Uint16(p[body:]))]
			if !bytes.Equal(t, topic) {
				c.pass(topic, b[from:at])
				topic, from = t, at
			}
			at += size
			continue
		}
		c.pass(topic, b[from:at])
		if err := c.control(p, body); err != nil {
			return at, err
		}
		at += size
		topic, from = nil, at
	}
}

// pass writes packets to all who listen to their topic, which comes with its
// two bytes of length.
func (c *client) pass(topic, packets []byte) {
	if len(packets) == 0 {
		return
	}
	for _, to := range (*c.relay.topics.Load())[string(topic[2:])] {
		to.Write(packets) // one that is gone unsubscribes itself
	}
}

func (c *client) control(p []byte, body int) error {
	var answer []byte
	switch p[0] & 0xF0 {
	case 0x10: // CONNECT
		answer = []byte{0x20, 2, 0, 0}
	case 0x80: // SUBSCRIBE with one filter
		n := int(binary.BigEndian.Uint16(p[body+2:]))
		topic := string(p[body+4 : body+4+n])
		c.topics = append(c.topics, topic)
		c.relay.subscribe(topic, c.conn)
		answer = []byte{0x90, 3, p[body], p[body+1], 0}
	default: // DISCONNECT, and what belongs to other levels of service
		return errPacket
	}
	_, err := c.conn.Write(answer)
	return err
}

// packet tells the length of the packet at the start of b, 0 when it is not
// all there, and where its body begins.
func packet(b []byte) (size, body int) {
	length := 0
	for i := 1; i < len(b) && i < 5; i++ {
		length |= int(b[i]&0x7F) << (7 * (i - 1))
		if b[i] < 0x80 {
			if i+1+length > len(b) {
				return 0, 0
			}
			return i + 1 + length, i + 1
		}
	}
	return 0, 0
}
