package local

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"entrepot/core"
	"entrepot/core/store"
	"entrepot/routing"
)

// Delayed messages wait outside of all queues and are routed when their time
// has come, by the exchange and bindings of then, as one with their removal.
// With a store they wait there alone, in order of due time and then of publish,
// and memory has only the time of the next; without one they wait in their
// form on disk, in a heap. Times are wall clock: the first due is looked at
// twice a second at least, so that a jump of the clock is noticed.
type delays struct {
	engine *Engine
	wall   func() time.Time

	mu     sync.Mutex
	last   uint64              // the last number given
	count  int                 // what waits
	heap   waiters             // without a store
	low    []byte              // nothing that waits has a key before
	taken  map[string]struct{} // keys whose removal is on its way, or owed
	debts  []debt              // what a disk that failed has to be told
	next   int64               // no due time is before; 0: nothing waits
	timer  *time.Timer
	firing bool
}

const (
	keyDelayed  = 'd'
	longestNap  = 500 * time.Millisecond
	dueAtOnce   = 256
	dueBytes    = 4 << 20
	refusedWait = time.Second // before a full queue is tried again
	headerDelay = "x-delay"
)

// waiter is one delayed message, due and number being its key's order.
type waiter struct {
	due  int64 // Unix milliseconds
	n    uint64
	form []byte // see delays.form
}

func (w *waiter) before(o *waiter) bool { return w.due < o.due || w.due == o.due && w.n < o.n }

// id is how others name it.
func (w *waiter) id() string { return hex.EncodeToString(w.tail()) }

func (w *waiter) tail() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(w.due)), w.n)
}

// waiters is a heap.
type waiters []waiter

func (h *waiters) push(w waiter) {
	*h = append(*h, w)
	s := *h
	for i := len(s) - 1; i > 0 && s[i].before(&s[(i-1)/2]); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
}

func (h *waiters) remove(at int) waiter {
	s := *h
	w, last := s[at], len(s)-1
	s[at], s[last] = s[last], waiter{}
	*h = s[:last]
	if at == last {
		return w
	}
	s = s[:last]
	for i := at; i > 0 && s[i].before(&s[(i-1)/2]); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
	for i := at; ; {
		c := 2*i + 1
		if c+1 < last && s[c+1].before(&s[c]) {
			c++
		}
		if c >= last || !s[c].before(&s[i]) {
			return w
		}
		s[i], s[c] = s[c], s[i]
		i = c
	}
}

// isDelayed tells whether a message is for a later time.
func isDelayed(m *core.Message) bool { return m.Props != nil && !m.Props.Due.IsZero() }

// postpone gives a message its place among those that wait.
func (a *apply) postpone(m *core.Message) error {
	e := a.engine
	x, err := e.entry(m.Exchange)
	if err != nil {
		return err
	}
	if x.spec.Internal {
		return &core.ExchangeError{Exchange: m.Exchange, Internal: true, Err: core.ErrNotAllowed}
	}
	if e.disk != nil {
		if err := e.disk.ready(); err != nil {
			return err
		}
		a.durable = true
	}
	a.delayed = append(a.delayed, e.delays.place(m, x.spec.Delayed))
	return nil
}

func (d *delays) place(m *core.Message, marked bool) waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	w := waiter{due: m.Props.Due.UnixMilli(), n: d.last}
	if m.Props.Due.After(time.UnixMilli(w.due)) {
		w.due++ // never early
	}
	w.form = d.form(m, marked)
	return w
}

// form is a delayed message as bytes. On an exchange of the type
// x-delayed-message receivers see the delay, negative, as RabbitMQ's plug-in
// shows it.
func (d *delays) form(m *core.Message, marked bool) []byte {
	head := make([]byte, 1, 64)
	if disk := d.engine.disk; disk != nil && m.Guarantee < core.Durable {
		head[0] |= ofBoot
		head = binary.BigEndian.AppendUint64(head, disk.boot)
	}
	if marked {
		one, p := *m, *m.Props
		p.Headers = append(slices.Clone(p.Headers), routing.Header{Name: headerDelay, Value: -p.Delay.Milliseconds()})
		one.Props = &p
		m = &one
	}
	return core.AppendMessage(head, m)
}

// message is what a form holds; stale: it was to be kept until a restart.
func (d *delays) message(form []byte) (m *core.Message, stale bool, err error) {
	if len(form) == 0 {
		return nil, false, store.ErrCorrupt
	}
	rest := form[1:]
	if form[0]&ofBoot != 0 {
		if len(rest) < 8 {
			return nil, false, store.ErrCorrupt
		}
		if binary.BigEndian.Uint64(rest) != d.engine.disk.boot {
			return nil, true, nil
		}
		rest = rest[8:]
	}
	if m, err = core.DecodeMessage(rest); err != nil {
		return nil, false, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return m, false, nil
}

func (d *delays) key(w *waiter) []byte {
	return append(d.engine.disk.space.key(keyDelayed), w.tail()...)
}

// upTo is the key behind all that are due at a time.
func (d *delays) upTo(due int64) []byte { return d.key(&waiter{due: due + 1}) }

// ofKey reads a key.
func ofKey(key []byte) waiter {
	tail := key[len(key)-16:]
	return waiter{due: int64(binary.BigEndian.Uint64(tail)), n: binary.BigEndian.Uint64(tail[8:])}
}

// hold takes one in that needs no disk.
func (d *delays) hold(w waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heap.push(w)
	d.count++
	d.expect(w.due)
}

// stored: one is on the disk, and can be read.
func (d *delays) stored(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	d.lower(d.key(w))
	d.expect(w.due)
}

// lower makes sure that a key is looked at. With mu held.
func (d *delays) lower(key []byte) {
	if d.low == nil || bytes.Compare(key, d.low) < 0 {
		d.low = key
	}
}

// expect sees to it that somebody looks when something is due. With mu held.
func (d *delays) expect(due int64) {
	if d.next != 0 && d.next <= due || d.firing {
		if d.firing && (d.next == 0 || due < d.next) {
			d.next = due
		}
		return
	}
	d.next = due
	d.nap()
}

// nap sets the timer. With mu held.
func (d *delays) nap() {
	wait := max(min(time.UnixMilli(d.next).Sub(d.wall()), longestNap), 0)
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, d.tick)
		return
	}
	d.timer.Reset(wait)
}

// tick looks whether something is due.
func (d *delays) tick() {
	d.mu.Lock()
	switch {
	case d.firing || d.next == 0:
		d.mu.Unlock()
	case d.wall().UnixMilli() < d.next:
		d.nap()
		d.mu.Unlock()
	default:
		d.firing = true
		d.mu.Unlock()
		d.fireDue()
	}
}

// size is how many wait.
func (d *delays) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}
