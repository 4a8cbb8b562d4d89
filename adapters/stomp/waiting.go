package stomp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"entrepot/core"
)

// waitingSend is a SEND whose end matters. It is used again, so that a SEND with a
// receipt costs no allocation.
type waitingSend struct {
	conn    *conn
	done    core.Done // end, bound once
	to      *target
	receipt []byte // as the client wrote it
	asked   bool

	state atomic.Uint32
	next  *waitingSend
}

// States of a waitingSend: the reader that finds it missed sends it again.
const (
	beingSent uint32 = iota // Publish has not returned
	wasSent
	wasMissed // no queue took it
)

// waitingSends is those that are free. Done may come from any goroutine.
type waitingSends struct {
	mu    sync.Mutex
	free  *waitingSend
	spare int
}

// maxSpare bounds those that a quiet connection keeps.
const maxSpare = 32

func (l *waitingSends) take(c *conn) *waitingSend {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.free
	if w == nil {
		w = &waitingSend{conn: c}
		w.done = w.end
		return w
	}
	l.free, w.next = w.next, nil
	l.spare--
	return w
}

func (l *waitingSends) give(w *waitingSend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare < maxSpare {
		w.next, l.free = l.free, w
		l.spare++
	}
}

// end is the Done of the SEND.
func (w *waitingSend) end(routed bool, err error) {
	c := w.conn
	receipt := w.receipt
	if !w.asked {
		receipt = nil
	}
	switch {
	case err != nil:
		c.fail(err, receipt)
	case !routed && w.to.declare && w.state.CompareAndSwap(beingSent, wasMissed):
		return
	case !routed && w.to.declare:
		c.fail(fmt.Errorf("queue %q is not there: %w", w.to.name, core.ErrNotFound), receipt)
	case w.asked:
		c.sendReceipt(receipt)
	}
	c.waiting.give(w)
}
