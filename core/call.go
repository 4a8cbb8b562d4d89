package core

import (
	"fmt"
	"sync"
	"time"
)

// maxTries is how often an idempotent call is made.
const maxTries = 3

// CancelMode says what becomes of an invocation whose caller gives it up.
type CancelMode uint8

const (
	CancelSkip       CancelMode = iota // the callee is not told
	CancelKill                         // it is told, and the caller waits for its answer
	CancelKillNoWait                   // it is told, and nobody waits
)

// CallSpec describes a call.
type CallSpec struct {
	// Message holds the arguments; its exchange is RPCExchange, its topic the
	// procedure's name. Origin is stamped.
	Message *Message
	// Timeout ends the call with ErrTimeout; 0 is none.
	Timeout time.Duration
	// Progress: the caller takes results before the last one.
	Progress bool
	// Answer is told what comes of the call: any number of replies with Progress,
	// then one without, unless the caller's session ends first. It must not
	// block, and may come from any goroutine, before Call returns, too.
	Answer func(*Batch, *Call, Reply)
	// Tag is the caller's own.
	Tag uint64
}

// Reply is what comes back to a caller.
type Reply struct {
	// Message holds the results, or what the callee says about its error. Its
	// address means nothing.
	Message *Message
	// Error is the URI of the callee's error; "" for none.
	Error string
	// Err is why the broker ended the call: ErrNotFound (no such procedure),
	// ErrFull (no callee has room), ErrTimeout, ErrClosed (the callee is gone, or
	// the caller cancelled), ErrTooLarge (the callee's answer).
	Err      error
	Progress bool
}

// Call is one call under way.
type Call struct {
	CallSpec
	caller *Session
	timer  *time.Timer

	link[Call] // under caller.calls.mu

	mu     sync.Mutex // held over Answer for progress
	done   bool
	killed bool // CancelKill was asked for
	tries  int
	at     *Invocation
	first  Invocation // at, mostly
}

// Invocation is a call at one callee. Whoever has it can answer it.
type Invocation struct {
	// Tag is the callee's own.
	Tag  uint64
	call *Call
	reg  *Registration

	link[Invocation] // under reg.session.calls.mu

	// Under call.mu.
	handing bool // Invoke runs
	over    bool // answered, or Ended is due or was called
	end     func(*Batch)
}

// Message is what the caller sent.
func (i *Invocation) Message() *Message { return i.call.Message }

// Registration is what the call found.
func (i *Invocation) Registration() *Registration { return i.reg }

// Caller is who called.
func (i *Invocation) Caller() *Origin { return i.call.caller.origin }

// Progress tells whether the caller takes results before the last one.
func (i *Invocation) Progress() bool { return i.call.CallSpec.Progress }

// Timeout is what the caller asked for, 0 for none.
func (i *Invocation) Timeout() time.Duration { return i.call.Timeout }

// Call calls a procedure. Errors, after which Answer is not called:
// ErrNotAllowed, ErrTooLarge, ErrInvalid, ErrNotFound (no such procedure),
// ErrFull (no callee has room), ErrClosed.
func (s *Session) Call(b *Batch, spec CallSpec) (*Call, error) {
	m := spec.Message
	if m.Exchange != RPCExchange {
		return nil, invalid("call of something else than a procedure")
	}
	s.Traffic.In.Add(1)
	s.Traffic.InBytes.Add(uint64(len(m.Payload)))
	if err := s.admit(m); err != nil {
		return nil, err
	}
	return s.call(b, spec)
}

// call is Call for a message that was admitted.
func (s *Session) call(b *Batch, spec CallSpec) (*Call, error) {
	c := &Call{CallSpec: spec, caller: s}
	c.first.call = c
	if !s.calls.add(c) {
		return nil, fmt.Errorf("call: %w", ErrClosed)
	}
	if spec.Timeout > 0 {
		c.mu.Lock()
		c.timer = time.AfterFunc(spec.Timeout, c.timeout)
		c.mu.Unlock()
	}
	if err := c.dispatch(b); err != nil {
		if !c.finish() {
			return c, nil // its end has been told
		}
		return nil, err
	}
	return c, nil
}

// dispatch hands the call to a callee.
func (c *Call) dispatch(b *Batch) error {
	p := c.caller.broker.procedures.find(c.Message.Topic)
	if p == nil {
		return fmt.Errorf("procedure %q: %w", c.Message.Topic, ErrNotFound)
	}
	var tried []*Registration
	for {
		r := p.pick(tried)
		switch {
		case r == nil && tried == nil:
			return fmt.Errorf("procedure %q: %w", c.Message.Topic, ErrNotFound)
		case r == nil:
			return fmt.Errorf("callees of %q: %w", c.Message.Topic, ErrFull)
		case c.hand(b, r):
			return nil
		}
		tried = append(tried, r)
	}
}

// hand offers the call to one callee; false: it did not take it.
func (c *Call) hand(b *Batch, r *Registration) bool {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return true
	}
	i := &c.first
	if i.reg != nil {
		i = &Invocation{call: c}
	}
	i.reg, i.handing = r, true
	c.at = i
	c.mu.Unlock()
	if !r.session.calls.hold(i) {
		return c.refused(i)
	}
	took := r.callee.Invoke(b, i)
	if !took {
		r.session.calls.release(i)
		return c.refused(i)
	}
	c.mu.Lock()
	c.tries++
	i.handing = false
	end := i.end
	i.end = nil
	c.mu.Unlock()
	if end != nil {
		end(b)
	}
	return true
}

// refused undoes a hand; true when the call is over meanwhile.
func (c *Call) refused(i *Invocation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i.handing, i.over, i.end = false, true, nil
	if c.at == i {
		c.at = nil
	}
	return c.done
}

// finish ends the call; false when it was over. Nothing that is held is let go.
func (c *Call) finish() bool {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return false
	}
	c.done = true
	c.mu.Unlock()
	c.forget()
	return true
}

// forget is called once, when done was set.
func (c *Call) forget() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.caller.calls.remove(c)
}

// Cancel gives the call up; its Answer gets ErrClosed, with CancelKill after the
// callee had its say, if it can be told. It does nothing to a call that is over.
func (c *Call) Cancel(b *Batch, how CancelMode) {
	c.cancel(b, how, fmt.Errorf("call: %w", ErrClosed))
}

func (c *Call) cancel(b *Batch, how CancelMode, why error) {
	c.mu.Lock()
	i := c.at
	if c.done || how == CancelKill && c.killed {
		c.mu.Unlock()
		return
	}
	if how == CancelKill && (i == nil || i.handing) {
		how = CancelKillNoWait
	}
	if how == CancelKill {
		c.killed = true
		c.mu.Unlock()
		if i.reg.callee.Ended(b, i, CancelKill, why) {
			return
		}
		how = CancelSkip
		c.mu.Lock()
		if c.done {
			c.mu.Unlock()
			return
		}
	}
	c.done = true
	end := c.endAt(i, how, why)
	c.mu.Unlock()
	c.forget()
	if end != nil {
		end(b)
	}
	c.Answer(b, c, Reply{Err: why})
}

// endAt returns what to call without mu so that the callee knows; while Invoke
// runs, that is left to hand. With mu held.
func (c *Call) endAt(i *Invocation, how CancelMode, why error) func(*Batch) {
	if i == nil || i.over {
		return nil
	}
	i.over = true
	end := func(b *Batch) {
		i.reg.session.calls.release(i)
		i.reg.callee.Ended(b, i, how, why)
	}
	if i.handing {
		i.end = end
		return nil
	}
	return end
}

func (c *Call) timeout() {
	b := &Batch{}
	c.cancel(b, CancelKillNoWait, fmt.Errorf("call: %w", ErrTimeout))
	b.Flush()
}

// abandon is for a caller that is gone: nobody is answered.
func (c *Call) abandon(b *Batch) {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return
	}
	c.done = true
	end := c.endAt(c.at, CancelKillNoWait, fmt.Errorf("caller: %w", ErrClosed))
	c.mu.Unlock()
	c.forget()
	if end != nil {
		end(b)
	}
}

// lost is for a callee that is gone: the call is made again, or fails.
func (c *Call) lost(b *Batch, i *Invocation) {
	i.reg.session.calls.release(i)
	c.mu.Lock()
	if c.done || c.at != i || i.over {
		c.mu.Unlock()
		return
	}
	i.over = true
	c.at = nil
	again := i.reg.idempotent && c.tries < maxTries && !c.killed
	c.mu.Unlock()
	if again && c.dispatch(b) == nil {
		return
	}
	if c.finish() {
		c.Answer(b, c, Reply{Err: fmt.Errorf("callee: %w", ErrClosed)})
	}
}

// Yield answers the invocation with results; with progress, more follow. m is
// stamped as a publish of the callee's. ErrNotFound: nobody waits for it;
// ErrTooLarge, ErrInvalid: the caller was told so instead.
func (i *Invocation) Yield(b *Batch, m *Message, progress bool) error {
	return i.reply(b, Reply{Message: m, Progress: progress && i.Progress()}, progress)
}

// Fail answers the invocation with an error; m, which may be nil, says more.
// Errors as of Yield.
func (i *Invocation) Fail(b *Batch, uri string, m *Message) error {
	return i.reply(b, Reply{Message: m, Error: uri}, false)
}

func (i *Invocation) reply(b *Batch, r Reply, more bool) error {
	var refused error
	if r.Message != nil {
		if refused = i.reg.session.admitReply(r.Message); refused != nil {
			r, more = Reply{Err: refused}, false
		}
	}
	c := i.call
	c.mu.Lock()
	if c.done || c.at != i || i.over {
		c.mu.Unlock()
		return fmt.Errorf("invocation: %w", ErrNotFound)
	}
	if more {
		if r.Progress {
			c.Answer(b, c, r)
		}
		c.mu.Unlock()
		return nil
	}
	c.done, i.over = true, true
	c.mu.Unlock()
	i.reg.session.calls.release(i)
	c.forget()
	c.Answer(b, c, r)
	return refused
}

// admitReply checks and stamps what a callee answers with.
func (s *Session) admitReply(m *Message) error {
	if n := s.broker.cfg.MaxMessage; len(m.Payload) > n {
		return fmt.Errorf("answer of %d bytes, limit %d: %w", len(m.Payload), n, ErrTooLarge)
	}
	m.Origin = s.origin
	if m.Props != nil {
		return m.Props.stamp(false)
	}
	return nil
}
