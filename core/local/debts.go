package local

import (
	"errors"

	"entrepot/core/store"
)

// What a disk refused may be on it nevertheless: it was written, and the sync
// failed. So after a failure nobody knows whether a delayed message that was on
// its way is still there, or one that was refused is there. Until the disk works
// again and says what memory does, neither is looked at.

// debt is a delayed message whose record is to be written or removed when the
// disk works again.
type debt struct {
	waiter
	gone  bool    // its record is to go: its publisher was told so
	ghost *waiter // one more record that is to go
}

// owe notes a debt. With mu held.
func (d *delays) owe(o debt) {
	if d.taken == nil {
		d.taken = map[string]struct{}{}
	}
	d.taken[string(o.tail())] = struct{}{}
	if o.ghost != nil {
		d.taken[string(o.ghost.tail())] = struct{}{}
	}
	d.debts = append(d.debts, o)
}

// refused: the disk did not take new ones. It takes mu.
func (d *delays) refused(list []waiter, err error) {
	if errors.Is(err, store.ErrClosed) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range list {
		d.owe(debt{waiter: waiter{due: list[i].due, n: list[i].n}, gone: true})
	}
}

// settleDebts makes the disk, which works again, say what memory does. It
// takes mu.
func (d *delays) settleDebts() {
	d.mu.Lock()
	defer d.mu.Unlock()
	debts := d.debts
	d.debts = nil
	if len(debts) == 0 {
		return
	}
	var batch store.Batch
	for i := range debts {
		o := &debts[i]
		if o.ghost != nil {
			batch.Delete(d.key(o.ghost))
		}
		batch.Delete(d.key(&o.waiter))
		if !o.gone {
			batch.Set(d.key(&o.waiter), o.form)
		}
	}
	d.engine.disk.store.Commit(&batch, false, func(err error) { d.debtsSettled(debts, err) })
}

// debtsSettled is told how that went. It takes mu.
func (d *delays) debtsSettled(debts []debt, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if !errors.Is(err, store.ErrClosed) {
			d.debts = append(debts, d.debts...)
		}
		return
	}
	for i := range debts {
		o := &debts[i]
		if o.ghost != nil {
			delete(d.taken, string(o.ghost.tail()))
		}
		if o.gone {
			delete(d.taken, string(o.tail()))
			continue
		}
		d.leave(&o.waiter)
		d.expect(o.due)
	}
}
