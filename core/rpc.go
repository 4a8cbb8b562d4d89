package core

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"entrepot/routing"
)

// Calls by messages, for protocols that have no verbs for them. A message
// published to RPCExchange is a call, its reply address and correlation say
// where the answer goes. A queue bound to RPCExchange is a callee: it gets the
// call with a reply address that the broker minted, and what its session
// publishes there is the answer.

// replyPrefix begins the names of minted reply addresses, which look like
// queues, since that is what every protocol can write.
const replyPrefix = "$reply-"

// Names of headers: the URI of an error in an answer; what a binding to
// RPCExchange may be called again for.
const (
	errorHeader      = "x-error"
	idempotentHeader = "x-idempotent"
)

// special tells publishes that are calls or answers.
func (m *Message) special() bool { return m.Exchange == RPCExchange || m.address().IsReply() }

// IsReply tells an address that the broker minted for the answer to a call: it
// looks like a queue and is none.
func (a Address) IsReply() bool {
	return a.Exchange == DefaultExchange && strings.HasPrefix(a.Topic.String(), replyPrefix)
}

// errCalls is for what would have the broker call: a call has a caller who waits
// for its end, and a deadline.
var errCalls = fmt.Errorf("%w: procedures are called by who waits for the answer, at once", ErrUnsupported)

// notLater refuses calls, and answers to them, among what is published by the
// broker, for a client that does not wait: wills, testaments.
func (m *Message) notLater() error {
	if m.special() {
		return fmt.Errorf("message for later to %q: %w", m.Topic, errCalls)
	}
	return nil
}

// atOnce refuses a call with a delay.
func (m *Message) atOnce() error {
	if m.Exchange != RPCExchange || m.Props == nil {
		return nil
	}
	if err := m.Props.readDelay(); err != nil {
		return err
	}
	if !m.Props.Due.IsZero() {
		return fmt.Errorf("call of %q with a delay: %w", m.Topic, errCalls)
	}
	return nil
}

// Address is where a receiver is to be told that the message was sent to.
func (m *Message) Address() Address {
	if m.Exchange == RPCExchange {
		return Address{RPCExchange, m.Topic.Drop(1)} // without the callee's mark
	}
	return Address{m.Exchange, m.Topic}
}

// publishSpecial makes a call of m, or answers one.
func (s *Session) publishSpecial(b *Batch, m *Message, done Done) {
	err := s.open()
	switch {
	case err == nil && m.Exchange != RPCExchange:
		s.publishReply(b, m, done)
		return
	case err == nil:
		err = s.admit(m)
	}
	if err == nil {
		err = cmp.Or(m.atOnce(), s.allowAnswer(m))
	}
	if err != nil {
		done(false, err)
		return
	}
	s.publishCall(b, m, done)
}

func (s *Session) publishCall(b *Batch, m *Message, done Done) {
	spec := CallSpec{Message: m, Timeout: s.broker.cfg.CallTimeout, Answer: s.answerByMessage}
	if left, ok := m.Remaining(time.Now()); ok {
		spec.Timeout = max(left, time.Millisecond)
	}
	_, err := s.call(b, spec)
	if err == nil {
		done(true, nil)
		return
	}
	s.broker.answer(b, m, Reply{Err: err})
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	done(false, err)
}

// allowAnswer: an answer goes to a queue or a topic.
func (s *Session) allowAnswer(m *Message) error {
	if m.Props == nil || m.Props.ReplyTo.IsZero() {
		return nil
	}
	to := m.Props.ReplyTo
	if to.brokersOwn() { // the answer is the broker's publish
		return fmt.Errorf("reply address %q: %w: topics that start with $ are the broker's own", to.Topic, ErrNotAllowed)
	}
	if to.Exchange != DefaultExchange && to.Exchange != TopicExchange {
		return fmt.Errorf("reply address on exchange %q: %w", to.Exchange, ErrNotAllowed)
	}
	return nil
}

// answerByMessage publishes what came of a call, if the caller may still have that
// done.
func (s *Session) answerByMessage(b *Batch, c *Call, r Reply) {
	if p := c.Message.Props; p != nil && !p.ReplyTo.IsZero() && s.allowReply(p.ReplyTo, asAnswer) != nil {
		s.drops.Add(DropNotAllowed, 1)
		return
	}
	s.broker.answer(b, c.Message, r)
}

// answer publishes what came of the call m, when it says where.
func (b *Broker) answer(batch *Batch, m *Message, r Reply) {
	if m.Props == nil || m.Props.ReplyTo.IsZero() {
		return
	}
	to := m.Props.ReplyTo
	a := &Message{Exchange: to.Exchange, Topic: to.Topic, Guarantee: AtLeastOnce, Props: &Properties{}}
	if r.Message != nil {
		a.Payload, a.Origin = r.Message.Payload, r.Message.Origin
		if p := r.Message.Props; p != nil {
			*a.Props = *p
			a.Props.ReplyTo = Address{}
		}
	}
	a.Props.Correlation = m.Props.Correlation
	if uri := r.URI(); uri != "" {
		a.Props.Headers = append(a.Props.Headers[:len(a.Props.Headers):len(a.Props.Headers)],
			routing.Header{Name: errorHeader, Value: uri})
	}
	if a.Props.HasTTL {
		a.Props.Expires = time.Now().Add(a.Props.TTL)
	}
	b.engine.Publish(batch, a, nil)
}

// URI is the error as WAMP names it; "" for a result.
func (r Reply) URI() string {
	switch {
	case r.Error != "":
		return r.Error
	case r.Err == nil:
		return ""
	case errors.Is(r.Err, ErrNotFound):
		return "wamp.error.no_such_procedure"
	case errors.Is(r.Err, ErrTimeout):
		return "wamp.error.timeout"
	case errors.Is(r.Err, ErrFull):
		return "wamp.error.unavailable"
	case errors.Is(r.Err, ErrTooLarge):
		return "wamp.error.payload_size_exceeded"
	case errors.Is(r.Err, ErrNotAllowed):
		return "wamp.error.not_authorized"
	case errors.Is(r.Err, ErrInvalid):
		return "wamp.error.invalid_argument"
	}
	return "wamp.error.canceled"
}

// replies are the minted reply addresses in use.
type replies struct {
	mu   sync.Mutex
	open map[string]*Invocation
}

func (rs *replies) mint(i *Invocation) Address {
	name := replyPrefix + rand.Text()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.open == nil {
		rs.open = map[string]*Invocation{}
	}
	rs.open[name] = i
	a, _ := QueueAddress(name) // a short name
	return a
}

func (rs *replies) get(a Address) (*Invocation, bool) {
	name, _ := a.QueueName()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i, ok := rs.open[name]
	return i, ok
}

func (rs *replies) remove(name string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.open, name)
}

// publishReply answers an invocation; one that nobody waits for, or that another
// session holds, is not routed.
func (s *Session) publishReply(b *Batch, m *Message, done Done) {
	i, ok := s.broker.replies.get(m.address())
	if !ok || i.reg.session != s {
		done(false, nil)
		return
	}
	if q, ok := i.reg.callee.(*queueCallee); ok {
		q.forget(i)
	}
	uri := ""
	if m.Props != nil {
		m.Props.Headers, uri = withoutError(m.Props.Headers)
	}
	var err error
	if uri != "" {
		err = i.Fail(b, uri, m)
	} else {
		err = i.Yield(b, m, false)
	}
	if errors.Is(err, ErrNotFound) {
		done(false, nil)
		return
	}
	done(err == nil, err)
}

// withoutError takes the header that makes an answer an error off.
func withoutError(hs routing.Headers) (rest routing.Headers, uri string) {
	for _, h := range hs {
		if !strings.EqualFold(h.Name, errorHeader) {
			rest = append(rest, h)
		} else if text, ok := asText(h.Value); ok && uri == "" {
			uri = text
		}
	}
	return rest, uri
}

// queueBinding names a binding to RPCExchange.
type queueBinding struct {
	filter routing.Filter
	queue  QueueKey
}

// queueCallee puts invocations into a queue.
type queueCallee struct {
	broker *Broker
	mark   string // first level of what goes to the queue
	reg    *Registration

	mu   sync.Mutex
	open map[*Invocation]string // reply queue names
}

// bindCallee registers the queue of a binding as a callee.
func (s *Session) bindCallee(ctx context.Context, spec BindSpec) error {
	at := queueBinding{spec.Filter, spec.Queue}
	if spec.Exchange != "" {
		return fmt.Errorf("binding of exchange %q to %s: %w", spec.Exchange, RPCExchange, ErrUnsupported)
	}
	if s.calls.bound(at) != nil {
		return nil
	}
	q := &queueCallee{broker: s.broker, mark: strings.ToLower(rand.Text()), open: map[*Invocation]string{}}
	to, err := q.binding(s, spec)
	if err != nil {
		return err
	}
	// Made by the first that needs it.
	if err := s.broker.engine.DeclareExchange(ctx, ExchangeSpec{Name: RPCExchange, Kind: routing.TopicKind}); err != nil {
		return err
	}
	if _, err := s.broker.engine.Bind(ctx, to); err != nil {
		return err
	}
	_, again := spec.Args.Get(idempotentHeader)
	if q.reg, err = s.Register(RegisterSpec{Filter: spec.Filter, Join: true, Idempotent: again}, q); err != nil {
		// The first error is what counts.
		_ = s.broker.engine.Unbind(ctx, to)
		return err
	}
	s.calls.bind(at, q)
	return nil
}

// binding is the engine's: all that begins with the mark.
func (q *queueCallee) binding(s *Session, spec BindSpec) (BindSpec, error) {
	f, err := routing.NewFilter(routing.Segment{Level: q.mark}, routing.Segment{Kind: routing.AnyLevels})
	return BindSpec{Source: RPCExchange, Queue: spec.Queue, Filter: f, Value: spec.Value, By: s.ID()}, err
}

// unbindCallee undoes bindCallee.
func (s *Session) unbindCallee(spec BindSpec) error {
	at := queueBinding{spec.Filter, spec.Queue}
	q := s.calls.unbind(at)
	if q == nil {
		return fmt.Errorf("binding %q of exchange %q: %w", spec.Filter, RPCExchange, ErrNotFound)
	}
	q.unbind(s, at)
	return s.Unregister(q.reg)
}

func (q *queueCallee) unbind(s *Session, at queueBinding) {
	q.mu.Lock()
	for _, name := range q.open {
		q.broker.replies.remove(name)
	}
	clear(q.open)
	q.mu.Unlock()
	to, err := q.binding(s, BindSpec{Queue: at.queue})
	if err == nil {
		// The queue may be gone, and its bindings with it.
		_ = q.broker.engine.Unbind(context.Background(), to)
	}
}

func (c *sessionCalls) bound(at queueBinding) *queueCallee {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[at]
}

func (c *sessionCalls) bind(at queueBinding, q *queueCallee) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queues == nil {
		c.queues = map[queueBinding]*queueCallee{}
	}
	c.queues[at] = q
}

func (c *sessionCalls) unbind(at queueBinding) *queueCallee {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[at]
	delete(c.queues, at)
	return q
}

// Invoke implements Callee.
func (q *queueCallee) Invoke(b *Batch, i *Invocation) bool {
	m := *i.Message()
	topic, err := m.Topic.Under(q.mark)
	if err != nil {
		return false
	}
	p := Properties{}
	if m.Props != nil {
		p = *m.Props
	}
	m.Topic, m.Props, m.Guarantee = topic, &p, AtLeastOnce
	if i.call.Timeout > 0 {
		p.HasTTL, p.TTL = true, i.call.Timeout
		p.Expires = time.Now().Add(p.TTL)
	}
	p.ReplyTo = q.broker.replies.mint(i)
	name, _ := p.ReplyTo.QueueName()
	q.mu.Lock()
	q.open[i] = name
	q.mu.Unlock()
	took := false
	q.broker.engine.Publish(b, &m, func(routed bool, err error) { took = routed && err == nil })
	if !took {
		q.forget(i)
	}
	return took
}

// Ended implements Callee: a message cannot be taken back.
func (q *queueCallee) Ended(_ *Batch, i *Invocation, how CancelMode, _ error) bool {
	if how == CancelKill {
		return false
	}
	q.forget(i)
	return true
}

func (q *queueCallee) forget(i *Invocation) {
	q.mu.Lock()
	name := q.open[i]
	delete(q.open, i)
	q.mu.Unlock()
	q.broker.replies.remove(name)
}
