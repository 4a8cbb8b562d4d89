package local

import (
	"bytes"
	"fmt"

	"entrepot/core/store"
)

// What the disk lost when it failed, and memory still has. Messages are as
// their publishers were told; exchanges, queues and bindings are written anew,
// since messages are confirmed only while their queue is on disk.

// restate makes the disk say what memory does.
func (e *Engine) restate(f *store.Fresh) error {
	e.mu.RLock()
	want := e.records()
	e.mu.RUnlock()
	var b store.Batch
	for _, kind := range []byte{keyExchange, keyQueue, keyBinding} {
		err := f.Scan(e.disk.space.key(kind), e.disk.space.key(kind+1), func(key, value []byte) bool {
			if have, ok := want[string(key)]; !ok {
				b.Delete(key)
			} else if bytes.Equal(have, value) {
				delete(want, string(key))
			}
			return true
		})
		if err != nil {
			return fmt.Errorf("topology: %w", err)
		}
	}
	for key, value := range want {
		b.Set([]byte(key), value)
	}
	return f.Put(&b)
}

// records are all durable exchanges, queues and bindings as they are on disk.
// With mu held.
func (e *Engine) records() map[string][]byte {
	all := map[string][]byte{}
	for name, x := range e.exchanges {
		if x.spec.Durable && !isStandard(name) {
			all[string(e.disk.space.key(keyExchange, name))] = exchangeOnDisk(&x.spec)
		}
		for _, b := range e.router.Bindings(name) {
			if e.lasts(&b) {
				all[string(e.disk.space.binding(&b))] = bindingOnDisk(&b)
			}
		}
	}
	for k, q := range e.queues {
		if q.durable.Load() {
			all[string(e.disk.space.queue(k))] = queueOnDisk(q)
		}
	}
	return all
}

func isStandard(exchange string) bool {
	for _, s := range standard() {
		if s.Name == exchange {
			return true
		}
	}
	return false
}

// storeState is told when the store failed, and with nil when it works again:
// then what it could not take is given to it.
func (e *Engine) storeState(err error) {
	if err != nil {
		return
	}
	// First, so that no power cut finds a delayed message in neither place.
	e.delays.settleDebts()
	e.mu.RLock()
	all := make([]*queue, 0, len(e.queues))
	for _, q := range e.queues {
		all = append(all, q)
	}
	e.mu.RUnlock()
	for _, q := range all {
		q.mu.Lock()
		q.shelf.settleDebts()
		q.keepRevoked()
		q.unlock()
	}
	// What came back from a refused transaction is to be there again.
	e.disk.store.Commit(&store.Batch{}, true, nil)
}

// settleDebts removes from the disk what went while the store failed, and what
// it refused and may have nevertheless.
func (s *shelf) settleDebts() {
	for seq, removed := range s.void {
		if !removed {
			s.remove(seq, false)
			s.void[seq] = true
		}
	}
	if s.owed.Len() > 0 && s.settled.Len() == 0 {
		s.settled, s.owed = s.owed, s.settled
	}
}
