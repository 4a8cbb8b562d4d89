package bench

import (
	"math"
	"sync/atomic"
	"time"
)

// answers counts what the broker acknowledged to one publisher.
type answers struct {
	acked    uint64
	refused  uint64 // acknowledged with a reason code that says no
	progress *progress
}

func (a *answers) settle() {
	if a.acked != a.progress.got.Load() {
		a.progress.show(a.acked, a.acked)
	}
}

// publisher sends numbered messages as fast as its window allows.
type publisher struct {
	link    *link
	block   *block
	answers answers
	asks    bool // the broker acknowledges each message
	gates   []gate
	batch   int
	every   int // stamp one message in so many; 0: none
	started time.Time

	sent    atomic.Uint64
	ceiling uint64 // up to here no gate needs a look
	stalls  uint64 // times that a gate was forgiven
	timer   *time.Timer
}

// gate is a publisher's view of one reader that it must not leave far behind.
type gate struct {
	*progress
	window   uint64
	forgiven uint64 // up to here nothing is waited for any more
}

func (g *gate) floor() uint64 { return max(g.seen.Load(), g.forgiven) }

// need is the floor from which n more messages after sent may go. A used-up
// window opens again by half, so that the two do not wake each other for each
// message.
func (g *gate) need(sent, n uint64) (floor uint64) {
	if sent+n > g.window {
		floor = sent + n - g.window
	}
	if half := g.window / 2; sent > half {
		floor = max(floor, sent-half)
	}
	return floor
}

// wait sleeps until the floor is at least need. When nothing moves for the
// stall time it forgives all up to sent and reports a stall. It returns at
// once when quit closes.
func (g *gate) wait(need, sent uint64, stall time.Duration, timer *time.Timer, quit <-chan struct{}) (stalled bool) {
	for g.floor() < need {
		before := g.seen.Load()
		g.target.Store(need)
		if g.seen.Load() >= need {
			g.target.Store(0)
			return false
		}
		timer.Reset(stall)
		select {
		case <-g.wake:
		case <-quit:
			return false
		case <-timer.C:
			if g.seen.Load() == before {
				g.target.Store(0)
				g.forgiven = sent
				return true
			}
		}
	}
	return false
}

// limit adds a gate.
func (p *publisher) limit(to *progress, window int) {
	p.gates = append(p.gates, gate{progress: to, window: uint64(window)})
	p.batch = max(1, min(p.batch, window/2))
}

// room waits until n more messages may go.
func (p *publisher) room(n uint64, stall time.Duration, quit <-chan struct{}) {
	sent := p.sent.Load()
	if sent+n <= p.ceiling {
		return
	}
	p.ceiling = math.MaxUint64
	for i := range p.gates {
		g := &p.gates[i]
		if g.wait(g.need(sent, n), sent, stall, p.timer, quit) {
			p.stalls++
		}
		p.ceiling = min(p.ceiling, g.floor()+g.window)
	}
}

// send publishes up to limit messages (0: without end) until stop is set or
// the link fails. Closing quit ends a wait for room.
func (p *publisher) send(limit uint64, stop *atomic.Bool, stall time.Duration, quit <-chan struct{}) error {
	var stampAt uint64
	p.timer = time.NewTimer(stall)
	defer p.timer.Stop()
	for seq := uint64(0); !stop.Load() && (limit == 0 || seq < limit); {
		n := p.batch
		if limit > 0 {
			n = int(min(uint64(n), limit-seq))
		}
		p.room(uint64(n), stall, quit)
		if stop.Load() {
			return nil
		}
		rows := p.block.number(seq, n)
		stamped := p.every > 0 && seq+uint64(n) > stampAt
		if stamped {
			p.block.stamp(n-1, int64(time.Since(p.started)))
			stampAt = seq + uint64(n+p.every) - 1
		}
		if _, err := p.link.conn.Write(rows); err != nil {
			return closedAs(err)
		}
		if stamped {
			p.block.stamp(n-1, 0)
		}
		seq += uint64(n)
		p.sent.Store(seq)
	}
	return nil
}
