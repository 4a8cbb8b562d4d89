package local

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"entrepot/core"
	"entrepot/core/store"
	"entrepot/routing"
)

// Open returns an engine that keeps what is durable of a realm in st, with
// what an earlier one left there. The store is the caller's to close, after
// the last use of the engine. Errors: store.ErrCorrupt where what names the
// queues and exchanges is damaged; damage in messages stops only their queue.
func Open(log *slog.Logger, st *store.Store, realm string, options ...Option) (*Engine, error) {
	e := New(log, options...)
	d := &disk{store: st, space: append([]byte(realm), 0)}
	if err := d.newBoot(); err != nil {
		return nil, fmt.Errorf("realm %q: %w", realm, err)
	}
	for _, restore := range []func(*disk) error{e.restoreExchanges, e.restoreQueues, e.restoreBindings, e.restoreMessages,
		e.restoreAttempts, e.restoreDelays} {
		if err := restore(d); err != nil {
			return nil, fmt.Errorf("realm %q: %w", realm, err)
		}
	}
	e.disk = d
	for _, q := range e.queues {
		q.started()
	}
	e.delays.started()
	st.Watch(e.storeState)
	st.Restate(e.restate)
	return e, nil
}

// each calls f for every record of a kind, with the key behind the kind.
func (d *disk) each(kind byte, f func(key string, value []byte) error) error {
	first := d.space.key(kind)
	end := d.space.key(kind + 1)
	var bad error
	err := d.store.Scan(first, end, func(key, value []byte) bool {
		bad = f(string(key[len(first):]), value)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}

func decode(noun, name string, value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s %q on disk: %w: %w", noun, name, store.ErrCorrupt, err)
	}
	return nil
}

func (e *Engine) restoreExchanges(d *disk) error {
	return d.each(keyExchange, func(name string, value []byte) error {
		var r exchangeRecord
		if err := decode("exchange", name, value, &r); err != nil {
			return err
		}
		kind, err := routing.ParseKind(r.Kind)
		if err != nil {
			return fmt.Errorf("exchange %q on disk: %w", name, err)
		}
		return e.DeclareExchange(context.Background(), core.ExchangeSpec{Name: name, Kind: kind, Alternate: r.Alternate,
			Durable: true, AutoDelete: r.AutoDelete, Internal: r.Internal, Delayed: r.Delayed})
	})
}

func (e *Engine) restoreQueues(d *disk) error {
	return d.each(keyQueue, func(key string, value []byte) error {
		kind, n := utf8.DecodeRuneInString(key)
		k := core.QueueKey{Kind: core.QueueKind(kind), Name: key[n:]}
		var r queueRecord
		if err := decode("queue", k.Name, value, &r); err != nil {
			return err
		}
		hs, err := core.DecodeHeaders(r.Args)
		if err != nil {
			return fmt.Errorf("%v on disk: %w", k, err)
		}
		args, err := core.ParseQueueArgs(hs)
		if err != nil {
			return fmt.Errorf("%v on disk: %w", k, err)
		}
		q := newQueue(e, core.QueueSpec{Key: k, Durable: true, Exclusive: r.Exclusive, AutoDelete: r.AutoDelete,
			Args: args, By: r.By, User: r.User})
		e.census.count(q, 1)
		q.keepLevels(r.Levels)
		q.shelf = newShelf(q, &spool{store: d.store, space: d.space, queue: r.Number, boot: d.boot})
		d.next = max(d.next, r.Number)
		e.queues[k] = q
		e.named(k)
		return nil
	})
}

// filter is none for kinds of exchange that match without one.
func (r *bindingRecord) filter() (routing.Filter, error) {
	if r.Filter == "" {
		return routing.Filter{}, nil
	}
	f, err := routing.ParseFilter(r.Filter)
	if err == nil && r.Dollars {
		f = f.WithDollars()
	}
	return f, err
}

func (e *Engine) restoreBindings(d *disk) error {
	return d.each(keyBinding, func(_ string, value []byte) error {
		var r bindingRecord
		if err := decode("binding", "", value, &r); err != nil {
			return err
		}
		f, err := r.filter()
		if err != nil {
			return fmt.Errorf("binding on disk: %w", err)
		}
		args, err := core.DecodeHeaders(r.Args)
		if err != nil && len(r.Args) > 0 {
			return fmt.Errorf("binding on disk: %w", err)
		}
		_, err = e.Bind(context.Background(), core.BindSpec{Source: r.Source, Exchange: r.Exchange, Filter: f, Args: args,
			Queue: core.QueueKey{Kind: r.QueueKind, Name: r.Queue}, AtMostOnce: r.AtMostOnce, Owner: r.owner()})
		return err
	})
}

// restoreMessages counts what waits in each queue, and removes what queues
// that are no more left behind. Damage stops its queue alone.
func (e *Engine) restoreMessages(d *disk) error {
	byNumber := map[uint32]*queue{}
	for _, q := range e.queues {
		byNumber[q.shelf.spool.queue] = q
	}
	at, err := d.countAll(byNumber)
	if err != nil {
		e.countEach(d, byNumber, at)
	}
	for _, q := range e.queues {
		q.freeLevels(d)
		q.counted()
		if q.args.LastValueKey != "" {
			q.readAll()
		}
		q.used()
	}
	return nil
}

// countAll counts all queues in one go. When something cannot be read it
// returns the number of the queue that it had come to.
func (d *disk) countAll(byNumber map[uint32]*queue) (at uint32, err error) {
	first, _ := d.space.all(keyMessage, 0)
	_, end := d.space.all(keyMessage, ^uint32(0)-1)
	var q *queue
	var bad error
	known := false
	err = d.store.Scan(first, end, func(key, value []byte) bool {
		if n := binary.BigEndian.Uint32(key[len(d.space)+1:]); !known || n != at {
			at, known = n, true
			if q = byNumber[n]; q == nil {
				d.orphan(n)
			}
		}
		if q != nil {
			bad = q.count(key, value)
		}
		return bad == nil
	})
	return at, errors.Join(err, bad)
}

// countEach counts the queues from a number on, each for itself.
func (e *Engine) countEach(d *disk, byNumber map[uint32]*queue, from uint32) {
	for n, q := range byNumber {
		if n < from {
			continue
		}
		*q.shelf = *newShelf(q, q.shelf.spool)
		q.bytes, q.waitBytes, q.lastSeq = 0, 0, 0
		first, end := d.space.all(keyMessage, n)
		var bad error
		err := d.store.Scan(first, end, func(key, value []byte) bool {
			bad = q.count(key, value)
			return bad == nil
		})
		if err = errors.Join(err, bad); err != nil {
			q.unreadable(err)
		}
	}
}

// orphan removes what a queue left that is no more.
func (d *disk) orphan(number uint32) {
	var b store.Batch
	(&spool{space: d.space, queue: number}).clear(&b)
	d.store.Commit(&b, false, nil)
}

// seqBits are the low bits of a seq; above them stands the boot that gave it,
// so that no seq comes twice even where all of a queue was settled.
const seqBits = 40

// count takes one message on disk into account.
func (q *queue) count(key, value []byte) error {
	s := q.shelf
	l := loaded{seq: seqOf(key)}
	if _, err := s.spool.head(value, &l); err != nil {
		return err
	}
	if v := q.ready.levels; v != nil && uint(v.level(l.seq)) >= uint(len(v.parts)) {
		return s.spool.damaged(&l)
	}
	q.lastSeq = max(q.lastSeq, number(l.seq))
	if l.stale {
		s.remove(l.seq, true)
		if s.settled.Len() >= staleAtOnce {
			s.pass()
		}
		return nil
	}
	deadline := q.deadline(l.deadline)
	if s.n == 0 {
		s.next = number(l.seq)
		s.due, s.latest = deadline, deadline
	}
	q.shelve(l.seq, l.size)
	s.dated = s.dated || deadline != 0
	if q.ready.levels != nil {
		s.latest = 0
	}
	s.dates.note(s.latest, deadline)
	s.latest = deadline
	q.bytes += l.size
	q.waitBytes += l.size
	return nil
}

// staleAtOnce is how many removals of spilled messages of an earlier boot go
// into one batch.
const staleAtOnce = 1000

// counted ends the counting.
func (q *queue) counted() {
	s := q.shelf
	if s.settled.Len() > 0 {
		s.pass()
	}
	s.applied = q.lastSeq
	q.lastSeq = max(q.lastSeq, s.spool.boot<<seqBits)
}

// started sets the clock for what may expire of a restored queue.
func (q *queue) started() {
	q.mu.Lock()
	defer q.unlock()
	s := q.shelf
	if s.due != 0 {
		q.arm(s.due)
	}
	if s.dates.soonest != 0 {
		q.arm(s.dates.soonest)
	}
	if q.over(0, 0) { // by a policy that is new
		go q.drainAlone()
	}
}

// restoreAttempts reads how often messages came back.
func (e *Engine) restoreAttempts(d *disk) error {
	byNumber := map[uint32]*queue{}
	for _, q := range e.queues {
		byNumber[q.shelf.spool.queue] = q
	}
	err := d.each(keyAttempts, func(key string, value []byte) error {
		if len(key) != 12 || len(value) != 4 {
			return nil
		}
		number := binary.BigEndian.Uint32([]byte(key))
		q := byNumber[number]
		if q == nil {
			d.orphan(number)
			return nil
		}
		s := q.shelf
		if s.tries == nil {
			s.tries = map[uint64]uint32{}
		}
		s.tries[binary.BigEndian.Uint64([]byte(key[4:]))] = binary.BigEndian.Uint32(value)
		return nil
	})
	if errors.Is(err, store.ErrCorrupt) {
		e.log.Error("some messages that came back will not be marked so: their counts are damaged", "error", err)
		return nil
	}
	return err
}
