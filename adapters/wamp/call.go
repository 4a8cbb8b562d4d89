package wamp

import (
	"time"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
	"entrepot/routing"
)

// maxTimeout is the longest timeout that a call may ask for.
const maxTimeout = 365 * 24 * time.Hour

// call calls a procedure (WAMP, Calling and Invocations).
func (c *conn) call(m *message) error {
	id, options, uri, err := c.request(m, 1)
	if err != nil {
		return err
	}
	a, err := c.payload(m, 4)
	if err != nil {
		return err
	}
	if meta := metaProcedure(string(uri)); meta != nil {
		c.callMeta(id, string(uri), meta, options, a)
		return nil
	}
	if err := c.callOut(id, options, c.targets.find(uri), a); err != nil {
		c.refuse(wamp.CALL, id, err)
	}
	return nil
}

// callOut makes a call in the core.
func (c *conn) callOut(id uint64, options dict, to *target, a arguments) error {
	if to.err != nil {
		return refuse(wamp.ErrNoSuchProcedure, "%s", to.err.Error())
	}
	if to.address.Exchange != core.TopicExchange {
		return refuse(wamp.ErrNoSuchProcedure, "queues and exchanges are published to")
	}
	p := carry(a, nil)
	p.Message.Exchange, p.Message.Topic = core.RPCExchange, to.address.Topic
	p.Guarantee = core.AtLeastOnce
	spec := core.CallSpec{Message: &p.Message, Answer: c.answered, Tag: id}
	if options != nil {
		if err := c.describeCall(p, a, &spec, options); err != nil {
			return err
		}
	}
	if !c.beginCall(id) {
		return refuse(errTooMany, "the request is under way already, or more than %d calls are", c.cfg.MaxCalls)
	}
	made, err := c.session.Call(&c.batch, spec)
	if err != nil {
		c.endCall(id)
		if uri := (core.Reply{Err: err}).URI(); uri != string(wamp.ErrCanceled) {
			return refuse(wamp.URI(uri), "%s", err.Error())
		}
		return err
	}
	c.mu.Lock()
	if _, waits := c.calls[id]; waits {
		c.calls[id] = made
	}
	c.mu.Unlock()
	return nil
}

// describeCall reads the options of CALL.
func (c *conn) describeCall(p *published, a arguments, spec *core.CallSpec, options dict) error {
	spec.Progress = options.flag(wamp.OptReceiveProgress)
	if options.flag(wamp.OptProgress) {
		return refuse(errNotYet, "progressive call invocations")
	}
	if v := options.get(wamp.OptTimeout); v != nil {
		n, ok := whole(v)
		if !ok {
			return refuse(errArgument, "timeout is a number of milliseconds")
		}
		spec.Timeout = time.Duration(min(n, uint64(maxTimeout/time.Millisecond))) * time.Millisecond
	}
	if options.flag(wamp.OptDiscloseMe) {
		p.details = c.disclosed("caller")
	}
	p.details = append(p.details, passedThrough(options)...)
	return p.describe(a, options)
}

// beginCall notes a call before its answer can come; false when the id is taken or
// there are too many.
func (c *conn) beginCall(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.calls[id]; taken || len(c.calls) >= c.cfg.MaxCalls {
		return false
	}
	if c.calls == nil {
		c.calls = map[uint64]*core.Call{}
	}
	c.calls[id] = nil
	return true
}

func (c *conn) endCall(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// answered is the Answer of the client's calls: it writes a RESULT or an ERROR.
func (c *conn) answered(b *core.Batch, made *core.Call, r core.Reply) {
	if !r.Progress {
		c.endCall(made.Tag)
	}
	buf := c.conn.Outbox.BeginAnswer()
	if c.ended {
		c.conn.Outbox.Cancel()
		return
	}
	at := len(buf)
	if uri := r.URI(); uri != "" {
		buf = c.appendCallError(buf, made.Tag, uri, r)
	} else {
		buf = c.appendResult(buf, made.Tag, r)
	}
	if r.Message != nil {
		c.session.Traffic.CountOut(len(r.Message.Payload))
	}
	c.conn.Outbox.End(b, c.seal(buf, at))
}

func (c *conn) appendResult(buf []byte, id uint64, r core.Reply) []byte {
	var d dict
	if r.Progress {
		d = dict{{wamp.OptProgress, true}}
	}
	if r.Message == nil {
		return c.details(c.uint(c.open(buf, wamp.RESULT, 3), id), d)
	}
	d = c.receivedDetails(d, r.Message)
	buf = c.details(c.uint(c.open(buf, wamp.RESULT, 3+argumentsCount(r.Message)), id), d)
	return c.appendArguments(buf, r.Message)
}

func (c *conn) appendCallError(buf []byte, id uint64, uri string, r core.Reply) []byte {
	n := 6
	if r.Message != nil {
		n = 5 + argumentsCount(r.Message)
	}
	buf = c.uint(c.uint(c.open(buf, wamp.ERROR, n), uint64(wamp.CALL)), id)
	if r.Message == nil {
		return c.value(c.value(c.details(buf, nil), uri), list{r.Err.Error()})
	}
	buf = c.value(c.details(buf, c.receivedDetails(nil, r.Message)), uri)
	return c.appendArguments(buf, r.Message)
}

// receivedDetails are what a message says beside its arguments.
func (c *conn) receivedDetails(d dict, m *core.Message) dict {
	if p := native(m); p != nil {
		d = append(d, p.details...)
	}
	return c.cfg.appendProperties(d, m)
}

// cancel gives a call up (WAMP, Call Canceling).
func (c *conn) cancel(m *message) error {
	id, options, err := c.opening(m, 1)
	if err != nil {
		return err
	}
	mode := core.CancelKillNoWait
	switch options.text(wamp.OptMode) {
	case "", wamp.CancelModeKillNoWait:
	case wamp.CancelModeKill:
		mode = core.CancelKill
	case wamp.CancelModeSkip:
		mode = core.CancelSkip
	default:
		c.refuse(wamp.CANCEL, id, refuse(errArgument, "mode must be skip, kill or killnowait"))
		return nil
	}
	c.mu.Lock()
	made := c.calls[id]
	c.mu.Unlock()
	if made != nil { // else it is over already
		made.Cancel(&c.batch, mode)
	}
	return nil
}

// procedureURI is a procedure's name or pattern as WAMP writes it, and its match.
func procedureURI(p core.Procedure) (uri, match string) {
	if p.IsPrefix() {
		return p.Prefix.String(), matchPrefix
	}
	if t, ok := p.Filter.Topic(); ok {
		return topicURI(t), matchExact
	}
	uri, err := routing.URI.PrintFilter(p.Filter)
	if err != nil {
		uri = p.Filter.String() // a pattern that only others can write
	}
	return uri, matchWildcard
}

func topicURI(t routing.Topic) string {
	uri, err := routing.URI.PrintTopic(t)
	if err != nil {
		return t.String()
	}
	return uri
}
