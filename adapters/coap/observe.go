package coap

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/routing"
)

const (
	// confirmEvery: so many notifications after a confirmable one, the next is
	// one too; also the first, whose answer says that somebody listens.
	confirmEvery = 31
	// confirmWithin: a notification is confirmable when none was for so long.
	confirmWithin = time.Minute
)

// observer is one client's observation of a watch. Its fields, but for watch's
// own, are under the peer's mu.
type observer struct {
	peer  *peer
	watch *watch
	place int // in watch.observers; under watch.mu
	token token

	cursor    atomic.Uint64 // the version that was sent last; read by the watch, too
	confirmed time.Time
	accept    int32 // noFormat: anything
	last      uint16
	since     uint8
	szx       uint8
	budget    uint8 // bytes of the request
	blocked   bool  // the client asked for blocks of szx
	sent      bool  // last counts
	dirty     bool  // in peer.dirty
	held      bool  // its first answer is not out yet
	gone      bool
}

// confirms tells whether the next notification has to be confirmable.
func (o *observer) confirms(now time.Time) bool {
	return o.since >= confirmEvery || now.Sub(o.confirmed) >= confirmWithin
}

// unsure tells that the last notification may have been lost.
func (o *observer) unsure() bool { return o.sent && o.since > 0 }

// lost implements owner.
func (o *observer) lost() {
	if !o.gone {
		o.peer.server.count(countLost)
	}
	o.remove()
}

// remove ends the observation. With the peer's mu held.
func (o *observer) remove() {
	if o.gone {
		return
	}
	p := o.peer
	o.gone = true
	p.observers = slices.DeleteFunc(p.observers, func(x *observer) bool { return x == o })
	if o.dirty {
		o.dirty = false
		p.dirty = slices.DeleteFunc(p.dirty, func(x *observer) bool { return x == o })
	}
	if p.flight.owner == owner(o) {
		p.flight.owner = nil
	}
	o.watch.leave(o)
}

// render makes the next notification: the newest value that the client has not
// got. ok is false when it has all. With the peer's mu held.
func (o *observer) render(now time.Time) (m *outgoingPacket, ok bool) {
	v, ok := o.watch.next(o.cursor.Load())
	if !ok {
		return nil, false
	}
	o.cursor.Store(v.version)
	res := &response{code: codes.Content}
	switch {
	case v.msg == nil:
		res = &response{code: v.gone}
	case o.watch.topic.IsZero():
		o.describeElsewhere(res, v, now)
	default:
		o.describe(res, v, now)
	}
	if res.code == codes.Content {
		res.addUint(message.Observe, uint32(v.version)&0xffffff)
	}
	return &outgoingPacket{code: res.code, token: o.token, options: res.options, payload: res.payload}, true
}

// describe is a notification of a topic's own resource; what does not fit into a
// block is asked for by the client (RFC 7959, 2.6).
func (o *observer) describe(res *response, v value, now time.Time) {
	describe(res, v.msg, now)
	res.add(message.ETag, o.peer.server.etag(v.msg))
	if o.accept != noFormat && int(o.accept) != formatOfMessage(v.msg) && len(v.msg.Payload) > 0 {
		*res = response{code: codes.NotAcceptable}
		return
	}
	b, size := o.fitting()
	firstBlock(res, b, size)
}

// firstBlock cuts a body that is larger than its block.
func firstBlock(res *response, b block, size int) {
	if len(res.payload) <= size {
		return
	}
	size = min(size, b.span(size))
	b.more = true
	res.addUint(message.Size2, uint32(len(res.payload)))
	res.add(message.Block2, b.value())
	res.payload = res.payload[:size]
}

// fitting is the block of the next notification, and how much may be in a message
// without one: little as long as nothing says that the client is where its
// request came from.
func (o *observer) fitting() (block, int) {
	p := o.peer
	if p.stream != nil && !o.blocked {
		room, szx := p.server.room(p.to)
		return block{szx: szx}, room
	}
	b := block{szx: o.datagramSZX()}
	return b, b.size()
}

func (o *observer) datagramSZX() uint8 {
	p := o.peer
	if !p.proven {
		p.proven = p.server.echo.proves(p.to)
	}
	if p.proven {
		return o.szx
	}
	return min(o.szx, szxOf(amplification*int(o.budget)))
}

// describeElsewhere is a notification of a filter's resource: the topic is its
// Location-Path, and what does not fit into a block is read there.
func (o *observer) describeElsewhere(res *response, v value, now time.Time) {
	describe(res, v.msg, now)
	addLocation(res, topicRoot, v.msg.Topic)
	if _, size := o.fitting(); len(res.payload) > size {
		res.payload = nil
	}
}

// addLocation puts a topic's path into an answer; one that CoAP cannot write is
// left out.
func addLocation(res *response, root string, t routing.Topic) {
	segments, err := routing.Path.PrintTopic(t)
	if err != nil {
		return
	}
	res.add(message.LocationPath, []byte(root))
	for _, s := range segments {
		res.add(message.LocationPath, []byte(s))
	}
}

// describe puts a message into an answer (names.md, section 4).
func describe(res *response, m *core.Message, now time.Time) {
	res.payload = m.Payload
	res.addFormat(formatOfMessage(m))
	if left, ok := m.Remaining(now); ok {
		res.addUint(message.MaxAge, seconds(left))
	}
}

// formatOfMessage is a message's Content-Format.
func formatOfMessage(m *core.Message) int {
	if m.Props == nil {
		return noFormat
	}
	return formatOf(m.Props.ContentType, m.Props.ContentEncoding)
}

// seconds is a time in whole seconds, rounded up, so that what is left of one is
// not nothing.
func seconds(d time.Duration) uint32 {
	return uint32(min(int64(d+time.Second-1)/int64(time.Second), 1<<32-1))
}

// observeResource registers the client of a request as an observer of a filter,
// or of the one topic that it is, and answers with what first makes the answer
// of. It may block.
func (r *request) observeResource(session *core.Session, f routing.Filter, first func(w *watch) (*response, error)) {
	s := r.server
	w, err := s.join(session, f)
	if err != nil {
		r.fail(err)
		return
	}
	o := &observer{watch: w, token: r.token, accept: int32(r.accept), since: confirmEvery, held: true,
		szx: szxOf(s.cfg.MaxBlock), blocked: r.block2.there, budget: uint8(min(r.size, 255)), confirmed: time.Now()}
	if r.block2.there {
		o.szx = min(o.szx, r.block2.szx) // over a stream, too: it asks for small messages
	}
	taken := s.observe(r.to, o)
	res, err := first(w)
	if err != nil {
		s.with(r.to, func(*peer) { o.remove() })
		r.fail(err)
		return
	}
	good := res.code == codes.Content || res.code == codes.Valid
	if taken && good {
		res.addUint(message.Observe, uint32(o.cursor.Load())&0xffffff)
	}
	good = r.respond(res) && good
	s.with(r.to, func(p *peer) {
		o.held = false
		if !taken || !good {
			o.remove()
		} else if w.more(o.cursor.Load()) {
			p.markLocked(o, time.Now())
		}
	})
}

// observe adds an observer, which takes the place of one with the same token;
// false when there are too many, or the resource has no room.
func (s *Server) observe(to route, o *observer) (taken bool) {
	s.with(to, func(p *peer) {
		o.peer = p
		for _, old := range p.observers {
			if old.token == o.token {
				old.remove()
				break
			}
		}
		if len(p.observers) >= s.cfg.MaxPeerObservers || !o.watch.enter(o) {
			o.watch.leave(o)
			o.gone = true
			return
		}
		p.observers = append(p.observers, o)
		taken = true
	})
	return taken
}

// forgetObserver ends the observation with a request's token.
func (r *request) forgetObserver() {
	p := r.server.known(r.to)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.observers {
		if o.token == r.token {
			o.remove()
			break
		}
	}
	p.rest()
}
