package amqp

import (
	"sync"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// returns are the publishes with mandatory that have not ended yet. They are
// used again, so that one costs no allocation.
type returns struct {
	mu   sync.Mutex
	free []*mandatory
}

// mandatory is a publish that comes back when no queue takes it.
type mandatory struct {
	channel *channel
	message *core.Message
	to      *target
	done    core.Done // end, bound once
	confirm bool
}

// take is the Done of a publish with mandatory.
func (r *returns) take(ch *channel, m *core.Message, to *target) core.Done {
	r.mu.Lock()
	defer r.mu.Unlock()
	var w *mandatory
	if n := len(r.free); n > 0 {
		w = r.free[n-1]
		r.free = r.free[:n-1]
	} else {
		w = &mandatory{channel: ch}
		w.done = w.end
	}
	w.message, w.to, w.confirm = m, to, ch.confirming
	return w.done
}

// maxReturns bounds what a channel keeps for reuse.
const maxReturns = 64

func (r *returns) put(w *mandatory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.message, w.to = nil, nil
	if len(r.free) < maxReturns {
		r.free = append(r.free, w)
	}
}

// end returns the message, and then confirms it.
func (w *mandatory) end(routed bool, err error) {
	ch := w.channel
	if !routed && err == nil {
		ch.giveBack(w.message, w.to)
		routed = true // not lost
	}
	confirm := w.confirm
	ch.returns.put(w)
	if confirm {
		ch.onConfirmed(routed, err)
		return
	}
	ch.onSent(routed, err)
}

// giveBack writes basic.return (AMQP 0-9-1, 1.8.3.8). From any goroutine.
func (ch *channel) giveBack(m *core.Message, to *target) {
	c := ch.conn
	buf, ok := c.begin(ch)
	if !ok {
		return
	}
	start := len(buf)
	buf = frame.AppendShort(frame.Begin(buf, ch.id, frame.BasicReturn), uint16(frame.NoRoute))
	buf = frame.AppendShortText(buf, frame.NoRoute.String())
	buf = frame.AppendShortText(frame.AppendShortText(buf, to.exchange), to.key)
	c.send(c.appendContent(frame.End(buf, start), ch.id, m, false))
}
