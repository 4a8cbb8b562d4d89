package coap

import (
	"net/netip"

	"entrepot/core"
)

// link is a way to clients: a UDP socket with all of its clients, or the
// connection of one.
type link interface {
	// send writes one message now.
	send(m *outgoingPacket, to netip.AddrPort)
	// identity is the session that its clients act by.
	identity() (*core.Session, error)
	// proven tells that a client is where it says.
	proven(at netip.AddrPort) bool
}

// datagrams is a link that may lose, double and reorder messages.
type datagrams interface {
	link
	// write sends a message as it was written before; a datagram that is lost is
	// not told.
	write(b []byte, to netip.AddrPort)
}

// stream is a link to one client that loses nothing while it lives (RFC 8323):
// there are no acknowledgements, retransmissions and message ids.
type stream interface {
	link
	// ready tells whether the client takes another notification; if not, its
	// peer is resumed when it does.
	ready() bool
	// room is how many bytes of a body one message to the client may hold, and
	// whether the client takes BERT blocks (RFC 8323, 6).
	room() (bytes int, bert bool)
}

// route is where a client is; it compares.
type route struct {
	link link
	addr netip.AddrPort
}

// stream is the route's link if it is one, else nil.
func (to route) stream() stream {
	s, _ := to.link.(stream)
	return s
}

// where is the client's address, which a DTLS client's need not be for good.
func (to route) where() netip.AddrPort {
	if a, ok := to.link.(*association); ok {
		return a.where()
	}
	return to.addr
}

// host is the client's network address; not valid for a pipe.
func (to route) host() netip.Addr {
	if c, ok := to.link.(*conn); ok {
		return c.conn.Peer()
	}
	return to.where().Addr()
}

// write sends bytes again that were a datagram before.
func (to route) write(b []byte) {
	if d, ok := to.link.(datagrams); ok {
		d.write(b, to.addr)
	}
}

// room is how many bytes of a body fit into one message to a client, and the
// exponent of the largest block that it may be cut into.
func (s *Server) room(to route) (bytes int, szx uint8) {
	st := to.stream()
	if st == nil {
		return s.cfg.MaxBlock, szxOf(s.cfg.MaxBlock)
	}
	bytes, bert := st.room()
	if szx = szxOf(bytes); bert && szx == maxSZX {
		szx = bertSZX
	}
	return bytes, szx
}
