package coap

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// mesh is a network in memory, which may lose, double and delay datagrams.
type mesh struct {
	mu   sync.Mutex
	ends map[netip.AddrPort]*end
	dice *rand.Rand
	bad  float64 // the part of the datagrams that is lost; as many are doubled, or late
	lost int
}

// end is a socket of a mesh, a net.PacketConn.
type end struct {
	mesh *mesh
	at   netip.AddrPort
	mu   sync.Mutex
	wake chan struct{} // closed and replaced with every change
	in   []datagram
	dead time.Time
	shut bool
}

type datagram struct {
	b    []byte
	from netip.AddrPort
}

func newMesh() *mesh {
	return &mesh{ends: map[netip.AddrPort]*end{}, dice: rand.New(rand.NewPCG(1, 2))}
}

func (m *mesh) open(at string) *end {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := &end{mesh: m, at: netip.MustParseAddrPort(at), wake: make(chan struct{})}
	m.ends[e.at] = e
	return e
}

// carry takes a datagram to where it goes, maybe.
func (m *mesh) carry(b []byte, from, to netip.AddrPort) {
	m.mu.Lock()
	e := m.ends[to]
	copies, late := 1, time.Duration(0)
	if m.bad > 0 {
		switch roll := m.dice.Float64(); {
		case roll < m.bad:
			copies = 0
			m.lost++
		case roll < 2*m.bad:
			copies = 2
		case roll < 3*m.bad:
			late = time.Duration(m.dice.IntN(300)) * time.Millisecond
		}
	}
	m.mu.Unlock()
	if e == nil {
		return
	}
	d := datagram{append([]byte(nil), b...), from}
	for range copies {
		if late > 0 {
			time.AfterFunc(late, func() { e.push(d) })
			continue
		}
		e.push(d)
	}
}

func (e *end) push(d datagram) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.in = append(e.in, d)
	e.changed()
}

func (e *end) changed() {
	close(e.wake)
	e.wake = make(chan struct{})
}

func (e *end) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		e.mu.Lock()
		switch {
		case e.shut:
			e.mu.Unlock()
			return 0, nil, net.ErrClosed
		case !e.dead.IsZero() && !time.Now().Before(e.dead):
			e.mu.Unlock()
			return 0, nil, os.ErrDeadlineExceeded
		case len(e.in) > 0:
			d := e.in[0]
			e.in = e.in[1:]
			e.mu.Unlock()
			return copy(b, d.b), net.UDPAddrFromAddrPort(d.from), nil
		}
		wake := e.wake
		e.mu.Unlock()
		<-wake
	}
}

func (e *end) WriteTo(b []byte, to net.Addr) (int, error) {
	e.mesh.carry(b, e.at, to.(*net.UDPAddr).AddrPort())
	return len(b), nil
}

func (e *end) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shut = true
	e.changed()
	return nil
}

func (e *end) LocalAddr() net.Addr                { return net.UDPAddrFromAddrPort(e.at) }
func (e *end) SetDeadline(t time.Time) error      { return e.SetReadDeadline(t) }
func (e *end) SetWriteDeadline(_ time.Time) error { return nil }
func (e *end) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = t
	e.changed()
	return nil
}

// take is all that came in, unread.
func (e *end) take() []datagram {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.in
	e.in = nil
	return in
}

// scene is a broker with the server in a bubble, and its clients.
type scene struct {
	t       *testing.T
	mesh    *mesh
	broker  *core.Broker
	server  *Server
	clients map[string]*client

	sessions []*core.Session // of the core's own, closed at the end
}

const serverAddr = "127.0.0.1:5683"

func newScene(t *testing.T, cfg Config) *scene { return newSceneWith(t, cfg, nil) }

func newSceneWith(t *testing.T, cfg Config, p auth.Policy) *scene {
	t.Helper()
	return newSceneOf(t, cfg, core.DefaultConfig(), p)
}

func newSceneOf(t *testing.T, cfg Config, of core.Config, p auth.Policy) *scene {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s := &scene{t: t, mesh: newMesh(), clients: map[string]*client{}}
	s.broker = core.NewBroker(of, "/", local.New(log), p, log)
	s.server = New(cfg, core.NewRealms(s.broker), log)
	if err := s.server.Serve(s.mesh.open(serverAddr)); err != nil {
		t.Fatal(err)
	}
	return s
}

// end stops all and looks for what is left behind.
func (s *scene) end() {
	s.t.Helper()
	if err := s.server.Shutdown(context.Background()); err != nil {
		s.t.Error(err)
	}
	synctest.Wait()
	s.server.mu.Lock()
	peers := len(s.server.peers)
	s.server.mu.Unlock()
	if n := s.server.observers.Load(); n != 0 || peers != 0 || len(s.server.watches) != 0 {
		s.t.Errorf("left behind: %d observers, %d peers, %d watches", n, peers, len(s.server.watches))
	}
	for _, session := range s.sessions {
		session.Close(core.CloseNormal)
	}
	s.broker.Close()
	if e := s.broker.Stats().Engine; e.Consumers > 0 || e.Unsettled > 0 {
		s.t.Errorf("left behind: %+v", e)
	}
}

// client is a client that is written by hand.
type client struct {
	*end
	scene *scene
	last  packet // the last message that asked for an answer, or could have one
}

// client is the one of a name, at an address of its own; names that begin with
// "far" are not on the loopback.
func (s *scene) client(name string) *client {
	if c := s.clients[name]; c != nil {
		return c
	}
	host := "127.0.0.1"
	if len(name) > 3 && name[:3] == "far" {
		host = "192.0.2.1"
	}
	c := &client{end: s.mesh.open(netip.AddrPortFrom(netip.MustParseAddr(host), uint16(40001+len(s.clients))).String()), scene: s}
	s.clients[name] = c
	return c
}

// server is where the broker is.
func (c *client) server() netip.AddrPort { return netip.MustParseAddrPort(serverAddr) }

func (c *client) send(b []byte) {
	c.mesh.carry(b, c.at, netip.MustParseAddrPort(serverAddr))
	synctest.Wait()
}

// ask sends a request and returns the messages that came back.
func (c *client) ask(p *outgoingPacket) []packet {
	c.send(p.append(nil))
	return c.got()
}

// got are the messages that came since.
func (c *client) got() []packet {
	var all []packet
	for _, d := range c.take() {
		var p packet
		if err := p.decode(d.b); err != nil {
			c.scene.t.Errorf("the broker sent %x: %v", d.b, err)
			continue
		}
		if p.kind == message.Confirmable || p.kind == message.NonConfirmable {
			c.last = p
		}
		all = append(all, p)
	}
	return all
}

// options makes options of a path with queries, and numbers with values.
func options(path []string, more ...message.Option) message.Options {
	var o message.Options
	for _, s := range path {
		o = o.Add(message.Option{ID: message.URIPath, Value: []byte(s)})
	}
	for _, m := range more {
		o = o.Add(m)
	}
	return o
}

func (c *client) request(kind message.Type, code codes.Code, id uint16, path []string, payload string, more ...message.Option) *outgoingPacket {
	return &outgoingPacket{kind: kind, code: code, id: id, token: makeToken([]byte{byte(id >> 8), byte(id)}),
		options: options(path, more...), payload: []byte(payload)}
}
