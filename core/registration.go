package core

import (
	"fmt"
	"sync"

	"entrepot/core/auth"
	"entrepot/routing"
)

// Callee serves calls. Its methods must not block and must not call back into
// calls or registrations; they may come from any goroutine.
type Callee interface {
	// Invoke hands an invocation over, which is answered by its Yield or Fail,
	// maybe before Invoke returns; false: the callee has no room for it now.
	Invoke(b *Batch, i *Invocation) bool
	// Ended says that nobody waits for the invocation's answer any more, or,
	// with CancelKill, that the caller wants it to be given up and waits for
	// what the callee says to that; false: the callee cannot be told. why wraps
	// ErrTimeout when the call's time was over. Not called after an answer.
	Ended(b *Batch, i *Invocation, how CancelMode, why error) bool
}

// RegisterSpec describes a registration: a plain name or wildcard pattern in
// Filter, or else a prefix.
type RegisterSpec struct {
	Filter routing.Filter
	Prefix routing.Prefix
	Invoke InvokePolicy
	// Join takes whatever policy other callees chose, and InvokeRoundRobin when
	// there are none.
	Join bool
	// Idempotent calls may be made again when their callee is lost.
	Idempotent bool
}

// Registration is one session's hold on a procedure.
type Registration struct {
	session    *Session
	procedure  *procedure
	callee     Callee
	idempotent bool
	gone       bool // under session.calls.mu
}

// ID is the procedure's, the same for all that registered it.
func (r *Registration) ID() uint64 { return r.procedure.is.ID }

// Procedure is what was registered, without the callees.
func (r *Registration) Procedure() Procedure { return r.procedure.is }

// Register makes the session a callee. It ends with the session. Errors:
// ErrNotAllowed; ErrConflict when the policy of the procedure, or of those who
// registered it, allows no more; ErrInvalid without a name; ErrClosed.
func (s *Session) Register(spec RegisterSpec, c Callee) (*Registration, error) {
	f := spec.filter()
	if f.IsZero() {
		return nil, invalid("registration without a name")
	}
	if err := s.allow(auth.Register, registerObject(f)); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.verbs.RUnlock()
	r := &Registration{session: s, callee: c, idempotent: spec.Idempotent}
	ps := &s.broker.procedures
	p, edge, ok := ps.enter(spec.key(), r, &spec)
	if !ok {
		return nil, fmt.Errorf("procedure %q: %w", f, ErrConflict)
	}
	s.calls.register(r)
	ps.tell(p, s.ID(), true, edge)
	return r, nil
}

// Unregister gives a registration up. What it was invoked for may still be
// answered. ErrNotFound when it is not the session's or gone.
func (s *Session) Unregister(r *Registration) error {
	if !s.calls.unregister(r) {
		return fmt.Errorf("registration: %w", ErrNotFound)
	}
	s.unregistered(r)
	return nil
}

func (s *Session) unregistered(r *Registration) {
	ps := &s.broker.procedures
	edge := ps.leave(r)
	ps.tell(r.procedure, s.ID(), false, edge)
}

// sessionCalls is what a session has to do with calls.
type sessionCalls struct {
	mu     sync.Mutex
	ended  bool
	regs   map[*Registration]struct{}
	made   chain[Call, *Call]             // as a caller
	held   chain[Invocation, *Invocation] // as a callee
	queues map[queueBinding]*queueCallee
}

func (c *sessionCalls) register(r *Registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.regs == nil {
		c.regs = map[*Registration]struct{}{}
	}
	c.regs[r] = struct{}{}
}

func (c *sessionCalls) unregister(r *Registration) bool {
	if r == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, mine := c.regs[r]; !mine {
		return false
	}
	delete(c.regs, r)
	r.gone = true
	return true
}

// end gives up registrations, makes the session's callers wait no more, and
// interrupts what was called for it.
func (c *sessionCalls) end(s *Session) {
	c.mu.Lock()
	c.ended = true
	regs, queues := c.regs, c.queues
	c.regs, c.queues = nil, nil
	made, held := c.made.oldestFirst(), c.held.oldestFirst()
	c.mu.Unlock()
	for r := range regs {
		s.unregistered(r)
	}
	for at, q := range queues {
		q.unbind(s, at)
	}
	b := &Batch{}
	for _, call := range made {
		call.abandon(b)
	}
	for _, i := range held {
		i.call.lost(b, i)
	}
	b.Flush()
}

// add is false when the session has ended.
func (c *sessionCalls) add(call *Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.made.push(call)
	}
	return !c.ended
}

func (c *sessionCalls) remove(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made.remove(call)
}

// hold is false when the session has ended.
func (c *sessionCalls) hold(i *Invocation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.held.push(i)
	}
	return !c.ended
}

func (c *sessionCalls) release(i *Invocation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.remove(i)
}
