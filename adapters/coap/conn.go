package coap

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
)

const (
	// optionBytes is what a message may have beside its body.
	optionBytes = 16 << 10
	// answerBytes is what answers have beside their bodies at least; messages to
	// clients that take large ones leave more, up to optionBytes.
	answerBytes = 128
	// maxTurns bounds the messages of a client that wait for its requests.
	maxTurns = 16
)

// conn is one client's connection, TCP or TLS (RFC 8323). It is a stream. Its
// fields are the reader's own unless said otherwise.
type conn struct {
	server *Server
	conn   *adapters.Conn
	log    *slog.Logger
	login  login
	// feeding: the reader is at work and writes out what is added meanwhile.
	feeding atomic.Bool

	can     abilities
	greeted bool // a CSM was read
	leaving bool // a Release was read: nothing more is
	turns   turns

	limit atomic.Uint32 // of messages to the client, in bytes
	bert  atomic.Bool
}

func newConn(s *Server, ac *adapters.Conn) *conn {
	c := &conn{server: s, conn: ac, log: s.log}
	c.can.maxMessage = baseMessageSize
	c.turns.most = load{s.cfg.MaxStreamRequests, s.cfg.MaxStreamBytes}
	c.limit.Store(baseMessageSize)
	c.login = login{server: s, remote: ac.RemoteAddr(), ended: c.kicked, proof: auth.Credentials{
		Protocol: protocol, Listener: ac.Listener(), Certificate: ac.Certificate()}}
	if at, err := netip.ParseAddrPort(ac.RemoteAddr()); err == nil { // else it is a pipe
		c.login.proof.Remote = at.Addr().Unmap()
	}
	ac.OnRoom(c.resume)
	return c
}

func (c *conn) route() route { return route{link: c} }

// Feed implements adapters.Protocol.
func (c *conn) Feed(b []byte) (used int, err error) {
	c.feeding.Store(true)
	in := c.server.receivers.get()
	defer c.server.receivers.put(in)
	for {
		if c.leaving {
			return len(b), nil
		}
		n, err := c.frame(in, b[used:])
		if err != nil {
			return used, c.end(err)
		}
		if n == 0 {
			return used, nil
		}
		used += n
		c.awaitAnswers()
	}
}

// awaitAnswers reads nothing more while as much of the client's waits for the disk
// as may: the client is held up by its stream, and nobody else.
func (c *conn) awaitAnswers() {
	space := c.turns.crowded()
	if space == nil {
		return
	}
	c.server.count(countHeldUp)
	c.Idle()
	c.conn.Await(space)
	c.feeding.Store(true)
}

// frame takes one from the front of b; it returns 0 when it is not all there.
func (c *conn) frame(in *receiver, b []byte) (int, error) {
	h, ok, err := readFrameHeader(b)
	if err != nil {
		return 0, abort("%v", err)
	}
	if !ok {
		return 0, nil
	}
	if most := c.maxFrame(); h.size > uint64(most) {
		return 0, abort("a message of %d bytes; %d at most", h.size, most)
	}
	if uint64(len(b)) < h.size {
		return 0, nil
	}
	n := int(h.size)
	if err := in.packet.decodeFrame(b[:n], h); err != nil {
		c.server.count(countMalformed)
		return 0, abort("%v", err)
	}
	return n, c.take(in, n)
}

// maxFrame is the largest message that the client may send, before its CSM and
// after.
func (c *conn) maxFrame() int {
	if !c.greeted {
		return min(baseMessageSize, c.server.cfg.Limits.LoginBytes)
	}
	return c.server.maxFrame()
}

// maxFrame is the largest message of a stream; larger bodies come in blocks.
func (s *Server) maxFrame() int { return s.maxMessage() + optionBytes }

// take does what a message asks for.
func (c *conn) take(in *receiver, size int) error {
	p := &in.packet
	switch {
	case p.code>>5 == signalClass:
		return c.signal(p)
	case !c.greeted:
		return abort("the first message has to be a CSM") // RFC 8323, 3.3
	case p.code == codes.Empty, p.code>>5 >= 2 && p.code>>5 <= 5:
		c.conn.Chore()
		return nil // keeps the connection alive (RFC 8323, 3.4), or an answer that nobody asked for
	case p.code < 32:
		in.streamed(size, c.route(), c.turns.begin())
		return nil
	}
	return abort("messages of code %d.%02d are not known", p.code>>5, p.code&31)
}

// signal handles a message about the connection.
func (c *conn) signal(p *packet) error {
	c.conn.Chore()
	if !c.greeted && p.code != codes.CSM && p.code != codes.Abort {
		return abort("the first message has to be a CSM")
	}
	if p.code == codes.CSM {
		return c.hear(p)
	}
	if err := checkSignal(p.options); err != nil {
		return err
	}
	switch p.code {
	case codes.Ping:
		return c.pong(p)
	case codes.Pong:
		return nil
	case codes.Release:
		return c.release()
	case codes.Abort:
		c.log.Debug("client aborts", "remote", c.conn.RemoteAddr(), "reason", string(diagnostic(string(p.payload))))
		return adapters.ErrDone
	}
	return abort("signal %d.%02d is not known", p.code>>5, p.code&31)
}

// hear takes a CSM; the first one opens the connection.
func (c *conn) hear(p *packet) error {
	if err := c.can.take(p.options); err != nil {
		return err
	}
	c.limit.Store(c.can.maxMessage)
	c.bert.Store(c.can.bert())
	if c.greeted {
		return nil
	}
	c.greeted = true
	c.conn.LoggedIn(c.server.maxFrame(), 0)
	c.conn.Pace(c.server.paceOf(&c.login))
	c.send(csm(c.server.maxFrame()), netip.AddrPort{})
	return nil
}

// pong answers a Ping, with Custody when all requests before it are answered
// (RFC 8323, 5.4).
func (c *conn) pong(p *packet) error {
	m := &outgoingPacket{code: codes.Pong, token: p.token}
	if !hasOption(p.options, optionCustody) {
		c.send(m, netip.AddrPort{})
		return nil
	}
	if c.turns.waiting() >= maxTurns {
		return abort("too many pings wait for requests")
	}
	m.options = p.options[:0:0].Add(custody())
	c.turns.after(func() { c.send(m, netip.AddrPort{}) })
	return nil
}

// release ends the connection when all requests have their answers (RFC 8323,
// 5.5).
func (c *conn) release() error {
	c.leaving = true
	c.turns.after(func() { c.conn.Kick(adapters.ErrDone) })
	return nil
}

// end is what Feed returns after an error; the client is told.
func (c *conn) end(err error) error {
	var a *abortion
	if errors.As(err, &a) {
		c.send(a.packet(), netip.AddrPort{})
	}
	return err
}

// Idle implements adapters.Protocol.
func (c *conn) Idle() {
	c.feeding.Store(false)
	c.conn.Outbox.Flush()
}

// Shutdown implements adapters.Protocol.
func (c *conn) Shutdown() {
	c.send(&outgoingPacket{code: codes.Release, payload: []byte("the broker stops")}, netip.AddrPort{})
}

// Closed implements adapters.Protocol.
func (c *conn) Closed(err error) {
	reason := core.CloseLost
	switch {
	case err == nil:
		reason = core.CloseNormal
	case errors.Is(err, adapters.ErrKicked):
		reason = core.CloseShutdown
	case errors.Is(err, adapters.ErrTimeout):
		c.send((&abortion{text: "no CSM in time"}).packet(), netip.AddrPort{})
	case errors.Is(err, adapters.ErrFrameTooLarge):
		c.send((&abortion{text: err.Error()}).packet(), netip.AddrPort{})
	}
	c.server.leave(c.route(), &c.login, reason)
	if err != nil {
		c.log.Debug("connection ended", "remote", c.conn.RemoteAddr(), "error", err)
	}
}

// kicked is called by the core, from another goroutine, when it ended the
// session.
func (c *conn) kicked(why core.EndReason) {
	c.send((&abortion{text: why.String()}).packet(), netip.AddrPort{})
	c.conn.Kick(fmt.Errorf("session: %s", why))
}

// send implements link. It may be called from any goroutine.
func (c *conn) send(m *outgoingPacket, _ netip.AddrPort) {
	out := c.conn.Outbox
	buf := out.BeginAnswer()
	buf = m.appendFrame(buf)
	var b core.Batch // Idle writes, or Flush below
	out.EndLarge(&b, buf, m.payload, nil)
	if !c.feeding.Load() {
		out.Flush()
	}
}

// identity implements link.
func (c *conn) identity() (*core.Session, error) { return c.login.get() }

// proven implements link: there was a handshake.
func (c *conn) proven(netip.AddrPort) bool { return true }

// ready implements stream.
func (c *conn) ready() bool {
	_, ok := c.conn.Outbox.BeginDelivery()
	if ok {
		c.conn.Outbox.Cancel()
	}
	return ok
}

// room implements stream.
func (c *conn) room() (int, bool) {
	n := int(c.limit.Load())
	beside := answerBytes + min(max(n-baseMessageSize, 0)/8, optionBytes)
	return max(n-beside, 16), c.bert.Load()
}

// resume is called when there is room for notifications again.
func (c *conn) resume(*core.Batch) {
	if p := c.server.known(c.route()); p != nil {
		p.resume()
	}
}
