package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"strings"

	"github.com/gorilla/websocket"
)

// payload is what every message carries.
func payload() string { return strings.Repeat("x", 64) }

// client is a WebSocket that costs little: frames are made and cut by hand.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	op   byte
}

func (c *clients) dial() (*client, error) {
	d := websocket.Dialer{Subprotocols: []string{"wamp.2." + c.name()}}
	ws, _, err := d.Dial(c.url, nil)
	if err != nil {
		return nil, err
	}
	o := &client{conn: ws.NetConn(), in: bufio.NewReaderSize(ws.NetConn(), 256<<10), op: 0x82}
	if c.name() == "json" {
		o.op = 0x81
	}
	c.all = append(c.all, o)
	return o, o.ask(c.hello())
}

// frame masks with zeroes.
func (o *client) frame(b []byte) []byte {
	head := []byte{o.op, 0x80 | byte(len(b)), 0, 0, 0, 0}
	if len(b) > 125 {
		head = binary.BigEndian.AppendUint16([]byte{o.op, 0x80 | 126}, uint16(len(b)))
		head = append(head, 0, 0, 0, 0)
	}
	return append(head, b...)
}

func (o *client) put(b []byte) { o.out = append(o.out, o.frame(b)...) }

func (o *client) flush() {
	// The reader sees what is wrong.
	_, _ = o.conn.Write(o.out)
	o.out = o.out[:0]
}

// ask sends a request and takes the answer.
func (o *client) ask(b []byte) error {
	o.put(b)
	o.flush()
	_, err := o.next()
	return err
}

// next is the data of the next frame, good until the one after.
func (o *client) next() ([]byte, error) {
	head, err := o.in.Peek(2)
	if err != nil {
		return nil, err
	}
	n, size := int(head[1]), 2
	if n == 126 {
		if head, err = o.in.Peek(4); err != nil {
			return nil, err
		}
		n, size = int(binary.BigEndian.Uint16(head[2:])), 4
	}
	b, err := o.in.Peek(size + n)
	if err != nil {
		return nil, err
	}
	_, err = o.in.Discard(size + n)
	return b[size:], err
}

// encoding makes and reads the messages.
type encoding interface {
	name() string
	hello() []byte
	// message is [kind, id, {}, uri] and, with arguments, the payload in a list; an
	// empty URI is left out.
	message(kind byte, id uint64, uri string, arguments bool) []byte
	second(b []byte) uint64 // element of a list
}

func (c *clients) subscribe(topic string) []byte           { return c.message(32, 1, topic, false) }
func (c *clients) publish(topic string) []byte             { return c.message(16, 1, topic, true) }
func (c *clients) register(procedure string) []byte        { return c.message(64, 1, procedure, false) }
func (c *clients) call(id uint64, procedure string) []byte { return c.message(48, id, procedure, true) }
func (c *clients) yield(id uint64) []byte                  { return c.message(70, id, "", true) }

type jsonEncoding struct{}

func (jsonEncoding) name() string { return "json" }

func (jsonEncoding) hello() []byte {
	return []byte(`[1,"realm1",{"roles":{"publisher":{},"subscriber":{},"caller":{},"callee":{}}}]`)
}

func (jsonEncoding) message(kind byte, id uint64, uri string, arguments bool) []byte {
	b := fmt.Appendf(nil, `[%d,%d,{}`, kind, id)
	if uri != "" {
		b = append(append(append(b, ',', '"'), uri...), '"')
	}
	if arguments {
		b = append(append(append(b, `,["`...), payload()...), `"]`...)
	}
	return append(b, ']')
}

func (jsonEncoding) second(b []byte) (n uint64) {
	_, rest, _ := strings.Cut(string(b[:min(len(b), 40)]), ",")
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

type msgpackEncoding struct{}

func (msgpackEncoding) name() string { return "msgpack" }

func (msgpackEncoding) hello() []byte {
	b := []byte("\x93\x01\xA6realm1\x81\xA5roles\x84")
	for _, role := range []string{"publisher", "subscriber", "caller", "callee"} {
		b = append(append(append(b, 0xA0|byte(len(role))), role...), 0x80)
	}
	return b
}

func (msgpackEncoding) message(kind byte, id uint64, uri string, arguments bool) []byte {
	n := byte(3)
	if uri != "" {
		n++
	}
	if arguments {
		n++
	}
	b := binary.BigEndian.AppendUint64([]byte{0x90 | n, kind, 0xCF}, id)
	b = append(b, 0x80)
	if uri != "" {
		b = append(append(b, 0xA0|byte(len(uri))), uri...)
	}
	if arguments {
		b = append(append(b, 0x91, 0xD9, 64), payload()...)
	}
	return b
}

func (msgpackEncoding) second(b []byte) uint64 {
	switch b = b[2:]; b[0] {
	case 0xCC:
		return uint64(b[1])
	case 0xCD:
		return uint64(binary.BigEndian.Uint16(b[1:]))
	case 0xCE:
		return uint64(binary.BigEndian.Uint32(b[1:]))
	case 0xCF, 0xD3:
		return binary.BigEndian.Uint64(b[1:])
	}
	return uint64(b[0])
}
