package local

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// fireDue sends on what is due, in order, until nothing is.
func (d *delays) fireDue() {
	b := &core.Batch{}
	for {
		round, err := d.due()
		if err != nil {
			d.pause(err)
			return
		}
		for i := range round {
			if d.engine.disk != nil {
				d.engine.disk.room(b)
			}
			// One that cannot be sent has found its place for the next try.
			_ = d.fire(b, &round[i], true)
		}
		b.Flush()
		if len(round) == 0 && d.rest() {
			return
		}
	}
}

// due takes out the next that are due.
func (d *delays) due() ([]waiter, error) {
	now := d.wall().UnixMilli()
	if d.engine.disk != nil {
		return d.dueOnDisk(now)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var round []waiter
	for len(d.heap) > 0 && d.heap[0].due <= now && len(round) < dueAtOnce {
		round = append(round, d.heap.remove(0))
	}
	return round, nil
}

func (d *delays) dueOnDisk(now int64) ([]waiter, error) {
	d.mu.Lock()
	from := d.low
	d.mu.Unlock()
	end := d.upTo(now)
	if from == nil || bytes.Compare(from, end) >= 0 {
		return nil, nil
	}
	var round []waiter
	size := 0
	next := end
	err := d.engine.disk.store.Scan(from, end, func(key, form []byte) bool {
		if len(round) == dueAtOnce || size > dueBytes {
			next = slices.Clone(key)
			return false
		}
		if w := ofKey(key); d.take(&w) {
			w.form = slices.Clone(form)
			size += len(form)
			round = append(round, w)
		}
		return true
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		for i := range round {
			d.leave(&round[i])
		}
		return nil, fmt.Errorf("delayed messages: %w", err)
	}
	if bytes.Equal(d.low, from) { // nothing came before it meanwhile
		d.low = next
	}
	return round, nil
}

// take marks one as on its way out; false: it is already.
func (d *delays) take(w *waiter) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := string(w.tail())
	if _, ok := d.taken[key]; ok {
		return false
	}
	if d.taken == nil {
		d.taken = map[string]struct{}{}
	}
	d.taken[key] = struct{}{}
	return true
}

// leave takes the mark away from one that stays. With mu held.
func (d *delays) leave(w *waiter) {
	delete(d.taken, string(w.tail()))
	d.lower(d.key(w))
}

// rest ends the firing when nothing is due; false: there is something.
func (d *delays) rest() bool {
	first, ok, err := d.first()
	if err != nil {
		d.pause(err)
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engine.disk == nil {
		if ok = len(d.heap) > 0; ok {
			first = d.heap[0].due
		}
	} else if d.next != 0 && (!ok || d.next < first) {
		first, ok = d.next, true // came while nobody looked
	}
	if ok && first <= d.wall().UnixMilli() {
		return false
	}
	d.firing = false
	d.next = 0
	if ok {
		d.next = first
		d.nap()
	}
	return true
}

// first is the due time of the first on disk that is not on its way.
func (d *delays) first() (due int64, ok bool, err error) {
	if d.engine.disk == nil {
		return 0, false, nil
	}
	d.mu.Lock()
	from := d.low
	d.next = 0
	d.mu.Unlock()
	if from == nil {
		return 0, false, nil
	}
	err = d.engine.disk.store.Scan(from, d.engine.disk.space.key(keyDelayed+1), func(key, _ []byte) bool {
		w := ofKey(key)
		d.mu.Lock()
		_, taken := d.taken[string(w.tail())]
		d.mu.Unlock()
		due, ok = w.due, !taken
		return taken
	})
	return due, ok, err
}

// pause ends the firing for a while: the disk cannot be read.
func (d *delays) pause(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.firing = false
	if errors.Is(err, store.ErrClosed) {
		return
	}
	d.engine.log.Warn("delayed messages cannot be read, trying again", "error", err)
	d.next = d.wall().Add(refusedWait).UnixMilli()
	d.nap()
}

// fire routes one that was taken out. What a full queue refuses is to be tried
// again later, or with later false stays; an exchange that is gone takes its
// messages along.
func (d *delays) fire(b *core.Batch, w *waiter, later bool) error {
	e := d.engine
	m, stale, err := d.message(w.form)
	switch {
	case stale:
		return d.drop(w)
	case err != nil:
		e.log.Error("a delayed message is damaged and stays where it is", "id", w.id(), "error", err)
		return err
	}
	if m.Props != nil && m.Props.HasTTL {
		m.Props.Expires = time.Now().Add(m.Props.TTL)
	}
	r, err := e.routeAny(m)
	if errors.Is(err, core.ErrNotFound) {
		e.unroutable.Add(1)
		return d.drop(w)
	}
	a := &apply{engine: e, routes: []*route{r}}
	if err == nil {
		err = a.reserveIn(m, r)
	}
	if err != nil {
		a.undo(b)
		d.putOff(w, later)
		return err
	}
	ops := []core.Op{{Message: m}}
	if e.disk == nil {
		a.commit(b, ops)
		d.gone()
		return nil
	}
	a.with = func(batch *store.Batch) { batch.DeleteOnce(d.key(w)) }
	a.after = func(err error) { d.removed(w, nil, err) }
	a.commitStored(b, ops, nil)
	return nil
}

// removed is told how the removal from the disk went, and with again that of
// the record which takes its place.
func (d *delays) removed(w, again *waiter, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		delete(d.taken, string(w.tail()))
		d.count--
	case errors.Is(err, store.ErrClosed):
		d.leave(w)
	default:
		d.owe(debt{waiter: *w, ghost: again})
	}
}

func (d *delays) gone() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count--
}

// drop removes one that was taken out.
func (d *delays) drop(w *waiter) error {
	if d.engine.disk == nil {
		d.gone()
		return nil
	}
	var batch store.Batch
	batch.DeleteOnce(d.key(w))
	d.engine.disk.store.Commit(&batch, false, func(err error) { d.removed(w, nil, err) })
	return nil
}

// putOff gives one back that was refused.
func (d *delays) putOff(w *waiter, later bool) {
	again := *w
	if later {
		again.due = d.wall().Add(refusedWait).UnixMilli()
	}
	if d.engine.disk == nil {
		d.gone()
		d.hold(again)
		return
	}
	if !later {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leave(w)
		d.expect(w.due)
		return
	}
	var batch store.Batch
	batch.DeleteOnce(d.key(w))
	batch.Set(d.key(&again), w.form)
	d.engine.disk.store.Commit(&batch, false, func(err error) {
		d.removed(w, &again, err)
		if err == nil {
			d.stored(&again)
		}
	})
}

// withdraw takes one out by its id, for who asks for it.
func (d *delays) withdraw(id string) (*waiter, error) {
	gone := fmt.Errorf("delayed message %q: %w", id, core.ErrNotFound)
	tail, err := hex.DecodeString(id)
	if err != nil || len(tail) != 16 {
		return nil, gone
	}
	w := ofKey(tail)
	if d.engine.disk == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		at := slices.IndexFunc(d.heap, func(h waiter) bool { return h.due == w.due && h.n == w.n })
		if at < 0 {
			return nil, gone
		}
		w = d.heap.remove(at)
		return &w, nil
	}
	if err := d.engine.disk.store.Sync(); err != nil {
		return nil, core.DiskError(err)
	}
	if !d.take(&w) {
		return nil, gone
	}
	form, ok, err := d.engine.disk.store.Get(d.key(&w))
	if err != nil || !ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.taken, string(w.tail()))
		if err != nil {
			return nil, core.DiskError(err)
		}
		return nil, gone
	}
	w.form = form
	return &w, nil
}

// CancelDelayed implements core.Delays.
func (e *Engine) CancelDelayed(id string) error {
	w, err := e.delays.withdraw(id)
	if err != nil {
		return err
	}
	_ = e.delays.drop(w) // how it went, removed is told
	return e.settled()
}

// FireDelayed implements core.Delays.
func (e *Engine) FireDelayed(id string) error {
	w, err := e.delays.withdraw(id)
	if err != nil {
		return err
	}
	b := &core.Batch{}
	err = e.delays.fire(b, w, false)
	b.Flush()
	return errors.Join(err, e.settled())
}

// settled waits until all that was written before is on disk.
func (e *Engine) settled() error {
	if e.disk == nil {
		return nil
	}
	return core.DiskError(e.disk.store.Sync())
}

// Delayed implements core.Delays.
func (e *Engine) Delayed(after string, n int) ([]core.Delayed, error) {
	d := e.delays
	var list []core.Delayed
	if e.disk == nil {
		d.mu.Lock()
		all := slices.Clone(d.heap)
		d.mu.Unlock()
		slices.SortFunc(all, func(a, b waiter) int {
			if a.before(&b) {
				return -1
			}
			return 1
		})
		for i := range all {
			if len(list) < n && all[i].id() > after {
				list = d.show(list, &all[i])
			}
		}
		return list, nil
	}
	if err := e.settled(); err != nil {
		return nil, err
	}
	from := e.disk.space.key(keyDelayed)
	if tail, err := hex.DecodeString(after); err == nil {
		from = append(append(from, tail...), 0)
	}
	err := e.disk.store.Scan(from, e.disk.space.key(keyDelayed+1), func(key, form []byte) bool {
		w := ofKey(key)
		w.form = form
		d.mu.Lock()
		_, taken := d.taken[string(w.tail())]
		d.mu.Unlock()
		if !taken {
			list = d.show(list, &w)
		}
		return len(list) < n
	})
	return list, core.DiskError(err)
}

// show adds one to a list.
func (d *delays) show(list []core.Delayed, w *waiter) []core.Delayed {
	m, stale, err := d.message(w.form)
	if stale || err != nil {
		return list
	}
	return append(list, core.Delayed{ID: w.id(), Due: time.UnixMilli(w.due), Message: m})
}

// started sets the clock for what was found.
func (d *delays) started() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != 0 {
		d.nap()
	}
}

// restoreDelays finds what waits on disk.
func (e *Engine) restoreDelays(disk *disk) error {
	d := e.delays
	d.last = disk.boot << seqBits
	var batch store.Batch
	first, end := disk.space.key(keyDelayed), disk.space.key(keyDelayed+1)
	err := disk.store.Scan(first, end, func(key, form []byte) bool {
		if len(key) != len(first)+16 {
			return true
		}
		if len(form) > 0 && form[0]&ofBoot != 0 {
			batch.DeleteOnce(key)
			return true
		}
		if d.count++; d.count == 1 {
			d.low = slices.Clone(key)
			d.next = ofKey(key).due
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("delayed messages: %w", err)
	}
	disk.store.Commit(&batch, false, nil)
	return nil
}
