package coap

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// maxPending bounds the confirmable messages that wait for one client's
// acknowledgement of another.
const maxPending = 64

// unknownPace is how often a client is sent something as long as its round-trip
// time is not known (RFC 7641, 4.5.1).
const unknownPace = 3 * time.Second

// owner is what a confirmable message is sent for; lost is called, with the
// peer's mu held, when the client rejects it or is not heard.
type owner interface{ lost() }

// peer is a client that the broker sends something to by itself. It is there
// while it has observers or something to send.
type peer struct {
	server *Server
	to     route
	stream stream // to.link, where it is one

	mu        sync.Mutex
	gone      bool // out of the server's table; look again
	proven    bool // it is where it says
	observers []*observer
	dirty     []*observer // those with something new, in the order of that
	waiting   []pendingMessage
	flight    flight
	rtt       time.Duration // 0: not known
	ready     time.Time     // when the next non-confirmable notification may go
	pacer     *time.Timer
	pacing    bool
	nextID    uint16
}

type pendingMessage struct {
	packet outgoingPacket
	owner  owner
}

// flight is the confirmable message that is under way (NSTART is 1, RFC 7252,
// 4.7).
type flight struct {
	active bool
	id     uint16
	tries  int
	wait   time.Duration
	sent   time.Time
	bytes  []byte
	owner  owner // nil for an answer
	timer  *time.Timer
}

// with calls f with the peer of a route and its mu held; a peer that has nothing
// left to do is forgotten.
func (s *Server) with(to route, f func(*peer)) {
	for {
		p := s.peer(to)
		p.mu.Lock()
		if p.gone {
			p.mu.Unlock()
			continue
		}
		f(p)
		p.rest()
		p.mu.Unlock()
		return
	}
}

// peer returns the peer of a route.
func (s *Server) peer(to route) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[to]
	if p == nil {
		p = &peer{server: s, to: to, stream: to.stream(), nextID: uint16(rand.Uint32())}
		s.peers[to] = p
	}
	return p
}

// known is the peer of a route, nil when there is none.
func (s *Server) known(to route) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[to]
}

// rest forgets a peer that has nothing to do. With mu held.
func (p *peer) rest() {
	if p.gone || p.flight.active || len(p.observers)+len(p.waiting) > 0 {
		return
	}
	p.gone = true
	p.stopTimers()
	p.server.mu.Lock()
	delete(p.server.peers, p.to)
	p.server.mu.Unlock()
}

func (p *peer) stopTimers() {
	for _, t := range []*time.Timer{p.flight.timer, p.pacer} {
		if t != nil {
			t.Stop()
		}
	}
	p.pacing = false
}

// takeID is the next message id. With mu held.
func (p *peer) takeID() uint16 {
	p.nextID++
	return p.nextID
}

// confirm sends a message that the client has to acknowledge, after those that
// wait already; false when too many do.
func (s *Server) confirm(to route, m *outgoingPacket, o owner) bool {
	took := false
	s.with(to, func(p *peer) { took = p.enqueue(m, o) })
	return took
}

// enqueue is confirm, with mu held. Over a stream it is sent or, when the client
// is slow to read, not; a last word always is.
func (p *peer) enqueue(m *outgoingPacket, o owner) bool {
	if p.stream != nil {
		if o != nil && !p.stream.ready() {
			p.server.count(countUnsent)
			return false
		}
		p.to.link.send(m, p.to.addr)
		return true
	}
	if len(p.waiting) >= maxPending {
		p.server.count(countUnsent)
		return false
	}
	p.waiting = append(p.waiting, pendingMessage{*m, o})
	p.pump(time.Now())
	return true
}

// pump sends what may be sent. With mu held.
func (p *peer) pump(now time.Time) {
	for !p.gone && !p.flight.active {
		if len(p.waiting) > 0 {
			m := p.waiting[0]
			p.waiting = p.waiting[1:]
			if len(p.waiting) == 0 {
				p.waiting = nil
			}
			p.fly(&m.packet, m.owner, now)
			continue
		}
		if len(p.dirty) == 0 || !p.notify(now) {
			return
		}
	}
}

// fly sends a confirmable message and waits for its acknowledgement. With mu
// held.
func (p *peer) fly(m *outgoingPacket, o owner, now time.Time) {
	m.kind, m.id = message.Confirmable, p.takeID()
	f := &p.flight
	f.active, f.id, f.tries, f.sent, f.owner = true, m.id, 0, now, o
	f.bytes = m.append(nil)
	c := &p.server.cfg
	f.wait = time.Duration(float64(c.AckTimeout) * (1 + rand.Float64()*(c.AckRandom-1)))
	if f.timer == nil {
		f.timer = time.AfterFunc(f.wait, p.retransmit)
	} else {
		f.timer.Reset(f.wait)
	}
	p.to.write(f.bytes)
}

// retransmit sends the message under way again, with the newest value when it
// is a notification (RFC 7641, 4.5.2), or gives up.
func (p *peer) retransmit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.flight
	if !f.active || p.gone || time.Since(f.sent) < f.wait {
		return
	}
	if f.tries >= p.server.cfg.MaxRetransmit {
		p.server.count(countUnheard)
		p.land()
		p.rest()
		return
	}
	f.tries++
	f.wait *= 2
	f.sent = time.Now()
	if o, ok := f.owner.(*observer); ok && o.dirty {
		if m, ok := o.render(f.sent); ok {
			m.kind, m.id = message.Confirmable, p.takeID()
			f.id, o.last = m.id, m.id
			f.bytes = m.append(f.bytes[:0])
		}
	}
	f.timer.Reset(f.wait)
	p.server.count(countAgain)
	p.to.write(f.bytes)
}

// land ends the message under way as lost, and goes on. With mu held.
func (p *peer) land() {
	o := p.flight.owner
	p.end()
	if o != nil {
		o.lost()
	}
	p.pump(time.Now())
}

// end makes room for the next message. With mu held.
func (p *peer) end() {
	f := &p.flight
	f.active, f.owner, f.bytes = false, nil, nil
	if f.timer != nil {
		f.timer.Stop()
	}
}

// acknowledged takes an acknowledgement; ids that nothing waits for are ignored
// (RFC 7252, 4.2).
func (p *peer) acknowledged(id uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.flight
	if p.gone || !f.active || f.id != id {
		return
	}
	now := time.Now()
	if f.tries == 0 { // otherwise it may be of an earlier one
		p.measured(now.Sub(f.sent))
	}
	p.server.echo.prove(p.to)
	if o, ok := f.owner.(*observer); ok {
		o.confirmed = now
	}
	p.end()
	p.pump(now)
	p.rest()
}

// measured takes a round-trip time into account. With mu held.
func (p *peer) measured(d time.Duration) {
	if p.rtt == 0 {
		p.rtt = max(d, 1)
		return
	}
	p.rtt += (d - p.rtt) / 8
}

// reset takes a Reset: the client does not want what it was sent (RFC 7641,
// 3.6).
func (p *peer) reset(id uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	if p.flight.active && p.flight.id == id {
		p.land()
		p.rest()
		return
	}
	for _, o := range p.observers {
		if o.last == id && o.sent {
			o.lost()
			break
		}
	}
	p.rest()
}

// mark notes that an observer has something new.
func (p *peer) mark(o *observer, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.markLocked(o, now)
}

func (p *peer) markLocked(o *observer, now time.Time) {
	if o.gone || o.held || o.dirty {
		return
	}
	o.dirty = true
	p.dirty = append(p.dirty, o)
	p.pump(now)
}

// notify sends the next notification; false when it has to wait. With mu held.
func (p *peer) notify(now time.Time) bool {
	if p.stream != nil && !p.stream.ready() {
		return false
	}
	o := p.dirty[0]
	confirm := p.stream == nil && o.confirms(now)
	if !confirm && p.stream == nil && p.server.cfg.Pacing && now.Before(p.ready) {
		p.pause(p.ready.Sub(now))
		return false
	}
	if p.dirty = p.dirty[1:]; len(p.dirty) == 0 {
		p.dirty = nil
	}
	o.dirty = false
	m, ok := o.render(now)
	if !ok {
		return true
	}
	if o.watch.more(o.cursor.Load()) {
		o.dirty = true
		p.dirty = append(p.dirty, o)
	}
	o.watch.prune()
	last := m.code != codes.Content
	p.emit(o, m, confirm || last && p.stream == nil, now)
	if last {
		o.remove()
	}
	return true
}

// emit sends a notification. With mu held.
func (p *peer) emit(o *observer, m *outgoingPacket, confirm bool, now time.Time) {
	o.watch.session.Traffic.CountOut(len(m.payload))
	if p.stream != nil {
		p.to.link.send(m, p.to.addr)
		return
	}
	o.sent = true
	if confirm {
		o.since, o.confirmed = 0, now
		p.fly(m, o, now)
		o.last = m.id
		return
	}
	o.since++
	m.kind, m.id = message.NonConfirmable, p.takeID()
	o.last = m.id
	pace := p.rtt
	if pace == 0 {
		pace = unknownPace
	}
	p.ready = now.Add(pace)
	p.to.link.send(m, p.to.addr)
}

// pause pumps again later. With mu held.
func (p *peer) pause(d time.Duration) {
	if p.pacing {
		return
	}
	p.pacing = true
	if p.pacer == nil {
		p.pacer = time.AfterFunc(d, p.resume)
		return
	}
	p.pacer.Reset(d)
}

func (p *peer) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pacing = false
	p.pump(time.Now())
	p.rest()
}

// leave ends all that the peer has: its connection is gone, or the broker stops.
func (p *peer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.observers) > 0 {
		p.observers[len(p.observers)-1].remove()
	}
	for len(p.waiting) > 0 {
		m := p.waiting[0]
		p.waiting = p.waiting[1:]
		if m.owner != nil {
			m.owner.lost()
		}
	}
	if f := p.flight; f.active {
		p.end()
		if f.owner != nil {
			f.owner.lost()
		}
	}
	p.rest()
}
