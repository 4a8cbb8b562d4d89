package coap

import (
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/pion/dtls/v3"

	"entrepot/adapters"
)

// maxInbox bounds the datagrams that wait for an association; more are lost.
const maxInbox = 64

// carrier is what the DTLS library reads and writes of one association: the
// datagrams that are its own. It is a net.PacketConn.
//
// The library makes a cookie of its own and begins with a ClientHello that has
// none, but an association is only made when there is one with a cookie of ours.
// So the carrier gives it that message twice: first as it was before there was a
// cookie, and as it came when the library has answered. That answer is kept back,
// and our cookie put into the place of the library's.
//
// While the library works on the handshake its association holds a place at the
// door, and none while it waits for the client.
type carrier struct {
	socket *dtlsSocket
	guest  *adapters.Guest
	// pause is called before a wait for a place and resume after it; set before the
	// handshake.
	pause, resume func()
	tls           *dtls.Conn // set before the handshake
	cookie        []byte
	shift         uint64 // of the numbers of records in the clear, see WriteTo

	mu    sync.Mutex
	hello []byte // the datagram with the cookie, as long as nothing may come before it
	in    []arrival
	wake  chan struct{}
	dead  time.Time
	halt  chan struct{} // closed when nothing is read any more: dead is past, or it is shut
	shut  bool
	busy  bool // the library makes its answer to the ClientHello
	open  bool // the handshake is done
	last  netip.AddrPort
	addr  net.Addr // last, as the library has it
}

type arrival struct {
	b    []byte
	from netip.AddrPort
}

func newCarrier(k *dtlsSocket, guest *adapters.Guest, h *hello, datagram []byte, from netip.AddrPort) *carrier {
	c := &carrier{socket: k, guest: guest, busy: true,
		wake: make(chan struct{}), halt: make(chan struct{}), hello: slices.Clone(datagram), cookie: slices.Clone(h.cookie),
		shift: h.sequence - 1, last: from, addr: net.UDPAddrFromAddrPort(from)}
	c.add(h.first(), from)
	return c
}

// push copies a datagram that came for the association.
func (c *carrier) push(b []byte, from netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello == nil { // else the client sent it again
		c.add(slices.Clone(b), from)
	}
}

// add keeps a datagram. With mu held.
func (c *carrier) add(b []byte, from netip.AddrPort) {
	if c.shut || len(c.in) >= maxInbox {
		return
	}
	c.in = append(c.in, arrival{b, from})
	c.changed()
}

// changed wakes the reader. With mu held.
func (c *carrier) changed() {
	close(c.wake)
	c.wake = make(chan struct{})
}

// ReadFrom implements net.PacketConn.
func (c *carrier) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		c.work()
		n, from, wake, err := c.take(b)
		if wake == nil {
			return n, from, err
		}
		<-wake
	}
}

// work gets a place for what came in during the handshake, or lets go of it when
// nothing did. The library reads on when it has worked on what it read, but for
// its answer to the ClientHello, which it sends first.
func (c *carrier) work() {
	c.mu.Lock()
	open, busy, some, halt := c.open, c.busy, len(c.in) > 0, c.halt
	c.mu.Unlock()
	switch {
	case open:
	case some:
		waited := false
		// take tells why it ended when it did not get one.
		_ = c.guest.Work(halt, func() {
			waited = true
			c.pause()
		})
		if waited {
			c.resume()
		}
	case !busy:
		c.guest.Rest()
	}
}

// opened tells that the handshake is done.
func (c *carrier) opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
}

// answers notes that the library has made its answer.
func (c *carrier) answers() {
	c.mu.Lock()
	busy := c.busy
	c.busy = false
	c.mu.Unlock()
	if busy {
		c.guest.Rest()
	}
}

// take returns what to wait for when there is nothing.
func (c *carrier) take(b []byte) (int, net.Addr, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.shut:
		return 0, nil, nil, net.ErrClosed
	case !c.dead.IsZero() && !time.Now().Before(c.dead):
		return 0, nil, nil, os.ErrDeadlineExceeded
	case len(c.in) == 0:
		return 0, nil, c.wake, nil
	}
	d := c.in[0]
	if c.in = c.in[1:]; len(c.in) == 0 {
		c.in = nil
	}
	if d.from != c.last {
		c.last, c.addr = d.from, net.UDPAddrFromAddrPort(d.from)
	}
	return copy(b, d.b), c.addr, nil, nil
}

// WriteTo implements net.PacketConn. The library numbers its records from 0, of
// which the HelloVerifyRequest has one; the ServerHello is to have the number of
// the ClientHello (RFC 6347, 4.2.1).
func (c *carrier) WriteTo(b []byte, to net.Addr) (int, error) {
	if isHelloVerify(b) {
		c.answered()
		return len(b), nil
	}
	c.answers()
	at, ok := to.(*net.UDPAddr)
	if !ok {
		return 0, net.InvalidAddrError("no UDP address")
	}
	out := b
	if c.shift > 0 && len(b) > recordHeader && epochOf(b) == 0 {
		out = shifted(b, c.shift)
	}
	c.socket.write(out, at.AddrPort())
	return len(b), nil
}

// shifted is a datagram whose records in the clear have later numbers.
func shifted(b []byte, by uint64) []byte {
	b = slices.Clone(b)
	for rest := b; len(rest) > recordHeader; {
		n := recordSize(rest, 0)
		if n == 0 || epochOf(rest) > 0 {
			break
		}
		setSequence(rest, sequenceOf(rest)+by)
		rest = rest[n:]
	}
	return b
}

// answered is called by the library's own goroutine for the handshake, which is
// the one that compares cookies. Without its cookie the handshake fails.
func (c *carrier) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello == nil {
		return
	}
	state := reflect.ValueOf(c.tls).Elem().FieldByName("state")
	if cookie := state.FieldByName("cookie"); cookie.IsValid() {
		copy(cookie.Bytes(), c.cookie)
	}
	c.add(c.hello, c.last)
	c.hello = nil
}

// Close implements net.PacketConn; the socket stays.
func (c *carrier) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.shut {
		c.shut, c.in = true, nil
		c.stop()
		c.changed()
	}
	return nil
}

// LocalAddr implements net.PacketConn.
func (c *carrier) LocalAddr() net.Addr { return c.socket.conn.LocalAddr() }

// SetDeadline implements net.PacketConn.
func (c *carrier) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.PacketConn. The library sets one that is past,
// to stop its reader, or none.
func (c *carrier) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = t
	if !t.IsZero() && !time.Now().Before(t) {
		c.stop()
	} else if !c.shut && isClosed(c.halt) {
		c.halt = make(chan struct{})
	}
	c.changed()
	return nil
}

// stop closes halt. With mu held.
func (c *carrier) stop() {
	if !isClosed(c.halt) {
		close(c.halt)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// SetWriteDeadline implements net.PacketConn: a write does not wait.
func (c *carrier) SetWriteDeadline(time.Time) error { return nil }
