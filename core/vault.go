package core

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"entrepot/core/auth"
	"entrepot/core/store"
	"entrepot/routing"
)

// vault is what a realm keeps on disk beside its queues: client sessions with
// their wills and notes, and retained messages. A nil vault keeps nothing.
//
// Keys, all behind the realm's prefix, beside those of the engine:
//
//	s <protocol> 0 <client id>   a client session that outlives its connection
//	k <session 8> <key>          a note of its adapter
//	t <topic>                    a retained message
type vault struct {
	store  *store.Store
	prefix []byte
	debts  debts
}

const (
	keySession  = 's'
	keyNote     = 'k'
	keyRetained = 't'
)

func newVault(st *store.Store, realm string) *vault {
	if st == nil {
		return nil
	}
	return &vault{store: st, prefix: append([]byte(realm), 0)}
}

func (v *vault) key(kind byte, rest ...string) []byte {
	k := append(append([]byte(nil), v.prefix...), kind)
	for _, r := range rest {
		k = append(k, r...)
	}
	return k
}

func (v *vault) session(n sessionName) []byte {
	return v.key(keySession, n.protocol, "\x00", n.clientID)
}

func (v *vault) note(id SessionID, key []byte) []byte {
	k := binary.BigEndian.AppendUint64(v.key(keyNote), uint64(id))
	return append(k, key...)
}

func (v *vault) retained(t routing.Topic) []byte { return v.key(keyRetained, t.String()) }

// keeps tells whether a retained message goes to disk: the broker's own figures
// do not.
func (v *vault) keeps(m *Message) bool { return v != nil && !m.Topic.Dollar() }

// room tells why nothing new is taken that goes to disk; nil when it is.
func (v *vault) room() error {
	if v == nil {
		return nil
	}
	return DiskError(v.store.Room())
}

// sync waits until all that was written before is on the disk.
func (v *vault) sync() error {
	if v == nil {
		return nil
	}
	return DiskError(v.store.Sync())
}

// sessionRecord is a client session on disk. Fields are added, never changed.
type sessionRecord struct {
	ID     SessionID
	Expiry int64      // milliseconds, negative for ever
	Left   int64      `json:",omitempty"` // when its connection ended, Unix milliseconds; 0: connected
	Owned  []QueueKey `json:",omitempty"`
	Held   []QueueKey `json:",omitempty"`
	User   string     `json:",omitempty"`
	Groups []string   `json:",omitempty"`
	Will   []byte     `json:",omitempty"` // AppendMessage
	Delay  int64      `json:",omitempty"` // of the will, milliseconds
	TTL    int64      `json:",omitempty"` // of the will, which runs from its sending; milliseconds
}

// keep writes the session, if it is one that outlives its connection, and what
// is on disk of it otherwise goes. While a will is due that waits until it was
// sent: a power cut must not leave neither the session nor its will. With r.mu
// held.
func (r *record) keep() {
	v := r.broker.vault
	switch {
	case v == nil || !r.resumable:
	case r.expiry == 0:
		r.forget()
	case len(r.due) > 0:
		r.onDisk, r.late = true, true
	default:
		var b store.Batch
		b.Set(v.session(r.name), r.encode())
		r.onDisk = true
		v.commit(r.name, &b)
	}
}

func (r *record) dropNotes(b *store.Batch, id SessionID) {
	v := r.broker.vault
	b.DeleteRange(v.note(id, nil), v.note(id+1, nil))
}

// forget takes the session off the disk with its notes; see keep. With r.mu
// held.
func (r *record) forget() {
	v := r.broker.vault
	if v == nil || !r.onDisk {
		return
	}
	var b store.Batch
	r.dropNotes(&b, r.id)
	if len(r.due) > 0 {
		r.late = true
	} else {
		b.Delete(v.session(r.name))
		r.onDisk = false
	}
	v.commit(r.name, &b)
}

func (r *record) encode() []byte {
	k := sessionRecord{ID: r.id, Expiry: r.expiry.Milliseconds(), User: r.user, Groups: r.groups}
	if r.expiry < 0 {
		k.Expiry = -1
	}
	if r.current == nil && !r.left.IsZero() {
		k.Left = r.left.UnixMilli()
	}
	r.ownedLock.Lock()
	for q := range r.owned {
		k.Owned = append(k.Owned, q)
	}
	r.ownedLock.Unlock()
	r.broker.groups.mu.Lock()
	for q := range r.held {
		k.Held = append(k.Held, q)
	}
	r.broker.groups.mu.Unlock()
	if w := r.lastWill(); w != nil {
		k.Will, k.Delay = AppendMessage(nil, w.Message), w.Delay.Milliseconds()
		if p := w.Message.Props; p != nil {
			k.TTL = p.TTL.Milliseconds()
		}
	}
	b, err := json.Marshal(k)
	if err != nil {
		panic("core: session record: " + err.Error()) // a plain struct: cannot be
	}
	return b
}

// commit writes a change of the session of that name.
func (v *vault) commit(n sessionName, b *store.Batch) {
	if v.store.Err() != nil {
		v.debts.session(n)
	}
	v.store.Commit(b, false, nil)
}

// lastWill is the will that the session would still leave.
func (r *record) lastWill() *Will {
	switch {
	case r.current != nil:
		return r.current.hello.Will
	case r.will != nil:
		return &Will{Message: r.will.message, Delay: r.will.delay}
	}
	return nil
}

// Restore makes ready what an earlier broker of the realm left in st, which
// the engine uses too; call it before the first Connect, and after SetDoor. Sessions that had a
// connection then are as if it was lost now.
func (b *Broker) Restore(st *store.Store) error {
	b.vault = newVault(st, b.realm)
	b.retained.expired = b.unkeep
	st.Restate(b.restate)
	st.Watch(b.storeState)
	if err := b.restoreRetained(); err != nil {
		return fmt.Errorf("realm %q: retained messages: %w", b.realm, err)
	}
	if err := b.restoreSessions(); err != nil {
		return fmt.Errorf("realm %q: sessions: %w", b.realm, err)
	}
	if err := b.dropOrphans(); err != nil {
		return fmt.Errorf("realm %q: notes: %w", b.realm, err)
	}
	b.review() // the rules may be others by now
	return nil
}

// dropOrphans deletes queues and notes that a crash parted from the session
// whose they were.
func (b *Broker) dropOrphans() error {
	known := map[SessionID]bool{}
	for _, r := range b.sessions {
		known[r.id] = true
	}
	var batch store.Batch
	err := b.vault.eachNote(func(id SessionID, key []byte) {
		if !known[id] {
			batch.Delete(key)
		}
	})
	b.vault.store.Commit(&batch, false, nil)
	l, ok := b.engine.(Lister)
	if !ok || err != nil {
		return err
	}
	l.EachQueue(func(k QueueKey, owner SessionID) {
		b.groups.mu.Lock()
		held := b.groups.holders[k] > 0
		b.groups.mu.Unlock()
		if owner != 0 && !known[owner] || k.Kind == GroupQueue && !held {
			// Nobody can have deleted it yet.
			_, _ = b.engine.DeleteQueue(context.Background(), k, DeleteOptions{})
		}
	})
	return nil
}

func (v *vault) each(kind byte, f func(key string, value []byte) error) error {
	first := v.key(kind)
	var bad error
	err := v.store.Scan(first, v.key(kind+1), func(key, value []byte) bool {
		bad = f(string(key[len(first):]), value)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}

func (b *Broker) restoreRetained() error {
	var over store.Batch
	var origin *Origin // of the message before: one client often has many
	err := b.vault.each(keyRetained, func(_ string, value []byte) error {
		m, err := DecodeMessage(value)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		if m.Expired(time.Now()) || !b.vault.keeps(m) {
			over.Delete(b.vault.retained(m.Topic))
			return nil
		}
		if origin != nil && m.Origin != nil && *m.Origin == *origin {
			m.Origin = origin
		}
		origin = m.Origin
		return b.retained.set(m)
	})
	b.vault.store.Commit(&over, false, nil)
	return err
}

func (b *Broker) restoreSessions() error {
	var all []*record
	err := b.vault.each(keySession, func(key string, value []byte) error {
		var k sessionRecord
		if err := json.Unmarshal(value, &k); err != nil {
			return fmt.Errorf("%q: %w: %w", key, store.ErrCorrupt, err)
		}
		all = append(all, b.restoreSession(key, k))
		return nil
	})
	if err != nil {
		return err
	}
	b.regroup(nil) // before wills are sent; the users may be others by now
	for _, r := range all {
		r.goOn()
	}
	return nil
}

// restoreSession makes the record of a session without a connection.
func (b *Broker) restoreSession(key string, k sessionRecord) *record {
	r := &record{broker: b, name: parseSessionName(key), id: k.ID, resumable: true, restored: true, onDisk: true, user: k.User, groups: k.Groups,
		expiry: time.Duration(k.Expiry) * time.Millisecond}
	if k.Expiry < 0 {
		r.expiry = Forever
	}
	if k.Left != 0 {
		r.left = time.UnixMilli(k.Left)
	}
	b.lastID.Store(max(b.lastID.Load(), uint64(k.ID)))
	for _, q := range k.Owned {
		if r.owned == nil {
			r.owned = map[QueueKey]struct{}{}
		}
		r.owned[q] = struct{}{}
	}
	b.groups.restore(r, k.Held)
	if m, err := DecodeMessage(k.Will); err == nil {
		if m.Props != nil {
			m.Props.TTL = time.Duration(k.TTL) * time.Millisecond
		}
		r.will = &pendingWill{message: m, session: r.absent(), delay: time.Duration(k.Delay) * time.Millisecond}
	}
	b.mu.Lock()
	b.sessions[r.name] = r
	b.mu.Unlock()
	return r
}

// parseSessionName reads what vault.session wrote.
func parseSessionName(key string) sessionName {
	protocol, client, _ := strings.Cut(key, "\x00")
	return sessionName{protocol, client}
}

// goOn lets the time of a restored session run on: what became due meanwhile is
// done at once. One that had a connection is as if it was lost now.
func (r *record) goOn() {
	r.mu.Lock()
	defer r.unlock()
	if r.left.IsZero() {
		r.left = time.Now()
		r.keep()
	}
	passed := max(time.Since(r.left), 0)
	if r.expiry > 0 && passed >= r.expiry {
		r.end()
		return
	}
	if r.expiry > 0 {
		r.armExpiry(r.expiry - passed)
	}
	if r.will == nil {
		return
	}
	if r.armWill(r.will.delay - passed); r.will == nil {
		r.keep()
	}
}

// absent stands for the connection that left a will before the restart.
func (r *record) absent() *Session {
	p := r.broker.protocol(r.name.protocol)
	s := &Session{broker: r.broker, rec: r, drops: &p.drops, unheard: p.unheard,
		hello:  Hello{Protocol: r.name.protocol, ClientID: r.name.clientID},
		origin: &Origin{Protocol: r.name.protocol, ClientID: r.name.clientID, User: r.user, Session: r.id}}
	s.hello.Principal = auth.Principal{User: r.user, Groups: r.groups, ClientID: r.name.clientID}
	return s
}

// restore counts a session's holds again.
func (g *groups) restore(r *record, held []QueueKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range held {
		if r.held == nil {
			r.held = map[QueueKey]struct{}{}
		}
		r.held[k] = struct{}{}
		g.holders[k]++
	}
}

// synced waits for what a verb wrote, after its locks.
func (s *Session) synced() error { return s.broker.vault.sync() }

// noted is synced where the verb changed what the session holds. Nothing is on
// the disk of a queue that is only a session's own and ends with it.
func (s *Session) noted(k QueueKey) error {
	if s.broker.vault == nil {
		return nil
	}
	s.rec.mu.Lock()
	lasts := s.rec.onDisk
	if s.rec.current == s && lasts {
		s.rec.keep()
	}
	s.rec.mu.Unlock()
	if !lasts && k.Kind != NamedQueue {
		return nil
	}
	return s.synced()
}

// bound is synced for a binding.
func (s *Session) bound(b *BindSpec) error {
	if s.broker.vault == nil || b.Exchange == "" && b.Queue.Kind != NamedQueue && !s.Lasting() {
		return nil
	}
	return s.synced()
}

// Lasting tells whether what is noted for this session outlives a restart.
func (s *Session) Lasting() bool {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.broker.vault != nil && s.rec.resumable && s.rec.expiry != 0
}

// Notes calls f for every note of the client session whose key begins with
// prefix, in order of keys; both are valid during the call only. For a session
// that was resumed after a restart.
func (s *Session) Notes(prefix []byte, f func(key, value []byte)) error {
	v := s.broker.vault
	if v == nil {
		return nil
	}
	first := v.note(s.ID(), prefix)
	skip := len(first) - len(prefix)
	end := append([]byte(nil), first...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			end = end[:i+1]
			break
		}
	}
	if err := v.sync(); err != nil {
		return err
	}
	return v.store.Scan(first, end, func(key, value []byte) bool {
		f(key[skip:], value)
		return true
	})
}

// unkeep takes a topic's value off the disk.
func (b *Broker) unkeep(t routing.Topic) {
	if b.vault.store.Err() != nil {
		b.vault.debts.retained(t)
	}
	var batch store.Batch
	batch.Delete(b.vault.retained(t))
	b.vault.store.Commit(&batch, false, nil)
}

// kept is the message, and as one with it what has to be on disk of a retained
// one.
func (b *Broker) kept(m *Message) []Op {
	if b.vault.store.Err() != nil {
		b.vault.debts.retained(m.Topic)
	}
	n := &Note{Key: b.vault.retained(m.Topic)}
	if len(m.Payload) > 0 {
		n.Value = AppendMessage(nil, m)
	}
	return []Op{{Message: m}, {Note: n}}
}
