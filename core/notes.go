package core

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"entrepot/core/store"
)

// Keep writes notes of a session that lasts, all or none, in the order of its
// calls and beside other work on the disk: with done it is called, from
// another goroutine, when they are on the disk or refused (ErrFull); without,
// a power cut may undo them. When Keep returns an error nothing is written and
// done is not called: ErrClosed, ErrUnsupported where there is no disk. Keep
// takes no lock but the store's, so an adapter may call it from a Receiver and
// under locks of its own.
func (s *Session) Keep(notes []Note, done func(error)) error {
	v := s.broker.vault
	if v == nil {
		return fmt.Errorf("notes without a disk: %w", ErrUnsupported)
	}
	if err := s.open(); err != nil {
		return err
	}
	var b store.Batch
	for _, n := range notes {
		v.put(&b, s.ID(), n)
	}
	if done == nil {
		v.store.Commit(&b, false, nil)
		return nil
	}
	v.store.Commit(&b, true, func(err error) { done(DiskError(err)) })
	return nil
}

// put adds a note to a batch, or its removal.
func (v *vault) put(b *store.Batch, id SessionID, n Note) {
	if n.Value == nil {
		b.Delete(v.note(id, n.Key))
		return
	}
	b.Set(v.note(id, n.Key), n.Value)
}

// PublishNoted is Publish with notes of the client session that are written
// as one with the message, retained or not: either all of it is on the disk
// when done is told so, or none.
func (s *Session) PublishNoted(l *Lane, m *Message, notes []Note, done Done) {
	steps := make([]Op, len(notes))
	for i := range notes {
		steps[i] = s.ownNote(notes[i])
	}
	s.publish(l, m, steps, done)
}

// Rebind gives a binding that came back from disk its Value again. It waits
// for nothing and replays nothing.
func (s *Session) Rebind(ctx context.Context, b BindSpec) error {
	if err := s.allowBind(b); err != nil {
		return err
	}
	b.By, b.Replay, b.Owner = s.ID(), ReplayNever, s.asOwner()
	_, err := s.bind(ctx, b)
	return err
}

// Noted is implemented by a state, of SetState, that has all of its session's
// notes in memory. When the disk works again after a failure, which may have
// lost or kept what it was last given, the notes become what EachNote says. It
// must not call back.
type Noted interface {
	EachNote(f func(key, value []byte))
}

// eachNote calls f for every note on the disk.
func (v *vault) eachNote(f func(id SessionID, key []byte)) error {
	first := v.key(keyNote)
	return v.store.Scan(first, v.key(keyNote+1), func(key, _ []byte) bool {
		if rest := key[len(first):]; len(rest) >= 8 {
			f(SessionID(binary.BigEndian.Uint64(rest)), key)
		}
		return true
	})
}

// restateSessions makes the disk say what memory does of client sessions.
func (b *Broker) restateSessions(f *store.Fresh) error {
	b.mu.Lock()
	all := make(map[string]*record, len(b.sessions))
	for name, r := range b.sessions {
		all[string(b.vault.session(name))] = r
	}
	b.mu.Unlock()
	ended, err := b.vault.ended(f, all)
	if err != nil {
		return err
	}
	if err := f.Put(ended); err != nil {
		return err
	}
	for _, r := range all {
		var batch store.Batch
		r.restate(&batch)
		if err := f.Put(&batch); err != nil {
			return err
		}
	}
	return nil
}

// ended is the removal of sessions that are there no more.
func (v *vault) ended(f *store.Fresh, all map[string]*record) (*store.Batch, error) {
	b := &store.Batch{}
	first, end := v.key(keySession), v.key(keySession+1)
	err := f.Scan(first, end, func(key, value []byte) bool {
		var k sessionRecord
		// What cannot be read says nothing of its notes.
		_ = json.Unmarshal(value, &k)
		if r := all[string(key)]; r == nil || !r.is(k.ID) {
			b.Delete(key)
			b.DeleteRange(v.note(k.ID, nil), v.note(k.ID+1, nil))
		}
		return true
	})
	return b, err
}

// is tells whether the record is kept under that number.
func (r *record) is(id SessionID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.onDisk && r.id == id
}

// restate adds what is to be on disk of a session to a batch.
func (r *record) restate(b *store.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.onDisk {
		return
	}
	v := r.broker.vault
	b.Set(v.session(r.name), r.encode())
	n, ok := r.state.(Noted)
	if !ok {
		return // nobody changed what is there
	}
	r.dropNotes(b, r.id)
	n.EachNote(func(key, value []byte) { b.Set(v.note(r.id, key), value) })
}
