package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"entrepot/core"
	"entrepot/core/store"
)

// errShort is what the broker gives while the disk is nearly full.
var errShort = fmt.Errorf("disk space: 1 MiB free: %w", core.ErrFull)

// transient is a message that waits in memory.
func (w *workshop) transient(queue string, id int) *core.Message {
	m := w.to(queue, id)
	m.Guarantee = core.AtLeastOnce
	return m
}

// While the disk is nearly full a queue takes what it has room for in memory, and
// nothing is spilled: what is beyond goes as the queue's overflow says. Nothing
// durable is given up for it.
func TestNothingIsSpilledToAFullDisk(t *testing.T) {
	for _, c := range []struct {
		title    string
		args     core.QueueArgs
		before   int // durable messages
		sent     int
		want     []int
		refused  int
		overflow uint64
	}{
		{"room in memory", core.QueueArgs{}, 0, 4, []int{0, 1, 2, 3}, 0, 0},
		{"beyond it", core.QueueArgs{}, 0, 7, []int{0, 1, 2, 3}, 0, 3},
		{"beyond it, and the queue refuses", core.QueueArgs{Overflow: core.RejectPublish}, 0, 7, []int{0, 1, 2, 3}, 3, 0},
		{"behind durable ones", core.QueueArgs{}, 3, 3, []int{100, 101, 102, 0}, 0, 2},
		{"behind durable ones on disk", core.QueueArgs{}, 6, 3, []int{100, 101, 102, 103, 104, 105}, 0, 3},
		{"a queue with a length of its own", core.QueueArgs{HasMaxLength: true, MaxLength: 2}, 0, 4, []int{2, 3}, 0, 2},
	} {
		t.Run(c.title, func(t *testing.T) {
			w := openWorkshop(t, store.MemoryDisk())
			defer w.close()
			drops := &core.Drops{}
			_, err := w.engine.DeclareQueue(context.Background(),
				core.QueueSpec{Key: core.Named("q"), Durable: true, Args: c.args, Drops: drops})
			w.must(err)
			for i := range c.before {
				w.must(w.send(w.to("q", 100+i)))
			}
			w.store.Refuse(errShort)
			if err := w.send(w.to("q", 999)); !errors.Is(err, core.ErrFull) {
				t.Errorf("durable message: %v", err)
			}
			refused := 0
			for i := range c.sent {
				if err := w.send(w.transient("q", i)); errors.Is(err, core.ErrFull) {
					refused++
				} else {
					w.must(err)
				}
			}
			overflow := uint64(0)
			drops.Each(func(r core.DropReason, n uint64) {
				if r == core.DropOverflow {
					overflow = n
				}
			})
			if refused != c.refused || overflow != c.overflow {
				t.Errorf("%d refused, %d dropped, want %d and %d", refused, overflow, c.refused, c.overflow)
			}
			if got := w.rest("q"); !slices.Equal(got, c.want) {
				t.Errorf("%v wait, want %v", got, c.want)
			}
			w.store.Refuse(nil)
			w.must(w.send(w.to("q", 1000)))
			if got := w.rest("q"); got[len(got)-1] != 1000 {
				t.Errorf("after it %v wait", got)
			}
		})
	}
}

// In a transaction one message for a disk that is nearly full is enough to refuse
// all; settlements alone go on.
// It shows fault 71.
func TestTransactionsOnAFullDisk(t *testing.T) {
	w := openWorkshop(t, store.MemoryDisk())
	defer w.close()
	w.declare("q", core.QueueArgs{})
	w.must(w.send(w.to("q", 1)))
	w.must(w.send(w.to("q", 2)))
	w.store.Refuse(errShort)
	c := w.pull("q")
	defer c.Cancel(core.Return)
	first, _ := c.Get()
	second, _ := c.Get()
	err := w.apply(core.Op{Consumer: c, Seq: first.Seq}, core.Op{Message: w.to("q", 3)})
	if !errors.Is(err, core.ErrFull) {
		t.Errorf("with a durable message: %v", err)
	}
	w.must(w.apply(core.Op{Consumer: c, Seq: first.Seq}))
	w.must(w.apply(core.Op{Consumer: c, Seq: second.Seq}, core.Op{Message: w.transient("elsewhere", 4)}))
	if got := w.rest("q"); len(got) > 0 {
		t.Errorf("%v are left", got)
	}
	w.nothingLeft("q")
}
