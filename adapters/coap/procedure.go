package coap

import (
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/routing"
)

// procedure serves /rpc: POST calls, an observation is a callee.
func (s *Server) procedure(r *request, rest [][]byte) {
	session, err := r.to.link.identity()
	if err != nil {
		r.fail(err)
		return
	}
	t, err := topicOf(rest)
	if err != nil {
		r.fail(err)
		return
	}
	switch {
	case r.code == codes.POST:
		s.later(r, func(r *request) {
			if err := s.call(r, session, t); err != nil {
				r.fail(err)
			}
		})
	case r.code == codes.GET && r.observe == 0:
		s.later(r, func(r *request) { s.register(r, session, t) })
	case r.code == codes.GET && r.observe == 1:
		s.callees.forget(r)
		r.answer(&response{code: codes.Content})
	default:
		r.fail(refuse(codes.MethodNotAllowed, "POST, or GET with Observe"))
	}
}

// call makes a call. Its answer comes by a message of its own when it takes
// long.
func (s *Server) call(r *request, session *core.Session, t routing.Topic) error {
	values, err := r.queries("timeout", "priority")
	if err != nil {
		return err
	}
	span, ok, err := milliseconds(values, "timeout")
	switch {
	case err != nil:
		return err
	case !ok:
		span = s.cfg.CallTimeout
	case span <= 0 || span > 24*time.Hour:
		return refuse(codes.BadRequest, "a timeout of 1 ms to 24 h")
	}
	m, err := r.message(core.Address{Exchange: core.RPCExchange, Topic: t}, false, "timeout", "priority")
	if err != nil {
		return err
	}
	b := &core.Batch{}
	defer b.Flush()
	_, err = session.Call(b, core.CallSpec{Message: m, Timeout: span, Answer: func(_ *core.Batch, _ *core.Call, reply core.Reply) {
		r.respondOnce(answerOf(reply))
	}})
	return err
}

// answerOf is what a caller is answered.
func answerOf(reply core.Reply) *response {
	switch {
	case reply.Err != nil:
		return refusalOf(reply.Err)
	case reply.Error != "":
		text := reply.Error
		if reply.Message != nil && len(reply.Message.Payload) > 0 {
			text += ": " + string(reply.Message.Payload[:min(len(reply.Message.Payload), maxDiagnostic)])
		}
		return &response{code: codeOfError(reply.Error), payload: diagnostic(text)}
	}
	res := &response{code: codes.Changed}
	if reply.Message != nil {
		describe(res, reply.Message, time.Now())
	}
	return res
}

// codeOfError is the code of an error that a callee gave.
func codeOfError(uri string) codes.Code {
	switch uri {
	case "wamp.error.no_such_procedure":
		return codes.NotFound
	case "wamp.error.invalid_argument":
		return codes.BadRequest
	case "wamp.error.not_authorized", "wamp.error.authorization_failed":
		return codes.Forbidden
	case "wamp.error.timeout":
		return codes.GatewayTimeout
	case "wamp.error.canceled", "wamp.error.unavailable":
		return codes.ServiceUnavailable
	case "wamp.error.payload_size_exceeded":
		return codes.RequestEntityTooLarge
	}
	return codes.InternalServerError
}

// callee is a client that observes a procedure: each invocation is a confirmable
// notification, whose Location-Path is where the answer is posted.
type callee struct {
	server  *Server
	session *core.Session
	to      route
	token   token
	reg     *core.Registration
	number  uint32 // Observe of the last invocation; under callees.mu
	gone    bool   // under callees.mu
}

// callees are the clients that serve calls, and what they have to answer.
type callees struct {
	server *Server

	mu     sync.Mutex
	all    map[route][]*callee
	open   map[string]*invocation
	byCall map[*core.Invocation]string
}

// invocation is a call at a callee. It owns the message that it is sent by.
type invocation struct {
	id     string
	callee *callee
	call   *core.Invocation
}

// lost implements owner: a callee that is not heard, or does not want it, serves
// no more.
func (i *invocation) lost() {
	c := i.callee
	c.server.count(countLost)
	c.server.aside(func() { c.server.callees.end(c) })
}

// register makes the client of a request a callee.
func (s *Server) register(r *request, session *core.Session, t routing.Topic) {
	s.callees.forget(r)
	c := &callee{server: s, session: session, to: r.to, token: r.token}
	if !s.callees.enter(c) {
		r.fail(&refusal{code: refusedBusy, text: "too many observations", maxAge: 60})
		return
	}
	reg, err := session.Register(core.RegisterSpec{Filter: t.Filter(), Join: true}, c)
	if err != nil {
		s.callees.end(c)
		r.fail(err)
		return
	}
	s.callees.mu.Lock()
	c.reg = reg
	gone := c.gone
	s.callees.mu.Unlock()
	if gone {
		_ = session.Unregister(reg) // its client left meanwhile
	}
	res := &response{code: codes.Content}
	res.addUint(message.Observe, 0)
	r.respond(res)
}

func (cs *callees) enter(c *callee) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.all[c.to]) >= cs.server.cfg.MaxPeerObservers {
		return false
	}
	cs.all[c.to] = append(cs.all[c.to], c)
	return true
}

// forget ends the registration with a request's token.
func (cs *callees) forget(r *request) {
	cs.mu.Lock()
	all := cs.all[r.to]
	i := slices.IndexFunc(all, func(c *callee) bool { return c.token == r.token })
	var c *callee
	if i >= 0 {
		c = all[i]
	}
	cs.mu.Unlock()
	if c != nil {
		cs.end(c)
	}
}

// end ends a registration; the calls that it has fail. It may block.
func (cs *callees) end(c *callee) {
	cs.mu.Lock()
	if c.gone {
		cs.mu.Unlock()
		return
	}
	c.gone = true
	reg := c.reg
	cs.all[c.to] = slices.DeleteFunc(cs.all[c.to], func(x *callee) bool { return x == c })
	if len(cs.all[c.to]) == 0 {
		delete(cs.all, c.to)
	}
	var left []*invocation
	for _, i := range cs.open {
		if i.callee == c {
			left = append(left, i)
			cs.removeLocked(i)
		}
	}
	cs.mu.Unlock()
	if reg != nil {
		_ = c.session.Unregister(reg) // its session may have ended
	}
	b := &core.Batch{}
	for _, i := range left {
		_ = i.call.Fail(b, "wamp.error.canceled", nil) // the caller may be gone
	}
	b.Flush()
}

// leave ends all registrations of a route.
func (cs *callees) leave(to route) {
	cs.mu.Lock()
	all := slices.Clone(cs.all[to])
	cs.mu.Unlock()
	for _, c := range all {
		cs.end(c)
	}
}

func (cs *callees) everywhere() []route {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var all []route
	for to := range cs.all {
		all = append(all, to)
	}
	return all
}

func (cs *callees) removeLocked(i *invocation) {
	delete(cs.open, i.id)
	delete(cs.byCall, i.call)
}

// Invoke implements core.Callee.
func (c *callee) Invoke(_ *core.Batch, call *core.Invocation) bool {
	cs := c.server.callees
	i := &invocation{id: rand.Text(), callee: c, call: call}
	cs.mu.Lock()
	if c.gone {
		cs.mu.Unlock()
		return false
	}
	c.number++
	number := c.number & 0xffffff
	cs.open[i.id], cs.byCall[call] = i, i.id
	cs.mu.Unlock()
	m := i.packet(number)
	if c.server.confirm(c.to, m, i) {
		return true
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.removeLocked(i)
	return false
}

// packet is the notification of an invocation; of a large one the first block.
func (i *invocation) packet(number uint32) *outgoingPacket {
	res := &response{code: codes.Content}
	describe(res, i.call.Message(), time.Now())
	res.addUint(message.Observe, number)
	res.add(message.LocationPath, []byte(replyRoot))
	res.add(message.LocationPath, []byte(i.id))
	if t := i.call.Timeout(); t > 0 && !slices.ContainsFunc(res.options, func(o message.Option) bool { return o.ID == message.MaxAge }) {
		res.addUint(message.MaxAge, seconds(t))
	}
	room, szx := i.callee.server.room(i.callee.to)
	firstBlock(res, block{szx: szx}, room)
	return &outgoingPacket{code: res.code, token: i.callee.token, options: res.options, payload: res.payload}
}

// Ended implements core.Callee: a device cannot be told to give up.
func (c *callee) Ended(_ *core.Batch, call *core.Invocation, how core.CancelMode, _ error) bool {
	if how == core.CancelKill {
		return false
	}
	cs := c.server.callees
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if i := cs.open[cs.byCall[call]]; i != nil {
		cs.removeLocked(i)
	}
	return true
}

// reply serves /reply/<id>: POST answers an invocation, GET reads it again in
// blocks.
func (s *Server) reply(r *request, rest [][]byte) {
	if err := s.replyTo(r, rest); err != nil {
		r.fail(err)
	}
}

func (s *Server) replyTo(r *request, rest [][]byte) error {
	if len(rest) != 1 {
		return refuse(codes.NotFound, "no such call")
	}
	cs := s.callees
	cs.mu.Lock()
	i := cs.open[string(rest[0])]
	cs.mu.Unlock()
	if i == nil || i.callee.to.link != r.to.link {
		return refuse(codes.NotFound, "no such call; it may be over")
	}
	switch r.code {
	case codes.POST:
		return cs.answer(r, i)
	case codes.GET:
		res := &response{code: codes.Content}
		describe(res, i.call.Message(), time.Now())
		r.respond(res)
		return nil
	}
	return refuse(codes.MethodNotAllowed, "POST or GET")
}

func (cs *callees) answer(r *request, i *invocation) error {
	values, err := r.queries("error")
	if err != nil {
		return err
	}
	m, err := r.message(core.Address{}, false, "error")
	if err != nil {
		return err
	}
	cs.mu.Lock()
	cs.removeLocked(i)
	cs.mu.Unlock()
	b := &core.Batch{}
	defer b.Flush()
	if uri, failed := values["error"]; failed {
		if uri == "" {
			uri = "wamp.error.runtime_error"
		}
		err = i.call.Fail(b, uri, m)
	} else {
		err = i.call.Yield(b, m, false)
	}
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	r.answer(&response{code: codes.Changed})
	return nil
}
