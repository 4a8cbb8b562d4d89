package coap

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// maxDatagram is what is read of a datagram; a longer one is cut, and refused
// as malformed or too large.
const maxDatagram = 64 << 10

// readBuffer is how many bytes may wait in the kernel, as far as the system lets
// it (on Linux net.core.rmem_max): a few thousand small datagrams, which come
// while the reader is held up. The system's default is a few hundred.
const readBuffer = 4 << 20

// socket is a link to all clients of a UDP socket.
type socket struct {
	server *Server
	conn   net.PacketConn
	udp    *net.UDPConn // conn, where it is one
	in     receiver
	take   func(b []byte, from netip.AddrPort)
}

func newSocket(s *Server, c net.PacketConn) *socket {
	k := &socket{server: s, conn: c}
	k.udp, _ = c.(*net.UDPConn)
	if k.udp != nil {
		_ = k.udp.SetReadBuffer(readBuffer) // with less it works, too
	}
	k.in.server, k.in.endpoint = s, s.endpoints.Add(1)
	k.take = func(b []byte, from netip.AddrPort) { k.in.receive(b, route{k, from}) }
	return k
}

// read takes datagrams until the socket is closed, or Shutdown.
func (k *socket) read() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := k.readFrom(buf)
		switch {
		case err == nil:
			k.take(buf[:n], from)
		case k.server.stopping():
			return
		case errors.Is(err, net.ErrClosed):
			k.server.log.Error("socket closed", "address", k.conn.LocalAddr().String())
			return
		default: // an ICMP error of a client that is gone, or a shortage
			k.server.pauseUnless(err)
		}
	}
}

func (k *socket) readFrom(buf []byte) (int, netip.AddrPort, error) {
	if k.udp != nil {
		return k.udp.ReadFromUDPAddrPort(buf)
	}
	n, from, err := k.conn.ReadFrom(buf)
	if err != nil {
		return 0, netip.AddrPort{}, err
	}
	at, ok := from.(*net.UDPAddr)
	if !ok {
		return 0, netip.AddrPort{}, errors.New("no UDP address")
	}
	return n, at.AddrPort(), nil
}

// send implements link.
func (k *socket) send(m *outgoingPacket, to netip.AddrPort) {
	buf := k.server.bufs.get()
	buf.b = m.append(buf.b)
	k.write(buf.b, to)
	k.server.bufs.put(buf)
}

// write implements datagrams.
func (k *socket) write(b []byte, to netip.AddrPort) {
	// A datagram may be lost anywhere.
	if k.udp != nil {
		_, _ = k.udp.WriteToUDPAddrPort(b, to)
		return
	}
	_, _ = k.conn.WriteTo(b, net.UDPAddrFromAddrPort(to))
}

// identity implements link.
func (k *socket) identity() (*core.Session, error) { return k.server.anonymous.get() }

// proven implements link.
func (k *socket) proven(at netip.AddrPort) bool { return at.Addr().Unmap().IsLoopback() }

func (s *Server) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// pauseUnless waits a moment after an error, so that one that stays does not
// keep a processor busy.
func (s *Server) pauseUnless(err error) {
	s.log.Debug("read failed, trying again", "error", err)
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stop:
	}
}

// receiver takes the messages of one link, one after the other.
type receiver struct {
	server   *Server
	endpoint uint32 // the socket's number; 0 where a client has an address of its own
	packet   packet
	req      request
	topics   topicCache
}

// receive takes a datagram.
func (in *receiver) receive(b []byte, from route) {
	p := &in.packet
	err := p.decode(b)
	switch {
	case err != nil && !errors.Is(err, errMalformed):
		in.server.count(countMalformed) // RFC 7252, 3: silently ignored
		return
	case err != nil:
		in.server.count(countMalformed)
		in.reject(from)
		return
	}
	switch {
	case p.kind == message.Acknowledgement:
		if peer := in.server.known(from); peer != nil {
			peer.acknowledged(p.id)
		}
	case p.kind == message.Reset:
		if peer := in.server.known(from); peer != nil {
			peer.reset(p.id)
		}
	case p.code == codes.Empty || p.code >= 32:
		in.reject(from) // a ping (RFC 7252, 4.3), or an answer that nobody asked for
	default:
		in.request(len(b), from)
	}
}

// reject sends a Reset for a confirmable message; others are ignored.
func (in *receiver) reject(from route) {
	if in.packet.kind == message.Confirmable {
		in.server.sendEmpty(from, message.Reset, in.packet.id)
	}
}

// streamed carries out a request of a stream.
func (in *receiver) streamed(size int, from route, t *turn) {
	in.carryOut(&exchange{server: in.server, to: from, kind: message.Confirmable, token: in.packet.token, size: size, turn: t})
}

// request carries a request out, once.
func (in *receiver) request(size int, from route) {
	p, s := &in.packet, in.server
	x := &exchange{server: s, to: from, kind: p.kind, id: p.id, token: p.token, size: size}
	if p.code != codes.GET && p.code != codes.FETCH { // those may be carried out again (RFC 7252, 4.5)
		x.kept, x.key = true, s.ids.key(in.endpoint, from.addr, p.id)
		a, body, seen := s.ids.begin(x.key, time.Now())
		if seen {
			s.count(countDuplicate)
			x.repeat(a, body)
			return
		}
	}
	in.carryOut(x)
}

func (in *receiver) carryOut(x *exchange) {
	p, r := &in.packet, &in.req
	r.reset()
	r.exchange, r.code, r.options, r.payload = x, p.code, p.options, p.payload
	r.body = p.body
	in.handle(r)
	x.wait()
}

// handle checks the options and hands a request to its resource.
func (in *receiver) handle(r *request) {
	if err := r.read(); err != nil {
		if !r.confirmable() {
			r.silent(true) // RFC 7252, 5.4.1: rejected
			return
		}
		r.fail(err)
		return
	}
	r.server.route(r, &in.topics)
}

// repeat answers a request that came again as before.
func (x *exchange) repeat(a answer, body []byte) {
	if !x.confirmable() {
		return
	}
	switch a & answerState {
	case ackedAnswer:
		x.server.sendEmpty(x.to, message.Acknowledgement, x.id)
	case bareAnswer:
		x.to.link.send(&outgoingPacket{kind: message.Acknowledgement, code: a.code(), id: x.id, token: x.token}, x.to.addr)
	case bodyAnswer:
		x.to.write(body)
	}
}
