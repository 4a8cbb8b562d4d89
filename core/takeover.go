package core

import (
	"math"
	"sync"
	"time"
)

const (
	// forgetTakeOver is the time in which one take-over is forgotten.
	forgetTakeOver = 3 * time.Second
	// firstDelay is how long who takes over too often waits, doubled each time up
	// to longestDelay.
	firstDelay   = 250 * time.Millisecond
	longestDelay = 30 * time.Second
	// mostDamped is how many names are remembered.
	mostDamped = 10_000
)

// damper slows down clients that take one session over from each other in turns,
// as two devices with one client id do.
type damper struct {
	mu    sync.Mutex
	names map[sessionName]takeOvers
}

type takeOvers struct {
	score  float64
	last   time.Time
	logged bool
}

// now is the score of now.
func (t takeOvers) now(at time.Time) float64 {
	return max(0, t.score-at.Sub(t.last).Seconds()/forgetTakeOver.Seconds())
}

// Damp tells how long a client that connects has to wait before it calls Connect,
// because its session is taken over too often; mostly 0. Whoever has the session
// keeps it meanwhile. Each call counts.
func (b *Broker) Damp(h Hello) time.Duration {
	most := b.cfg.Clients.TakeOvers
	if most == 0 || !b.presentFor(&h) {
		return 0
	}
	wait, first := b.damper.count(sessionName{h.Protocol, h.ClientID}, most, time.Now())
	if wait > 0 {
		b.limited[LimitTakeOvers].Add(1)
	}
	if first {
		b.log.Warn("a session is taken over in turns: two clients have one id, and now wait for each other",
			"protocol", h.Protocol, "client", h.ClientID, "remote", h.Remote)
	}
	return wait
}

// presentFor tells whether the user of h has a connection that h would take over.
// That of another user is none: who asks for it is refused, and must not make its
// owner wait.
func (b *Broker) presentFor(h *Hello) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takesPlace(h)
}

// count notes one take-over, and tells whether it is the first that has to wait.
func (d *damper) count(name sessionName, most int, at time.Time) (wait time.Duration, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.names[name]
	t.score, t.last = t.now(at)+1, at
	over := t.score - float64(most)
	if over > 0 {
		wait = time.Duration(min(float64(firstDelay)*math.Exp2(math.Ceil(over)-1), float64(longestDelay)))
		first, t.logged = !t.logged, true
	}
	t.score = min(t.score, float64(most)+10) // so that it is forgotten in a minute
	if t.score <= 1 {
		t.logged = false
	}
	if d.names == nil {
		d.names = map[sessionName]takeOvers{}
	}
	if _, known := d.names[name]; !known && len(d.names) >= mostDamped {
		d.forget(at)
	}
	d.names[name] = t
	return wait, first
}

// forget makes room, for some time: what is over goes, and else any.
func (d *damper) forget(at time.Time) {
	for name, t := range d.names {
		if t.now(at) == 0 {
			delete(d.names, name)
		}
	}
	for name := range d.names {
		if len(d.names) < mostDamped/10*9 {
			return
		}
		delete(d.names, name)
	}
}
