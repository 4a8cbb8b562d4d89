package coap

import (
	"bytes"
	"hash/maphash"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// block is a Block1 or Block2 option (RFC 7959, 2.2).
type block struct {
	there bool
	num   uint32
	more  bool
	szx   uint8
}

// Exponents of block sizes: the largest, and the one that means any number of
// the largest in one message (BERT; RFC 8323, 6).
const (
	maxSZX  = 6
	bertSZX = 7
)

// read is false for what is no block: more than 3 bytes, or for datagrams the
// size that is reserved.
func (b *block) read(v []byte, bert bool) bool {
	if len(v) > 3 || !bert && len(v) > 0 && v[len(v)-1]&7 == bertSZX {
		return false
	}
	n := uintOf(v)
	*b = block{there: true, num: n >> 4, more: n&8 != 0, szx: uint8(n & 7)}
	return true
}

func (b block) value() []byte {
	n := b.num<<4 | uint32(b.szx)
	if b.more {
		n |= 8
	}
	return uintBytes(n)
}

// size is the block's in bytes; of BERT blocks that of the parts.
func (b block) size() int { return 16 << min(b.szx, maxSZX) }

// span is how many bytes such a block may have in a message with so much room.
func (b block) span(room int) int {
	if b.szx == bertSZX {
		return max(room/b.size(), 1) * b.size()
	}
	return b.size()
}

// holds tells whether a body's part of n bytes may be in that block.
func (b block) holds(n int) bool {
	switch {
	case b.szx == bertSZX:
		return !b.more || n > 0 && n%b.size() == 0
	case b.more:
		return n == b.size()
	}
	return n <= b.size()
}

// offset is where the block begins in the body.
func (b block) offset() int { return int(b.num) * b.size() }

// szxOf is the exponent of a block size, which is a power of two.
func szxOf(size int) uint8 {
	n := uint8(0)
	for n < maxSZX && 16<<(n+1) <= size {
		n++
	}
	return n
}

// cut makes the block of a body that the client asks for; false when there is
// no such block.
func (r *request) cut(res *response) bool {
	want := r.block2
	room, most := r.server.room(r.to)
	if len(res.payload) <= room && !want.there {
		return true
	}
	if !want.there || want.szx > most {
		at := want.offset()
		want.szx = most
		want.num = uint32(at / want.size())
	}
	at := want.offset()
	if at > 0 && at >= len(res.payload) {
		return false
	}
	end := min(at+want.span(room), len(res.payload))
	want.more = end < len(res.payload)
	if at == 0 && want.more {
		res.addUint(message.Size2, uint32(len(res.payload)))
	}
	res.payload = res.payload[at:end]
	res.add(message.Block2, want.value())
	return true
}

// respond answers with a body of any size, in blocks; false when the client got
// something else.
func (r *request) respond(res *response) bool {
	if err := r.takes(res); err != nil {
		r.fail(err)
		return false
	}
	if !r.cut(res) {
		r.fail(refuse(codes.BadOption, "no such block"))
		return false
	}
	if !r.server.echo.allows(r, len(res.payload)) {
		r.answer(r.server.echo.challenge(r.to))
		return false
	}
	r.answer(res)
	return true
}

// transfer names a body that comes or goes in blocks: whose, and of what.
type transfer struct {
	to     route
	digest uint64
}

func (s *Server) transferOf(r *request) transfer {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_ = h.WriteByte(byte(r.code)) // never fails
	for _, parts := range [...][][]byte{r.path, r.query, {r.tag}} {
		for _, p := range parts {
			_ = h.WriteByte(byte(len(p)))
			_, _ = h.Write(p)
		}
		_ = h.WriteByte(0xff)
	}
	return transfer{r.to, h.Sum64()}
}

// assemblies are the bodies that clients send in blocks and have not ended.
type assemblies struct {
	server *Server

	mu    sync.Mutex
	open  map[transfer]*assembly
	peers map[route]int
	bytes int
}

type assembly struct {
	body   []byte
	format int
	timer  *time.Timer
}

// add takes a block of a body; whole is set with the last one. Errors are
// refusals.
func (a *assemblies) add(r *request) (whole []byte, done bool, err error) {
	b := r.block1
	if !b.holds(len(r.payload)) {
		return nil, false, refuse(codes.BadRequest, "a block of %d bytes holds %d", b.size(), len(r.payload))
	}
	most := r.server.maxMessage()
	if b.offset()+len(r.payload) > most || int(r.size1) > most {
		return nil, false, refuse(codes.RequestEntityTooLarge, "at most %d bytes", most)
	}
	key := a.server.transferOf(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.num == 0 {
		a.end(key)
		if !b.more {
			return r.payload, true, nil
		}
	}
	as, err := a.find(key, r)
	if err != nil {
		return nil, false, err
	}
	switch at := b.offset(); {
	case at+len(r.payload) <= len(as.body) && bytes.Equal(as.body[at:at+len(r.payload)], r.payload):
		// Came again.
	case at != len(as.body):
		return nil, false, refuse(codes.RequestEntityIncomplete, "block %d is not the next", b.num)
	case a.bytes+len(r.payload) > a.server.cfg.AssemblyBytes:
		a.end(key)
		return nil, false, &refusal{code: codes.ServiceUnavailable, text: "too many unfinished uploads", maxAge: 30}
	default:
		as.body = append(as.body, r.payload...)
		a.bytes += len(r.payload)
	}
	as.timer.Reset(a.server.cfg.exchangeLifetime() / 2)
	if b.more {
		return nil, false, nil
	}
	whole = as.body
	a.end(key)
	return whole, true, nil
}

// find returns the upload that a block belongs to; the first one opens it.
// With mu held.
func (a *assemblies) find(key transfer, r *request) (*assembly, error) {
	if as := a.open[key]; as != nil {
		if as.format != r.format {
			return nil, refuse(codes.RequestEntityIncomplete, "the content format changed")
		}
		return as, nil
	}
	if r.block1.num > 0 {
		return nil, refuse(codes.RequestEntityIncomplete, "block %d comes first", r.block1.num)
	}
	if a.peers[key.to] >= a.server.cfg.Assemblies {
		return nil, &refusal{code: codes.ServiceUnavailable, text: "too many unfinished uploads", maxAge: 30}
	}
	as := &assembly{format: r.format}
	as.timer = time.AfterFunc(a.server.cfg.exchangeLifetime()/2, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.open[key] == as {
			a.end(key)
		}
	})
	a.open[key] = as
	a.peers[key.to]++
	return as, nil
}

// end forgets an upload. With mu held.
func (a *assemblies) end(key transfer) {
	as := a.open[key]
	if as == nil {
		return
	}
	as.timer.Stop()
	a.bytes -= len(as.body)
	delete(a.open, key)
	if a.peers[key.to]--; a.peers[key.to] == 0 {
		delete(a.peers, key.to)
	}
}

// leave ends those of a route.
func (a *assemblies) leave(to route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peers[to] == 0 {
		return
	}
	for key := range a.open {
		if key.to == to {
			a.end(key)
		}
	}
}

// close ends all.
func (a *assemblies) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.open {
		a.end(key)
	}
}

// assemble takes a block of an upload: false when the request is answered and
// there is nothing more to do. With the last block the payload is the whole
// body, which nobody else has.
func (r *request) assemble() (whole bool) {
	b := r.block1
	if most := szxOf(r.server.cfg.MaxBlock); b.szx > most && r.exchange.turn == nil {
		if b.num == 0 && b.more { // answered by a smaller size: the client begins again with it
			res := refusalOf(refuse(codes.RequestEntityTooLarge, "blocks of %d bytes at most", 16<<most))
			res.add(message.Block1, block{szx: most, more: b.more}.value())
			r.answer(res)
			return false
		}
	}
	body, done, err := r.server.uploads.add(r)
	switch {
	case err != nil:
		res := refusalOf(err)
		if res.code == codes.RequestEntityTooLarge {
			res.addUint(message.Size1, uint32(r.server.maxMessage()))
		}
		r.exchange.upload = b.value()
		r.answer(res)
		return false
	case !done:
		res := &response{code: codes.Continue}
		res.add(message.Block1, b.value())
		r.answer(res)
		return false
	}
	r.payload, r.exchange.upload = body, b.value()
	return true
}

// pages are answers to other requests than GET that did not fit into a block;
// the client asks for the rest by the same request (RFC 7959, 2.7).
type pages struct {
	mu    sync.Mutex
	open  map[transfer]*page
	most  int
	room  int // for the bytes of all
	bytes int
}

// maxListBytes and maxAnswerBytes bound what is kept of lists, which can be made
// again, and of other answers. A message that was taken from a queue is in memory
// once, however it is counted.
const (
	maxListBytes   = 64 << 20
	maxAnswerBytes = 256 << 20
)

type page struct {
	res   response
	timer *time.Timer
}

// keep holds an answer back for its later blocks.
func (p *pages) keep(key transfer, res response, life time.Duration) {
	pg := &page{res: res}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(key)
	if len(p.open) >= p.most || p.bytes+len(res.payload) > p.room {
		return // the client gets 4.08 for the second block, or what was made anew
	}
	pg.timer = time.AfterFunc(life, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open[key] == pg {
			p.end(key)
		}
	})
	p.open[key] = pg
	p.bytes += len(res.payload)
}

// drop forgets an answer that the client has.
func (p *pages) drop(key transfer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(key)
}

// end forgets an answer. With mu held.
func (p *pages) end(key transfer) {
	if pg := p.open[key]; pg != nil {
		pg.timer.Stop()
		p.bytes -= len(pg.res.payload)
		delete(p.open, key)
	}
}

func (p *pages) get(key transfer) (response, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pg := p.open[key]
	if pg == nil {
		return response{}, false
	}
	res := pg.res
	res.options = append(message.Options(nil), res.options...)
	return res, true
}

// leave forgets those of a route.
func (p *pages) leave(to route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.open {
		if key.to == to {
			p.end(key)
		}
	}
}

func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.open {
		p.end(key)
	}
}

// respondOnce is respond for answers that cannot be made again.
func (r *request) respondOnce(res *response) {
	if room, _ := r.server.room(r.to); len(res.payload) > room || r.block2.there {
		kept := *res
		kept.options = append(message.Options(nil), res.options...)
		r.server.pages.keep(r.server.transferOf(r), kept, r.server.cfg.exchangeLifetime())
	}
	r.respond(res)
}

// nextPage answers a request for a later block of such an answer.
func (r *request) nextPage() bool {
	if !r.block2.there || r.block2.num == 0 || r.code == codes.GET || r.code == codes.FETCH {
		return false
	}
	res, ok := r.server.pages.get(r.server.transferOf(r))
	if !ok {
		r.fail(refuse(codes.RequestEntityIncomplete, "nothing is left of that answer"))
		return true
	}
	most := len(res.payload)
	r.respond(&res)
	if b := r.block2; b.offset()+b.size() >= most { // the last one: it is answered the same when it comes again
		r.server.pages.drop(r.server.transferOf(r))
	}
	return true
}
