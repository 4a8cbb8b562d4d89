package core

import (
	"fmt"
	"time"
)

// Delayed is a message that waits for its time.
type Delayed struct {
	ID  string // in order of due time, then of publish
	Due time.Time
	*Message
}

// Delays is implemented by engines that keep messages for later.
type Delays interface {
	// Delayed lists up to n that wait, in order, those behind an id; "" begins.
	Delayed(after string, n int) ([]Delayed, error)
	// CancelDelayed removes one. ErrNotFound when it does not wait any more.
	CancelDelayed(id string) error
	// FireDelayed sends one on now. ErrFull when a queue refuses it: it waits on.
	FireDelayed(id string) error
}

// Delays are the broker's messages for later, for who may do all; ErrUnsupported
// where the engine has none.
func (b *Broker) Delays() (Delays, error) {
	if d, ok := b.engine.(Delays); ok {
		return d, nil
	}
	return nil, fmt.Errorf("delayed messages: %w", ErrUnsupported)
}

// delayHeader asks for a delay in milliseconds, in every protocol that has
// headers. It is the broker's to read and is not passed on.
const delayHeader = "x-delay"

// maxDelay is as far as RabbitMQ's plug-in goes, 49 days.
const maxDelay = maxPeriod * time.Millisecond

// readDelay takes the delay from Delay or else from the header, and stamps the
// due time. A negative or zero header asks for none. ErrInvalid for what is no
// whole number of milliseconds, or too far away.
func (p *Properties) readDelay() error {
	if v, ok := p.Headers.Get(delayHeader); ok && p.Delay == 0 && p.Due.IsZero() {
		ms, ok := integer(v)
		if !ok {
			return invalid("header %s: not a whole number of milliseconds", delayHeader)
		}
		if u, huge := v.(uint64); ms > maxPeriod || huge && u > maxPeriod {
			return invalid("header %s: up to %d", delayHeader, int64(maxPeriod))
		}
		p.Delay = time.Duration(max(ms, 0)) * time.Millisecond
	}
	switch {
	case p.Delay < 0 || p.Delay > maxDelay || time.Until(p.Due) > maxDelay:
		return invalid("delay: from 0 to %v", maxDelay)
	case p.Delay > 0:
		p.Due = time.Now().Add(p.Delay)
	}
	return nil
}
