package adapters

import "time"

const (
	crumb         = 32              // bytes: a read of no more that makes no frame whole
	freeCrumbs    = 16              // reads like that which one frame may come in
	longestChores = 5 * time.Second // the longest wait for chores: more is forgiven
)

// chores slows down a connection that brings much that is work and no message:
// pings, heart-beats, empty lines, frames in tiny pieces. It is the reader's own.
type chores struct {
	done   int       // since the last feed
	paidTo time.Time // when those done would be over at the rate that is allowed
	kept   int       // bytes that the last feed left
	crumbs int       // reads since a frame was whole
}

// Chore counts a frame that brought nothing. A client may send so many in a second
// (DoorConfig.Chores); one that sends more is read slower. Called from Feed.
func (c *Conn) Chore() { c.chores.done++ }

// crumbled takes note of how much of have bytes was used, and counts a read that
// brought too little to be anything.
func (h *chores) crumbled(have, used int) {
	switch brought := have - h.kept; {
	case used > 0:
		h.crumbs = 0
	case brought <= crumb:
		if h.crumbs++; h.crumbs > freeCrumbs {
			h.done++
		}
	}
	h.kept = have - used
}

// pay returns how long to wait for what was done since the last time. A second's
// worth is free to come at once.
func (h *chores) pay(now time.Time, rate int) time.Duration {
	n := time.Duration(h.done)
	h.done = 0
	if free := now.Add(-time.Second); h.paidTo.Before(free) {
		h.paidTo = free
	}
	h.paidTo = h.paidTo.Add(n * time.Second / time.Duration(rate))
	if most := now.Add(longestChores); h.paidTo.After(most) {
		h.paidTo = most
	}
	return max(0, h.paidTo.Sub(now))
}

// payChores makes the reader wait, and read little at a time, if there were too
// many.
func (c *Conn) payChores() {
	rate := c.server.door.cfg.Chores
	if rate == 0 {
		c.chores.done = 0
		return
	}
	wait := c.chores.pay(time.Now(), rate)
	if wait == 0 {
		return
	}
	c.server.door.slowed.Add(1)
	c.wait, c.slow = max(c.wait, wait), true
}
