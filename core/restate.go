package core

import (
	"bytes"
	"fmt"
	"maps"
	"sync"

	"entrepot/core/store"
	"entrepot/routing"
)

// What the disk lost when it failed, and memory still has: sessions with their
// wills and notes, and retained messages. Before anybody else may write, the
// disk is made to say what memory does. What changes while that is done is a
// debt, paid when the store works again.

// debts is what was written while the store had failed.
type debts struct {
	mu       sync.Mutex
	sessions map[sessionName]struct{}
	topics   map[string]routing.Topic
	closed   bool
	paying   sync.WaitGroup
}

func (d *debts) session(n sessionName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions == nil {
		d.sessions = map[sessionName]struct{}{}
	}
	d.sessions[n] = struct{}{}
}

func (d *debts) retained(t routing.Topic) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.topics == nil {
		d.topics = map[string]routing.Topic{}
	}
	d.topics[t.String()] = t
}

// clear forgets the debts that the following restate pays.
func (d *debts) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions, d.topics = nil, nil
}

// storeState is told when the store failed, and with nil when it works again.
func (b *Broker) storeState(err error) {
	if err != nil {
		return
	}
	d := &b.vault.debts
	d.mu.Lock()
	defer d.mu.Unlock()
	sessions, topics := d.sessions, d.topics
	d.sessions, d.topics = nil, nil
	if d.closed || len(sessions)+len(topics) == 0 {
		return
	}
	d.paying.Go(func() {
		for n := range sessions {
			b.rewrite(n)
		}
		for t := range maps.Values(topics) {
			b.retained.hold(t, func() { b.rewriteRetained(t) })
		}
		b.vault.store.Commit(&store.Batch{}, true, nil)
	})
}

// end waits until what is being paid is paid.
func (d *debts) end() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.paying.Wait()
}

// rewrite makes the disk say what is known of a session's name.
func (b *Broker) rewrite(n sessionName) {
	for {
		b.mu.Lock()
		r := b.sessions[n]
		if r == nil {
			var batch store.Batch
			batch.Delete(b.vault.session(n))
			b.vault.commit(n, &batch)
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		r.mu.Lock()
		if there := !r.gone; there {
			r.onDisk = true // perhaps, or another's of this name
			r.keep()
			r.unlock()
			return
		}
		r.mu.Unlock()
	}
}

// rewriteRetained is called with the topic held.
func (b *Broker) rewriteRetained(t routing.Topic) {
	v := b.retained.get(t)
	if v == nil {
		b.unkeep(t)
		return
	}
	ops := b.kept(v.msg)[1:]
	b.engine.Apply(&Batch{}, ops, nil)
}

// restate makes the disk say what memory does.
func (b *Broker) restate(f *store.Fresh) error {
	b.vault.debts.clear()
	if err := b.restateSessions(f); err != nil {
		return fmt.Errorf("realm %q: sessions: %w", b.realm, err)
	}
	if err := b.restateRetained(f); err != nil {
		return fmt.Errorf("realm %q: retained messages: %w", b.realm, err)
	}
	return nil
}

// maxPut is how many bytes are gathered before they are written.
const maxPut = 4 << 20

// restateRetained makes the disk have the last values that memory has.
func (b *Broker) restateRetained(f *store.Fresh) error {
	v := b.vault
	want := map[string]*Message{}
	for _, m := range b.retained.messages() {
		if v.keeps(m) {
			want[string(v.retained(m.Topic))] = m
		}
	}
	var batch store.Batch
	var form []byte
	err := f.Scan(v.key(keyRetained), v.key(keyRetained+1), func(key, value []byte) bool {
		m, ok := want[string(key)]
		if !ok {
			batch.Delete(key)
			return true
		}
		if form = AppendMessage(form[:0], m); bytes.Equal(form, value) {
			delete(want, string(key))
		}
		return true
	})
	if err != nil {
		return err
	}
	for key, m := range want {
		form = AppendMessage(form[:0], m)
		batch.Set([]byte(key), form)
		if batch.Size() < maxPut {
			continue
		}
		if err := f.Put(&batch); err != nil {
			return err
		}
		batch.Reset()
	}
	return f.Put(&batch)
}
