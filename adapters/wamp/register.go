package wamp

import (
	"sync"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
)

// registration is the client's hold on a procedure, its core.Callee.
type registration struct {
	conn     *conn
	reg      *core.Registration
	disclose bool // the callee wants to know callers
	forward  bool // the callee keeps time itself

	mu      sync.Mutex
	opened  bool               // REGISTERED is on its way
	waiting []*core.Invocation // that came before
}

// register (WAMP, Registering and Unregistering).
func (c *conn) register(m *message) error {
	id, options, at, err := c.request(m, 1)
	if err != nil {
		return err
	}
	uri := string(at)
	if c.registered() >= c.cfg.MaxRegistrations {
		c.refuse(wamp.REGISTER, id, refuse(errTooMany, "more than %d registrations", c.cfg.MaxRegistrations))
		return nil
	}
	c.setAttaching(true)
	defer c.setAttaching(false)
	if name, ok := queueURI(uri); ok {
		c.batch.Flush() // the disk may have to be waited for
		err = c.work(id, options, name)
	} else {
		err = c.serve(id, options, uri)
	}
	if err != nil {
		c.refuse(wamp.REGISTER, id, err)
	}
	return nil
}

func (c *conn) registered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.regs) + len(c.workers)
}

// serve makes the client a callee.
func (c *conn) serve(id uint64, options dict, uri string) error {
	p, err := parsePattern(uri, options.text(wamp.OptMatch))
	if err != nil {
		return err
	}
	if first := p.filter.First(); first == wampLevel || first != "" && first[0] == '$' {
		return refuse(errURI, "URIs that begin with wamp or $ are the router's own")
	}
	spec := core.RegisterSpec{Filter: p.filter, Prefix: p.prefix, Idempotent: options.flag("x_idempotent")}
	if spec.Invoke, err = policyOf(options.text(wamp.OptInvoke)); err != nil {
		return err
	}
	r := &registration{conn: c, disclose: options.flag(wamp.OptDiscloseCaller), forward: options.flag(wamp.OptForwardTimeout)}
	reg, err := c.session.Register(spec, r)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.reg = reg
	r.mu.Unlock()
	c.mu.Lock()
	if c.regs == nil {
		c.regs = map[uint64]*registration{}
	}
	c.regs[reg.ID()] = r
	c.mu.Unlock()
	c.done(wamp.REGISTERED, id, reg.ID())
	r.open(&c.batch)
	return nil
}

func policyOf(invoke string) (core.InvokePolicy, error) {
	if invoke == "" {
		return core.InvokeSingle, nil
	}
	for p := core.InvokeSingle; p <= core.InvokeLast; p++ {
		if p.String() == invoke {
			return p, nil
		}
	}
	return 0, refuse(errArgument, "invoke must be single, roundrobin, random, first or last")
}

// open lets invocations through, those first that came too early.
func (r *registration) open(b *core.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.waiting {
		r.conn.invoke(b, r, i, true)
	}
	r.opened, r.waiting = true, nil
}

// Invoke implements core.Callee.
func (r *registration) Invoke(b *core.Batch, i *core.Invocation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.opened {
		r.waiting = append(r.waiting, i)
		return true
	}
	return r.conn.invoke(b, r, i, false)
}

// invoke writes an INVOCATION. forced: room or not.
func (c *conn) invoke(b *core.Batch, r *registration, i *core.Invocation, forced bool) bool {
	var buf []byte
	ok := true
	if forced {
		buf = c.conn.Outbox.BeginAnswer()
	} else if buf, ok = c.conn.Outbox.BeginDelivery(); !ok {
		return false
	}
	if c.ended {
		c.conn.Outbox.Cancel()
		return false
	}
	i.Tag = c.hold(invocation{call: i})
	m, at := i.Message(), len(buf)
	buf = c.open(buf, wamp.INVOCATION, 4+argumentsCount(m))
	buf = c.uint(c.uint(buf, i.Tag), i.Registration().ID())
	buf = c.details(buf, c.invocationDetails(r, i))
	buf = c.appendArguments(buf, m)
	c.session.Traffic.CountOut(len(m.Payload))
	c.conn.Outbox.End(b, c.seal(buf, at))
	return true
}

// hold keeps an invocation until it is answered and returns its id.
func (c *conn) hold(i invocation) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[uint64]invocation{}
	}
	c.lastHeld++
	c.held[c.lastHeld] = i
	return c.lastHeld
}

// release gives an invocation back that is answered; ok is false when nobody waits
// for it.
func (c *conn) release(id uint64) (i invocation, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok = c.held[id]
	delete(c.held, id)
	return i, ok
}

// keep is release for progress, which leaves the invocation.
func (c *conn) keep(id uint64) (i invocation, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok = c.held[id]
	return i, ok
}

func (c *conn) invocationDetails(r *registration, i *core.Invocation) (d dict) {
	m := i.Message()
	p := i.Registration().Procedure()
	if p.IsPrefix() || p.Filter.HasWildcard() {
		d = append(d, member{"procedure", topicURI(m.Topic)})
	}
	if i.Progress() && c.features.progress && c.features.canceling {
		d = append(d, member{wamp.OptReceiveProgress, true})
	}
	if r.forward && c.features.timeout && i.Timeout() > 0 {
		d = append(d, member{wamp.OptTimeout, i.Timeout().Milliseconds()})
	}
	if p := native(m); r.disclose && (p == nil || p.details.get("caller") == nil) {
		d = append(d, c.realm.disclosed(i.Caller())...)
	}
	return c.receivedDetails(d, m)
}

// disclosed is who calls, for a callee that wants to know. Clients of other
// protocols have no session that WAMP knows, but may have proved a name.
func (r *realm) disclosed(by *core.Origin) dict {
	switch caller := r.find(r.sessionID(by.Session)); {
	case caller != nil:
		return caller.disclosed("caller")
	case by.User != "":
		return dict{{"caller_authid", by.User}, {"caller_authrole", roleOfUsers}}
	}
	return nil
}

// Ended implements core.Callee: it writes an INTERRUPT (WAMP, Call Canceling).
func (r *registration) Ended(b *core.Batch, i *core.Invocation, how core.CancelMode, why error) bool {
	c := r.conn
	if how != core.CancelKill {
		c.release(i.Tag)
	}
	if !c.features.canceling {
		return false
	}
	if how == core.CancelSkip {
		return true
	}
	mode := wamp.CancelModeKillNoWait
	if how == core.CancelKill {
		mode = wamp.CancelModeKill
	}
	reason := (core.Reply{Err: why}).URI()
	c.send(b, wamp.INTERRUPT, 3, func(buf []byte) []byte {
		return c.details(c.uint(buf, i.Tag), dict{{"mode", mode}, {"reason", reason}})
	})
	return true
}

// yield answers an invocation (WAMP, Calling and Invocations). One that nobody
// waits for any more is dropped: the answer crossed the end.
func (c *conn) yield(m *message) error {
	id, options, err := c.opening(m, 1)
	if err != nil {
		return err
	}
	a, err := c.payload(m, 3)
	if err != nil {
		return err
	}
	progress := options != nil && options.flag(wamp.OptProgress)
	take := c.release
	if progress {
		take = c.keep
	}
	i, ok := take(id)
	switch {
	case !ok:
	case i.worker != nil:
		c.settle(i, core.Ack, progress)
	default:
		p, err := c.answer(a, options)
		if err != nil {
			// The caller is told instead.
			_ = i.call.Fail(&c.batch, string(errorURI(err)), nil)
			return nil
		}
		// Nobody waiting is no fault of the callee's.
		_ = i.call.Yield(&c.batch, &p.Message, progress)
	}
	return nil
}

// answer is the message that a callee sends back.
func (c *conn) answer(a arguments, options dict) (*published, error) {
	p := carry(a, nil)
	if options == nil {
		return p, nil
	}
	p.details = passedThrough(options)
	return p, p.describe(a, options)
}

// failed answers an invocation with an error.
func (c *conn) failed(m *message) error {
	request, ok := c.number(m, 1)
	if !ok || wamp.MessageType(request) != wamp.INVOCATION {
		return violated("ERROR for a message of type %d", request)
	}
	id, details, uri, err := c.request(m, 2)
	if err != nil {
		return err
	}
	a, err := c.payload(m, 5)
	if err != nil {
		return err
	}
	i, ok := c.release(id)
	switch {
	case !ok:
	case i.worker != nil:
		c.settle(i, nackOf(string(uri), details), false)
	default:
		p, err := c.answer(a, details)
		if err != nil {
			return err
		}
		// As for YIELD.
		_ = i.call.Fail(&c.batch, string(uri), &p.Message)
	}
	return nil
}

// unregister (WAMP, Registering and Unregistering).
func (c *conn) unregister(m *message) error {
	id, err := c.encoding.id(m, 1)
	if err != nil {
		return err
	}
	reg, err := c.encoding.id(m, 2)
	if err != nil {
		return err
	}
	c.batch.Flush()
	c.mu.Lock()
	r, w := c.regs[reg], c.workers[reg]
	delete(c.regs, reg)
	delete(c.workers, reg)
	c.mu.Unlock()
	switch {
	case r != nil && c.session.Unregister(r.reg) == nil, w != nil:
		if w != nil {
			w.consumer.Cancel(core.Requeue)
			if c.forget(w) {
				c.resume(&c.batch)
			}
		}
		c.done(wamp.UNREGISTERED, id)
	default:
		c.refuse(wamp.UNREGISTER, id, refuse(wamp.ErrNoSuchRegistration, "no registration %d of this session", reg))
	}
	return nil
}
