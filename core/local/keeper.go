package local

import (
	"cmp"
	"fmt"
	"slices"

	"entrepot/core"
	"entrepot/core/store"
)

// Work on queues by hand. A look copies what waits; what is to be moved or
// removed is then taken out by its seq, if it still waits.

var _ core.QueueKeeper = (*Engine)(nil)

// handful is how many messages are looked at before they are acted on.
const handful = 256

// stretch is a part of the disk, as seqs.
type stretch struct{ from, last uint64 }

// Browse implements core.QueueKeeper.
func (e *Engine) Browse(k core.QueueKey, after uint64, n int, match func(*core.Message) bool) ([]core.Delivery, error) {
	q, err := e.find(k, 0)
	if err != nil {
		return nil, err
	}
	list, err := q.browse(after, n, match)
	if err != nil {
		return nil, err
	}
	shown := make([]core.Delivery, len(list))
	for i := range list {
		shown[i] = list[i].delivery(nil)
	}
	return shown, nil
}

// browse takes mu.
func (q *queue) browse(after uint64, n int, match func(*core.Message) bool) ([]entry, error) {
	list, disk := q.waitingBehind(after, match)
	for _, s := range disk {
		more, err := q.readStretch(s, n, match)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	return list[:min(n, len(list))], nil
}

// waitingBehind is what waits in memory, and where on disk there is more.
func (q *queue) waitingBehind(after uint64, match func(*core.Message) bool) (list []entry, disk []stretch) {
	q.mu.Lock()
	defer q.unlock()
	add := func(e *entry) bool {
		if e.msg != nil && !e.pending && e.seq > after && !q.expired(e) && (match == nil || match(e.msg)) {
			list = append(list, *e)
		}
		return true
	}
	q.ready.each(func(e *entry) { add(e) })
	for i := range q.back {
		add(&q.back[i])
	}
	for i := range q.late {
		add(&q.late[i].entry)
	}
	if q.aside != nil {
		for i := range q.aside.entries.len() {
			add(q.aside.entries.at(i))
		}
	}
	return list, q.stretches(after)
}

// stretches are the parts of the disk behind a seq.
func (q *queue) stretches(after uint64) (disk []stretch) {
	s, v := q.shelf, q.ready.levels
	switch {
	case s == nil || s.n == 0:
	case v == nil:
		disk = append(disk, stretch{max(s.next, after+1), s.readable()})
	default:
		for i := range v.parts {
			if v.parts[i].n > 0 {
				first := v.first(i)
				disk = append(disk, stretch{max(first|v.parts[i].next, after+1), first | s.readable()})
			}
		}
	}
	return disk
}

// readStretch reads up to n that match. Without mu.
func (q *queue) readStretch(s stretch, n int, match func(*core.Message) bool) (list []entry, err error) {
	for s.from <= s.last && len(list) < n {
		msgs, err := q.shelf.spool.load(s.from, s.last, handful, wholeBytes)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", q.key, core.DiskError(err))
		}
		if len(msgs) == 0 {
			break
		}
		q.mu.Lock()
		for i := range msgs {
			l := &msgs[i]
			_, void := q.shelf.void[l.seq]
			e := entry{msg: l.msg, to: q.shelf.to, seq: l.seq, stored: true, deadline: q.deadline(l.deadline),
				attempts: q.shelf.tries[l.seq]}
			if !void && !l.stale && !q.expired(&e) && (match == nil || match(e.msg)) {
				list = append(list, e)
			}
		}
		q.unlock()
		s.from = msgs[len(msgs)-1].seq + 1
	}
	return list, nil
}

// pull takes one that waits out of the queue; it was seen before as e.
func (q *queue) pull(e *entry) (entry, bool) {
	if q.dead {
		return entry{}, false
	}
	var got entry
	found := false
	keep := func(at *entry) bool {
		if at.seq != e.seq || at.pending || at.msg == nil {
			return true
		}
		got, found = *at, true
		return false
	}
	if p := q.ready.find(e.seq); p != nil {
		if keep(p) {
			return got, false
		}
		q.ready.remove(e.seq)
	} else if q.back.keep(keep); !found {
		if q.late.keep(keep); !found {
			q.aside.keep(keep)
		}
	}
	switch {
	case found:
		q.waitBytes -= got.size()
		return got, true
	case q.onDisk() == 0 || !e.stored:
		return got, false
	}
	return q.pullDisk(e)
}

// pullDisk takes one out that is on disk only.
func (q *queue) pullDisk(e *entry) (entry, bool) {
	s := q.shelf
	p := q.partOf(e.seq)
	_, void := s.void[e.seq]
	if void || s.loading != nil || p.n == 0 || number(e.seq) < p.next || number(e.seq) > s.readable() {
		return entry{}, false
	}
	if s.void == nil {
		s.void = map[uint64]bool{}
	}
	s.void[e.seq] = true
	s.latest = 0
	delete(s.tries, e.seq)
	q.unshelve(e.seq, e.size())
	q.waitBytes -= e.size()
	return *e, true
}

// eachBy acts on what matches, page by page, until act says no more. Without mu.
func (e *Engine) eachBy(k core.QueueKey, most int, match func(*core.Message) bool, act func(*queue, *entry) (bool, error)) (int, error) {
	q, err := e.find(k, 0)
	if err != nil {
		return 0, err
	}
	n := 0
	for after := uint64(0); ; {
		page, err := q.browse(after, handful, match)
		if err != nil || len(page) == 0 {
			return n, err
		}
		for i := range page {
			after = page[i].seq
			did, err := act(q, &page[i])
			if did {
				n++
			}
			if err != nil || most > 0 && n == most {
				return n, err
			}
		}
	}
}

// PurgeSome implements core.QueueKeeper.
func (e *Engine) PurgeSome(k core.QueueKey, most int, match func(*core.Message) bool) (int, error) {
	return e.eachBy(k, most, match, func(q *queue, seen *entry) (bool, error) {
		q.mu.Lock()
		defer q.unlock()
		got, ok := q.pull(seen)
		if ok {
			q.done(got)
		}
		return ok, nil
	})
}

// Move implements core.QueueKeeper.
func (e *Engine) Move(from, to core.QueueKey, most int, match func(*core.Message) bool) (int, error) {
	if from == to {
		return 0, fmt.Errorf("%v: moved into itself: %w", from, core.ErrInvalid)
	}
	other, err := e.find(to, 0)
	if err != nil {
		return 0, err
	}
	place := &target{queue: other}
	return e.moved(from, most, match, func(m *core.Message) (*core.Message, *target, error) { return m, place, nil })
}

// ReplayDead implements core.QueueKeeper.
func (e *Engine) ReplayDead(from core.QueueKey, most int, match func(*core.Message) bool) (int, error) {
	dead := func(m *core.Message) bool { return len(deaths(m)) > 0 && (match == nil || match(m)) }
	return e.moved(from, most, dead, func(m *core.Message) (*core.Message, *target, error) {
		last := deaths(m)[0]
		q, err := e.find(core.Named(textOf(last, deathQueue)), 0)
		if err != nil {
			return nil, nil, err
		}
		back := *m
		back.Exchange = textOf(last, deathExchange)
		keys, _ := last.Get(deathKeys)
		if list, ok := keys.([]any); ok && len(list) > 0 {
			key, _ := list[0].(string)
			if t, err := core.RoutingTopic(back.Exchange, key); err == nil {
				back.Topic = t
			}
		}
		return &back, &target{queue: q}, nil
	})
}

// moved puts what matches where place says; what was moved is on disk when it
// returns.
func (e *Engine) moved(from core.QueueKey, most int, match func(*core.Message) bool,
	place func(*core.Message) (*core.Message, *target, error)) (int, error) {
	b := &core.Batch{}
	var left error // why the first stays that has no place
	n, err := e.eachBy(from, most, match, func(q *queue, seen *entry) (bool, error) {
		m, t, err := place(seen.msg)
		if err != nil || t.queue == q {
			left = cmp.Or(left, err)
			return false, nil
		}
		if e.disk != nil {
			e.disk.room(b)
		}
		q.mu.Lock()
		got, ok := q.pull(seen)
		q.unlock()
		if !ok {
			return false, nil
		}
		err = e.carry(b, q, got, m, t)
		return err == nil, err
	})
	b.Flush()
	if err = cmp.Or(err, left); err == nil {
		err = e.settled()
	}
	return n, err
}

// carry puts an entry that was taken out of q into another queue, as one with
// its removal. Refused, it goes back. Without mu.
func (e *Engine) carry(b *core.Batch, q *queue, l entry, m *core.Message, t *target) error {
	r := &route{targets: []*target{t}, refuses: t.queue.refuses()}
	a := &apply{engine: e, routes: []*route{r}}
	if err := a.reserveIn(m, r); err != nil {
		a.undo(b)
		q.carried(b, l, false)
		return err
	}
	ops := []core.Op{{Message: m}}
	if !a.durable && !l.stored {
		a.commit(b, ops)
		q.carried(b, l, true)
		return nil
	}
	if l.stored {
		a.with = func(batch *store.Batch) { q.shelf.spool.remove(batch, l.seq, l.attempts > 0) }
	}
	a.after = func(err error) {
		own := &core.Batch{}
		if err != nil && l.stored {
			q.mu.Lock()
			q.shelf.again(q, &l)
			q.unlock()
		}
		q.carried(own, l, err == nil)
		own.Flush()
	}
	a.commitStored(b, ops, nil)
	return nil
}

// carried: an entry that was taken out is elsewhere, or is to go back. It
// takes mu.
func (q *queue) carried(b *core.Batch, l entry, gone bool) {
	q.mu.Lock()
	defer q.unlock()
	switch {
	case q.dead:
	case gone:
		l.stored = false // its removal is on its way
		q.done(l)
	default:
		q.giveBack(l)
		q.drain(b)
	}
}
