package adapters

import (
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
)

// idleStacks is how many are kept for the next who needs one.
const idleStacks = 32

// stacks lends out goroutine stacks that have grown. A protocol's work on a
// frame needs several KiB of stack, and a goroutine's stack shrinks late and
// never to where it began. So the reader of a quiet connection has it done on
// a stack on loan and keeps its own at the first 2 KiB. The switch there and
// back costs about 0.15 us: it is a coroutine's and passes by the scheduler.
type stacks struct {
	mu     sync.Mutex
	idle   []*stack
	closed bool
}

type stack struct {
	conn *Conn
	fd   uintptr
	ret  bool
	next func() (struct{}, bool)
	stop func()
}

// readReady is c.readReady on another stack.
func (s *stacks) readReady(c *Conn, fd uintptr) bool {
	k := s.get()
	k.conn, k.fd = c, fd
	k.next()
	ret := k.ret
	k.conn = nil
	s.put(k)
	return ret
}

func (s *stacks) get() *stack {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		k := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return k
	}
	k := &stack{}
	k.next, k.stop = iter.Pull(k.turns)
	return k
}

// turns does one piece of work a turn.
func (k *stack) turns(yield func(struct{}) bool) {
	// A panic goes on in the reader, where nobody sees this stack any more.
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("%v\n%s", p, debug.Stack()))
		}
	}()
	for {
		k.ret = k.conn.readReady(k.fd)
		if !yield(struct{}{}) {
			return
		}
	}
}

func (s *stacks) put(k *stack) {
	s.mu.Lock()
	if !s.closed && len(s.idle) < idleStacks {
		s.idle = append(s.idle, k)
		k = nil
	}
	s.mu.Unlock()
	if k != nil {
		k.stop()
	}
}

// close ends the stacks; those on loan end when they come back.
func (s *stacks) close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, k := range idle {
		k.stop()
	}
}
