package local

import (
	"context"
	"encoding/binary"
	"encoding/json"
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
func Open(log *slog.Logger, st *store.Store, realm string) (*Engine, error) {
	e := New(log)
	d := &disk{store: st, space: append([]byte(realm), 0)}
	if err := d.newBoot(); err != nil {
		return nil, fmt.Errorf("realm %q: %w", realm, err)
	}
	for _, restore := range []func(*disk) error{e.restoreExchanges, e.restoreQueues, e.restoreBindings, e.restoreMessages} {
		if err := restore(d); err != nil {
			return nil, fmt.Errorf("realm %q: %w", realm, err)
		}
	}
	e.disk = d
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
			Durable: true, AutoDelete: r.AutoDelete, Internal: r.Internal})
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
			Args: args, By: r.By})
		q.shelf = newShelf(q, &spool{store: d.store, space: d.space, queue: r.Number, boot: d.boot})
		d.next = max(d.next, r.Number)
		e.queues[k] = q
		e.named(k)
		return nil
	})
}

func (e *Engine) restoreBindings(d *disk) error {
	return d.each(keyBinding, func(_ string, value []byte) error {
		var r bindingRecord
		if err := decode("binding", "", value, &r); err != nil {
			return err
		}
		f, err := routing.ParseFilter(r.Filter)
		if err != nil {
			return fmt.Errorf("binding on disk: %w", err)
		}
		if r.Dollars {
			f = f.WithDollars()
		}
		args, err := core.DecodeHeaders(r.Args)
		if err != nil && len(r.Args) > 0 {
			return fmt.Errorf("binding on disk: %w", err)
		}
		_, err = e.Bind(context.Background(), core.BindSpec{Source: r.Source, Exchange: r.Exchange, Filter: f, Args: args,
			Queue: core.QueueKey{Kind: r.QueueKind, Name: r.Queue}, AtMostOnce: r.AtMostOnce})
		return err
	})
}

// restoreMessages counts what waits in each queue, and removes what queues
// that are no more left behind.
func (e *Engine) restoreMessages(d *disk) error {
	byNumber := map[uint32]*queue{}
	for _, q := range e.queues {
		byNumber[q.shelf.spool.queue] = q
		q.used()
	}
	for number := uint32(0); ; number++ {
		number, ok, err := d.nextQueue(number)
		if err != nil || !ok {
			return err
		}
		q := byNumber[number]
		if q == nil {
			var b store.Batch
			(&spool{space: d.space, queue: number}).clear(&b)
			d.store.Commit(&b, false, nil)
			continue
		}
		if err := q.count(); err != nil {
			q.unreadable(err)
		}
	}
}

// nextQueue is the first queue number from one on that has messages.
func (d *disk) nextQueue(from uint32) (number uint32, ok bool, err error) {
	first, _ := d.space.all(keyMessage, from)
	_, end := d.space.all(keyMessage, ^uint32(0)-1)
	err = d.store.Scan(first, end, func(key, _ []byte) bool {
		number, ok = binary.BigEndian.Uint32(key[len(d.space)+1:]), true
		return false
	})
	return number, ok, err
}

// seqBits are the low bits of a seq; above them stands the boot that gave it,
// so that no seq comes twice even where all of a queue was settled.
const seqBits = 40

// count finds out what waits on disk.
func (q *queue) count() error {
	s := q.shelf
	first, end := s.spool.space.all(keyMessage, s.spool.queue)
	var bad error
	err := s.spool.store.Scan(first, end, func(key, value []byte) bool {
		l := loaded{seq: binary.BigEndian.Uint64(key[len(key)-8:])}
		if _, bad = s.spool.head(value, &l); bad != nil {
			return false
		}
		q.lastSeq = max(q.lastSeq, l.seq)
		if l.stale {
			s.remove(l.seq)
			return true
		}
		if s.n == 0 {
			s.next = l.seq
		}
		s.n++
		s.dated = s.dated || !l.deadline.IsZero()
		q.bytes += l.size
		q.waitBytes += l.size
		return true
	})
	if s.settled.Len() > 0 {
		s.pass()
	}
	s.applied = q.lastSeq
	q.lastSeq = max(q.lastSeq, s.spool.boot<<seqBits)
	if err == nil {
		err = bad
	}
	if err != nil {
		return err
	}
	return q.countAttempts()
}

func (q *queue) countAttempts() error {
	s := q.shelf
	first, end := s.spool.space.all(keyAttempts, s.spool.queue)
	return s.spool.store.Scan(first, end, func(key, value []byte) bool {
		if len(value) == 4 {
			if s.tries == nil {
				s.tries = map[uint64]uint32{}
			}
			s.tries[binary.BigEndian.Uint64(key[len(key)-8:])] = binary.BigEndian.Uint32(value)
		}
		return true
	})
}
