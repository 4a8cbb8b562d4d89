package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// relay is a broker of a few lines for QoS 0: it passes MQTT and STOMP
// messages on by topic, and makes what faults it is told to.
type relay struct {
	listener net.Listener
	// copies is how often the n-th message of all is passed on; -1 is once, but
	// after the next of its topic.
	copies func(n int) int

	mu    sync.Mutex
	open  map[net.Conn]bool
	subs  map[string][]*relayClient
	held  map[string][]byte
	count int
}

type relayClient struct {
	conn net.Conn
	pass func(topic string, payload []byte)
	done bool
}

func startRelay(t *testing.T, copies func(n int) int) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, copies: copies, open: map[net.Conn]bool{}, subs: map[string][]*relayClient{}, held: map[string][]byte{}}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.open[conn] = true
			r.mu.Unlock()
			group.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.hangUp()
		group.Wait()
	})
	return r
}

// hangUp closes all connections.
func (r *relay) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		conn.Close()
	}
}

func (r *relay) url(protocol string) string { return protocol + "://" + r.listener.Addr().String() }

func (r *relay) serve(conn net.Conn) {
	c := &relayClient{conn: conn}
	defer func() {
		conn.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		c.done = true
		delete(r.open, conn)
	}()
	in := bufio.NewReader(conn)
	if first, err := in.Peek(1); err == nil && first[0] == mqttConnect {
		r.mqtt(c, in)
	} else if err == nil {
		r.stomp(c, in)
	}
}

func (r *relay) subscribe(topic string, c *relayClient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subs[topic] = append(r.subs[topic], c)
}

func (r *relay) publish(topic string, payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copies := 1
	if r.copies != nil {
		copies = r.copies(r.count)
	}
	r.count++
	held, waits := r.held[topic]
	delete(r.held, topic)
	if copies < 0 {
		r.held[topic] = bytes.Clone(payload)
	}
	for range copies {
		r.pass(topic, payload)
	}
	if waits {
		r.pass(topic, held)
	}
}

func (r *relay) pass(topic string, payload []byte) {
	for _, c := range r.subs[topic] {
		if !c.done {
			c.pass(topic, payload)
		}
	}
}

func (r *relay) mqtt(c *relayClient, in *bufio.Reader) {
	c.pass = func(topic string, payload []byte) {
		p := append(mqttString(nil, topic), payload...)
		c.conn.Write(append(mqttLength([]byte{mqttPublish}, len(p)), p...))
	}
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return
		}
		length, err := binary.ReadUvarint(in) // the same encoding
		if err != nil {
			return
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		switch kind {
		case mqttConnect:
			c.conn.Write([]byte{mqttConnack, 2, 0, 0})
		case mqttSubscribe:
			r.subscribe(string(body[4:len(body)-1]), c)
			c.conn.Write([]byte{mqttSuback, 3, body[0], body[1], 0})
		case mqttPublish:
			n := 2 + int(binary.BigEndian.Uint16(body))
			r.publish(string(body[2:n]), body[n:])
		default:
			return
		}
	}
}

func (r *relay) stomp(c *relayClient, in *bufio.Reader) {
	c.pass = func(topic string, payload []byte) {
		c.conn.Write([]byte("MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/topic/" + strings.ReplaceAll(topic, "/", ".") + "\n\n" + string(payload) + "\x00"))
	}
	for {
		frame, err := in.ReadString(0)
		if err != nil {
			return
		}
		head, body, _ := strings.Cut(strings.TrimSuffix(strings.TrimLeft(frame, "\n"), "\x00"), "\n\n")
		command, lines, _ := strings.Cut(head, "\n")
		headers := map[string]string{}
		for _, line := range strings.Split(lines, "\n") {
			name, value, _ := strings.Cut(line, ":")
			headers[name] = value
		}
		topic := strings.ReplaceAll(strings.TrimPrefix(headers["destination"], "/topic/"), ".", "/")
		switch command {
		case "CONNECT":
			c.conn.Write([]byte("CONNECTED\nversion:1.2\n\n\x00"))
		case "SUBSCRIBE":
			r.subscribe(topic, c)
		case "SEND":
			r.publish(topic, []byte(body))
		case "DISCONNECT":
			return
		}
		if id := headers["receipt"]; id != "" {
			c.conn.Write([]byte("RECEIPT\nreceipt-id:" + id + "\n\n\x00"))
		}
	}
}
