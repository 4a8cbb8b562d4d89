package coap

import (
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// exchange is one request on its way to its answer.
type exchange struct {
	server *Server
	to     route
	kind   message.Type
	id     uint16
	token  token
	size   int    // of the request, in bytes
	quiet  uint8  // No-Response (RFC 7967)
	upload []byte // Block1 of the last block of a body, for the answer
	kept   bool   // its id is remembered, under key
	key    uint64
	turn   *turn // of a stream, where nothing is acknowledged
	held   bool  // by the turn, with weight bytes
	weight int

	mu    sync.Mutex
	acked bool // an empty acknowledgement went out
	done  bool
	timer *time.Timer
}

// confirmable tells that the client wants to know; over a stream it always
// does.
func (x *exchange) confirmable() bool { return x.kind == message.Confirmable }

// wait is called when a resource left without an answer: a confirmable request
// is acknowledged soon.
func (x *exchange) wait() {
	if !x.confirmable() || x.turn != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.done {
		x.timer = time.AfterFunc(x.server.cfg.AckDelay, x.acknowledge)
	}
}

// acknowledge says that the answer comes in a message of its own (RFC 7252,
// 5.2.2).
func (x *exchange) acknowledge() {
	x.mu.Lock()
	if x.done || x.acked {
		x.mu.Unlock()
		return
	}
	x.acked = true
	x.mu.Unlock()
	if x.kept {
		x.server.ids.end(x.key, ackedAnswer, nil)
	}
	x.server.sendEmpty(x.to, message.Acknowledgement, x.id)
}

// finish tells whether the answer is still to be given, and how.
func (x *exchange) finish() (acked, first bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done {
		return false, false
	}
	x.done = true
	if x.timer != nil {
		x.timer.Stop()
	}
	return x.acked, true
}

// suppressed: the client does not want answers of that class.
func (x *exchange) suppressed(code codes.Code) bool {
	class := uint8(code >> 5)
	return class >= 2 && class <= 5 && x.quiet&(1<<(class-1)) != 0
}

// fail answers with a refusal.
func (x *exchange) fail(err error) { x.answer(refusalOf(err)) }

// answer sends the answer; the first one counts. It does not block.
func (x *exchange) answer(res *response) {
	acked, first := x.finish()
	if !first {
		return
	}
	if x.suppressed(res.code) {
		x.silent(acked)
		return
	}
	if x.upload != nil && res.code != codes.Continue {
		res.add(message.Block1, x.upload)
	}
	p := outgoingPacket{kind: message.Acknowledgement, code: res.code, id: x.id, token: x.token,
		options: res.options, payload: res.payload}
	switch {
	case x.turn != nil:
		x.to.link.send(&p, x.to.addr)
		x.turn.end(x.held, x.weight)
		return
	case acked:
		x.server.confirm(x.to, &p, nil)
		return
	case x.kind == message.NonConfirmable:
		p.kind = message.NonConfirmable // its id is free towards the client, as the request's was towards us
		x.remember(ignoredAnswer, nil)
	case len(res.options)+len(res.payload) == 0:
		x.remember(bareAnswer|answer(res.code), nil)
	}
	buf := x.server.bufs.get()
	buf.b = p.append(buf.b)
	if p.kind == message.Acknowledgement && len(res.options)+len(res.payload) > 0 && x.kept {
		x.remember(bodyAnswer, append([]byte(nil), buf.b...))
	}
	x.to.write(buf.b)
	x.server.bufs.put(buf)
}

// silent ends an exchange without an answer: a confirmable request is at least
// acknowledged.
func (x *exchange) silent(acked bool) {
	if x.turn != nil {
		x.turn.end(x.held, x.weight)
		return
	}
	if acked || !x.confirmable() {
		x.remember(ignoredAnswer, nil)
		return
	}
	x.remember(ackedAnswer, nil)
	x.server.sendEmpty(x.to, message.Acknowledgement, x.id)
}

func (x *exchange) remember(a answer, body []byte) {
	if x.kept {
		x.server.ids.end(x.key, a, body)
	}
}
