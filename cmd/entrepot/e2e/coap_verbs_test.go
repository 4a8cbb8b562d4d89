package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// coapNet is a UDP socket of the broker's, and the network behind it: what a
// client sends is read from it, what is written to it a client gets at once.
type coapNet struct {
	port int
	in   chan coapDatagram
	shut chan struct{}
	once sync.Once

	mu      sync.Mutex
	clients []func([]byte) // what they do with a datagram; by port, from coapPort
}

// coapPort is the port of the first client.
const coapPort = 40000

type coapDatagram struct {
	b    []byte
	from *net.UDPAddr
}

func newCoAPNet(port int) *coapNet {
	return &coapNet{port: port, in: make(chan coapDatagram, 100), shut: make(chan struct{})}
}

func (n *coapNet) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-n.in:
		return copy(b, d.b), d.from, nil
	case <-n.shut:
		return 0, nil, os.ErrDeadlineExceeded
	}
}

func (n *coapNet) WriteTo(b []byte, to net.Addr) (int, error) {
	n.mu.Lock()
	take := n.clients[to.(*net.UDPAddr).Port-coapPort]
	n.mu.Unlock()
	take(b)
	return len(b), nil
}

// join gives a client an address.
func (n *coapNet) join(take func([]byte)) *net.UDPAddr {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clients = append(n.clients, take)
	return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: coapPort + len(n.clients) - 1}
}

func (n *coapNet) Close() error {
	n.once.Do(func() { close(n.shut) })
	return nil
}

func (n *coapNet) LocalAddr() net.Addr                { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.port} }
func (n *coapNet) SetDeadline(t time.Time) error      { return n.SetReadDeadline(t) }
func (n *coapNet) SetWriteDeadline(_ time.Time) error { return nil }
func (n *coapNet) SetReadDeadline(_ time.Time) error  { return n.Close() } // used for the end alone

// coapActor is a CoAP client of a scenario, which acknowledges at once.
type coapActor struct {
	name   string
	broker *broker
	box    *inbox
	link   coapLink
	last   uint16

	mu       sync.Mutex
	location string // the last Location-Path that it got
}

func (a *coapActor) inbox() *inbox { return a.box }

// do carries out a verb.
func (a *coapActor) do(verb string, words []word) error {
	switch {
	case verb == "connect":
		return a.connect(words)
	case a.link == nil:
		return fmt.Errorf("%s is not connected", a.name)
	case verb == "drop":
		a.link.close()
		return nil
	}
	code, ok := map[string]byte{"get": 1, "observe": 1, "post": 2, "put": 3, "delete": 4}[verb]
	if !ok || len(words) == 0 {
		return fmt.Errorf("no verb %q for CoAP, or no path", verb)
	}
	m := coapMessage{code: code}
	path, query, _ := strings.Cut(a.find(words[0].text), "?")
	o := readOptions(words[1:], "=")
	if o.flag("non") {
		m.kind = 1
	}
	if verb == "observe" {
		m.add(6, nil)
	}
	for _, level := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		m.add(11, []byte(strings.ReplaceAll(level, "%2F", "/")))
	}
	for _, name := range []string{"format", "max-age"} {
		if n, err := o.number(name, -1); err != nil {
			return err
		} else if n >= 0 {
			m.add(map[string]int{"format": 12, "max-age": 14}[name], binary.BigEndian.AppendUint16(nil, uint16(n)))
		}
	}
	for _, q := range strings.Split(query, "&") {
		if q != "" {
			m.add(15, []byte(q))
		}
	}
	m.payload = []byte(o.payload)
	if err := o.done(); err != nil {
		return err
	}
	a.last++
	m.id = a.last
	return a.link.send(&m)
}

// connect goes by plain UDP; with login= and psk= by DTLS, with login= and the
// word certificate by TLS.
func (a *coapActor) connect(words []word) error {
	o := readOptions(words, "=")
	user, key, certificate := o.pop("login", ""), o.pop("psk", ""), o.flag("certificate")
	if err := o.done(); err != nil {
		return err
	}
	switch {
	case certificate:
		return a.openTLS(user)
	case key != "":
		return a.openDTLS(user, key)
	}
	a.link = udpLink{a.broker.udp, a.broker.udp.join(a.take)}
	return nil
}

// find puts the last Location-Path in place of "$Location" in a path.
func (a *coapActor) find(path string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Replace(path, "$Location", a.location, 1)
}

// take is a datagram that the broker sent.
func (a *coapActor) take(b []byte) {
	m := decodeCoAP(b)
	if m.kind == 0 {
		// It is lost where the broker is gone.
		_ = a.link.send(&coapMessage{kind: 2, id: binary.BigEndian.Uint16(b[2:])})
	}
	a.see(m)
}

// see is a message that the broker sent.
func (a *coapActor) see(m *coapMessage) {
	if location := m.location(); location != "" {
		a.mu.Lock()
		a.location = location
		a.mu.Unlock()
	}
	a.box.add(event{end: m.String()})
}

// plainSuccess: nothing is left out.
func (a *coapActor) plainSuccess(string, event) bool { return false }

func (a *coapActor) answered(string) bool { return false }

// coapMessage is a message; as with packet, the codec is the tests' own.
type coapMessage struct {
	kind, code byte
	id         uint16
	options    []coapOption // in the order of their numbers
	payload    []byte
}

type coapOption struct {
	number int
	value  []byte
}

func (m *coapMessage) add(number int, value []byte) {
	m.options = append(m.options, coapOption{number, value})
}

// location is the message's Location-Path.
func (m *coapMessage) location() string {
	path := ""
	for _, o := range m.options {
		if o.number == 8 {
			path += "/" + string(o.value)
		}
	}
	return path
}

// onStream is the kind of messages that have none.
const onStream = 4

// encode is the message with a token of two bytes; one without a code has none.
func (m *coapMessage) encode() []byte {
	if m.code == 0 {
		return []byte{0x40 | m.kind<<4, 0, byte(m.id >> 8), byte(m.id)}
	}
	b := []byte{0x42 | m.kind<<4, m.code, byte(m.id >> 8), byte(m.id), byte(m.id >> 8), byte(m.id)}
	last := 0
	for _, o := range m.options {
		b = append(b, byte(o.number-last)<<4|byte(min(len(o.value), 13)))
		if len(o.value) >= 13 {
			b = append(b, byte(len(o.value)-13))
		}
		b, last = append(b, o.value...), o.number
	}
	if len(m.payload) > 0 {
		b = append(append(b, 0xff), m.payload...)
	}
	return b
}

// decodeCoAP reads what the broker sends, which is well-formed.
func decodeCoAP(b []byte) *coapMessage {
	m := &coapMessage{kind: b[0] >> 4 & 3, code: b[1], id: binary.BigEndian.Uint16(b[2:])}
	b = b[4+int(b[0]&15):]
	number := 0
	for len(b) > 0 && b[0] != 0xff {
		delta, size := int(b[0]>>4), int(b[0]&15)
		b = b[1:]
		for _, n := range []*int{&delta, &size} {
			if *n == 13 {
				*n, b = 13+int(b[0]), b[1:]
			}
		}
		number += delta
		m.add(number, b[:size])
		b = b[size:]
	}
	if len(b) > 0 {
		m.payload = b[1:]
	}
	return m
}

// String is the message as scripts show it: kind, code, what its options say,
// payload.
func (m *coapMessage) String() string {
	words := []string{[]string{"CON", "NON", "ACK", "RST", "MESSAGE"}[m.kind], fmt.Sprintf("%d.%02d", m.code>>5, m.code&31)}
	for _, o := range m.options {
		n := uint64(0)
		for _, c := range o.value {
			n = n<<8 | uint64(c)
		}
		switch o.number {
		case 6:
			words = append(words, "observe")
		case 8:
			words = append(words, "location="+shown(string(o.value)))
		case 12:
			words = append(words, "format="+strconv.FormatUint(n, 10))
		case 14:
			words = append(words, "max-age="+strconv.FormatUint(n, 10))
		}
	}
	if len(m.payload) > 0 {
		words = append(words, fmt.Sprintf("payload=%q", m.payload))
	}
	return strings.Join(words, " ")
}
