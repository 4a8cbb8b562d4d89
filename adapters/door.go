package adapters

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// DoorConfig holds the limits that all protocols have together.
type DoorConfig struct {
	// MaxConnections counts open connections of all protocols; 0 is as many as the
	// process may have files open, less some for the store.
	MaxConnections int `toml:"max_connections"`
	// MaxPerAddress counts those from one network address, of IPv6 from one /64;
	// 0 is no limit.
	MaxPerAddress int `toml:"max_per_address"`
	// Handshakes is how many TLS handshakes may be at work at once; 0 is half of
	// the processors. Those that wait for their client are not at work.
	Handshakes int `toml:"handshakes"`
	// LogIns is how many log-ins may be at work at once; 0 is eight for each
	// processor, as they wait for the disk.
	LogIns int `toml:"log_ins"`
	// MaxWaiting is how many connections may wait for one of these places, and
	// MaxWait for how long: who would wait longer is refused at once.
	MaxWaiting int           `toml:"max_waiting"`
	MaxWait    time.Duration `toml:"max_wait"`
	// Chores is how many frames that bring nothing (pings, heart-beats, empty
	// lines, tiny pieces of a frame) are read of one connection in a second; 0 is
	// no limit. Who sends more is read slower.
	Chores int `toml:"chores"`
}

// DefaultDoorConfig is what runs when nothing is set.
func DefaultDoorConfig() DoorConfig {
	return DoorConfig{MaxWaiting: 100_000, MaxWait: time.Minute, Chores: 1000}
}

// Validate returns an error for a setting that makes no sense.
func (c DoorConfig) Validate() error {
	for _, n := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"max_connections", c.MaxConnections, 0, 1 << 30},
		{"max_per_address", c.MaxPerAddress, 0, 1 << 30},
		{"handshakes", c.Handshakes, 0, 10_000},
		{"log_ins", c.LogIns, 0, 10_000},
		{"max_waiting", c.MaxWaiting, 1, 1 << 30},
		{"chores", c.Chores, 0, 1_000_000},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("%s %d: from %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	if c.MaxWait < time.Second || c.MaxWait > time.Hour {
		return fmt.Errorf("max_wait %v: from 1s to 1h", c.MaxWait)
	}
	return nil
}

// Door is what connections of all protocols come in by. It counts them, and it
// hands out the places for the work that comes before a client is in: that work
// costs a thousand times what a message does, so when everybody comes back at
// once it must not take the processors from those who are in. Addresses take
// turns, so that one with many clients waits for itself. Methods may be called
// from any goroutine.
type Door struct {
	cfg        DoorConfig
	handshakes *places
	logIns     *places
	slowed     atomic.Uint64 // waits for chores

	mu    sync.Mutex
	open  int
	peers map[netip.Addr]int
}

// NewDoor expects valid settings.
func NewDoor(cfg DoorConfig) *Door {
	procs := runtime.GOMAXPROCS(0)
	width := func(set, otherwise int) int {
		if set > 0 {
			return set
		}
		return max(1, otherwise)
	}
	return &Door{
		cfg:        cfg,
		handshakes: newPlaces(width(cfg.Handshakes, procs/2), cfg.MaxWaiting, cfg.MaxWait),
		logIns:     newPlaces(width(cfg.LogIns, 8*procs), cfg.MaxWaiting, cfg.MaxWait),
		peers:      map[netip.Addr]int{},
	}
}

// Open is the number of open connections.
func (d *Door) Open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// Waiting is the number of connections that wait for a place.
func (d *Door) Waiting() int { return d.handshakes.length() + d.logIns.length() }

// Slowed is how often a connection had to wait as it sent too much that brings
// nothing (DoorConfig.Chores).
func (d *Door) Slowed() uint64 { return d.slowed.Load() }

// enter counts a connection in, unless a limit is reached, which it then names.
func (d *Door) enter(peer netip.Addr) refusal {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.cfg.MaxConnections > 0 && d.open >= d.cfg.MaxConnections:
		return tooManyInAll
	case peer.IsValid() && d.cfg.MaxPerAddress > 0 && d.peers[peer] >= d.cfg.MaxPerAddress:
		return tooManyOfAddress
	}
	d.open++
	if peer.IsValid() {
		d.peers[peer]++
	}
	return notRefused
}

func (d *Door) leave(peer netip.Addr) {
	d.spare()
	d.leaveAddress(peer)
}

// spare stops to count a connection among all, but not among those of its address.
func (d *Door) spare() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
}

func (d *Door) leaveAddress(peer netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.peers[peer]--; d.peers[peer] <= 0 {
		delete(d.peers, peer)
	}
}

// Errors of who waits for a place.
var (
	errLineFull   = errors.New("too many connections wait to log in")
	errWaitedLong = errors.New("waited too long to log in")
)

// places are what waiters get in turn. Each address has a line of its own.
type places struct {
	maxWaiting int
	maxWait    time.Duration

	mu      sync.Mutex
	free    int
	again   []*place // those who had begun: they come first
	lines   map[netip.Addr]*line
	turns   []*line // those with somebody in them, the next in front
	waiting int
	pace    time.Duration // between two who were done, while somebody waited
	paces   int           // how many of those it is the mean of
	last    time.Time     // when one was done, or the first began to wait
}

type line struct {
	peer    netip.Addr
	waiting []*place
}

// place is one connection's claim to work. It is used by one goroutine at a time.
type place struct {
	of    *places // nil: it never waits
	peer  netip.Addr
	held  bool
	begun bool
	since time.Time
	got   chan error  // while it waits
	call  func(error) // called in place of what got gets, on a goroutine; nil: not
}

func newPlaces(width, maxWaiting int, maxWait time.Duration) *places {
	return &places{free: width, maxWaiting: maxWaiting, maxWait: maxWait, lines: map[netip.Addr]*line{}}
}

func (p *places) length() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// take waits for a place. waits is called before a wait, which ends with
// ErrKicked when what it returns is closed.
func (c *place) take(waits func() <-chan struct{}) error {
	if c.of == nil || c.held {
		return nil
	}
	got, err := c.of.ask(c)
	if got == nil || err != nil {
		return err
	}
	select {
	case err := <-got:
		return err
	case <-waits():
		if c.of.forget(c) {
			return ErrKicked
		}
		return <-got // it came at the same time
	}
}

// ask takes a place at once (nil channel) or waits in line.
func (p *places) ask(c *place) (<-chan error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 && p.waiting == 0 {
		p.free--
		c.held, c.begun = true, true
		return nil, nil
	}
	now := time.Now()
	if p.waiting == 0 {
		p.last = now
	}
	c.got, c.since = make(chan error, 1), now
	if c.begun {
		p.again = append(p.again, c)
	} else if err := p.join(c); err != nil {
		return nil, err
	}
	p.waiting++
	return c.got, nil
}

// join puts c at the end of its address's line, unless that would not be served
// in time. With mu held.
func (p *places) join(c *place) error {
	l := p.lines[c.peer]
	ahead := 0
	if l != nil {
		ahead = len(l.waiting)
	}
	ahead = min(p.waiting, (ahead+1)*max(1, len(p.turns)))
	slow := p.paces == surePaces && time.Duration(ahead)*p.pace > p.maxWait
	if p.waiting >= p.maxWaiting || slow {
		return errLineFull
	}
	if l == nil {
		l = &line{peer: c.peer}
		p.lines[c.peer] = l
		p.turns = append(p.turns, l)
	}
	l.waiting = append(l.waiting, c)
	return nil
}

// forget takes c out of its line; false when it has its answer already.
func (p *places) forget(c *place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.got == nil {
		return false
	}
	// Left in its line, where it is passed over.
	c.got = nil
	p.waiting--
	return true
}

// give lets go of a place; done tells that its work has come to its end.
func (c *place) give(done bool) {
	if c.of == nil || !c.held {
		return
	}
	c.held = false
	c.of.giveBack(done)
}

func (p *places) giveBack(done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done && p.waiting > 0 {
		now := time.Now()
		p.paced(now.Sub(p.last))
		p.last = now
	}
	p.free++
	for p.free > 0 {
		c := p.next()
		if c == nil {
			return
		}
		p.waiting--
		tell := c.teller()
		if !c.begun && time.Since(c.since) > 2*p.maxWait { // the estimate was wrong
			tell(errWaitedLong)
			continue
		}
		p.free--
		c.held, c.begun = true, true
		tell(nil)
	}
}

// teller ends the waiting: it is called with what came of it. With the places' mu
// held, both.
func (c *place) teller() func(error) {
	got, call := c.got, c.call
	c.got = nil
	if call != nil {
		return func(err error) { go call(err) }
	}
	return func(err error) { got <- err }
}

// surePaces is how many have to be done before somebody is refused for the pace.
const surePaces = 32

// paced takes note of the time between two who were done: pace is a running mean.
// With mu held.
func (p *places) paced(d time.Duration) {
	p.paces = min(p.paces+1, surePaces)
	p.pace += (d - p.pace) / time.Duration(p.paces)
}

// next is who gets a place, nil for nobody. With mu held.
func (p *places) next() *place {
	for len(p.again) > 0 {
		c := p.again[0]
		p.again = p.again[1:]
		if c.got != nil {
			return c
		}
	}
	for len(p.turns) > 0 {
		l := p.turns[0]
		p.turns = p.turns[1:]
		c := l.first()
		if len(l.waiting) > 0 {
			p.turns = append(p.turns, l)
		} else {
			delete(p.lines, l.peer)
		}
		if c != nil {
			return c
		}
	}
	return nil
}

// first takes out who is first in line and still waits; nil for nobody.
func (l *line) first() *place {
	for len(l.waiting) > 0 {
		c := l.waiting[0]
		l.waiting = l.waiting[1:]
		if c.got != nil {
			return c
		}
	}
	return nil
}
