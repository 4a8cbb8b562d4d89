package local

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"entrepot/core"
	"entrepot/core/store"
	"entrepot/routing"
)

// disk is what a realm's engine has in the store: durable queues, exchanges
// and the bindings between them. Its fields are under Engine.mu; a nil disk
// writes nothing.
type disk struct {
	store *store.Store
	space space
	boot  uint64
	next  uint32 // the next queue's number

	batches sync.Pool // of *store.Batch, for messages; not under Engine.mu
}

// commit writes a change of the topology in its order; Session waits for the
// sync, after all locks.
func (d *disk) commit(b *store.Batch) { d.store.Commit(b, false, nil) }

// ready refuses durable messages while the store does not work or is nearly
// full.
func (d *disk) ready() error { return core.DiskError(d.store.Room()) }

// room waits while what was published runs far ahead of the disk. It flushes b
// first: other clients wait for what is in it.
func (d *disk) room(b *core.Batch) {
	if d.store.Crowded() {
		b.Flush()
		d.store.Ease()
	}
}

// queueRecord is a durable queue on disk. Fields are added, never changed.
type queueRecord struct {
	Number     uint32
	Exclusive  bool `json:",omitempty"`
	AutoDelete bool `json:",omitempty"`
	By         core.SessionID
	User       string `json:",omitempty"`
	Args       []byte `json:",omitempty"` // core.AppendHeaders of what was declared
	Levels     int    `json:",omitempty"` // x-max-priority, where a policy gave it
}

// exchangeRecord is a durable exchange on disk.
type exchangeRecord struct {
	Kind       string
	Alternate  string `json:",omitempty"`
	AutoDelete bool   `json:",omitempty"`
	Internal   bool   `json:",omitempty"`
	Delayed    bool   `json:",omitempty"`
}

// bindingRecord is a binding between durable ends on disk, without the
// adapter's value.
type bindingRecord struct {
	Source     string
	Exchange   string         `json:",omitempty"`
	QueueKind  core.QueueKind `json:",omitempty"`
	Queue      string         `json:",omitempty"`
	Filter     string
	Dollars    bool   `json:",omitempty"`
	Args       []byte `json:",omitempty"`
	AtMostOnce bool   `json:",omitempty"`

	User    string         `json:",omitempty"` // of the owner, as the others
	Client  string         `json:",omitempty"`
	Groups  []string       `json:",omitempty"`
	Session core.SessionID `json:",omitempty"`
}

// record is a value's form on disk.
func record(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("local: record: " + err.Error()) // plain structs: cannot be
	}
	return b
}

func (s space) key(kind byte, rest ...string) []byte {
	k := append(append([]byte(nil), s...), kind)
	for _, r := range rest {
		k = append(k, r...)
	}
	return k
}

func (s space) queue(k core.QueueKey) []byte { return s.key(keyQueue, string(rune(k.Kind)), k.Name) }

// addQueue gives a new queue its part of the store, and keeps it if durable.
func (d *disk) addQueue(q *queue) {
	if d == nil {
		return
	}
	d.next++
	q.shelf = newShelf(q, &spool{store: d.store, space: d.space, queue: d.next, boot: d.boot})
	q.lastSeq = d.boot << seqBits
	if q.durable.Load() {
		d.harden(q)
	}
}

// harden keeps a queue. A group's becomes durable with its first member that
// lasts, who binds it after, and then keeps what comes from there on.
func (d *disk) harden(q *queue) {
	if d == nil {
		return
	}
	var b store.Batch
	b.Set(d.space.queue(q.key), queueOnDisk(q))
	d.commit(&b)
}

func queueOnDisk(q *queue) []byte {
	return record(queueRecord{Number: q.shelf.spool.queue, Exclusive: q.exclusive, AutoDelete: q.autoDelete, By: q.by, User: q.user,
		Args: core.AppendHeaders(nil, q.declared().Headers()), Levels: q.ruledLevels()})
}

func exchangeOnDisk(s *core.ExchangeSpec) []byte {
	return record(exchangeRecord{Kind: s.Kind.String(), Alternate: s.Alternate, AutoDelete: s.AutoDelete, Internal: s.Internal,
		Delayed: s.Delayed})
}

func bindingOnDisk(b *routing.Binding[*queue]) []byte {
	r := bindingRecord{Source: b.Source, Exchange: b.Exchange, Filter: b.Filter.String(), Dollars: b.Filter.Dollars()}
	if b.Queue != nil {
		r.QueueKind, r.Queue = b.Queue.key.Kind, b.Queue.key.Name
	}
	if t, ok := b.Value.(*target); ok {
		r.AtMostOnce = t.atMostOnce
		r.setOwner(t.owner)
	}
	if len(b.Args) > 0 {
		r.Args = core.AppendHeaders(nil, b.Args)
	}
	return record(r)
}

// dropQueue forgets a queue and its bindings; its messages go in queue.end.
func (d *disk) dropQueue(q *queue, bindings []routing.Binding[*queue]) {
	if d == nil || !q.durable.Load() {
		return
	}
	var b store.Batch
	b.Delete(d.space.queue(q.key))
	for i := range bindings {
		b.Delete(d.space.binding(&bindings[i]))
	}
	d.commit(&b)
}

func (d *disk) addExchange(s core.ExchangeSpec) {
	if d == nil || !s.Durable {
		return
	}
	var b store.Batch
	b.Set(d.space.key(keyExchange, s.Name), exchangeOnDisk(&s))
	d.commit(&b)
}

// dropExchange forgets an exchange and the bindings at both its sides.
func (d *disk) dropExchange(s core.ExchangeSpec, bindings []routing.Binding[*queue]) {
	if d == nil || !s.Durable {
		return
	}
	var b store.Batch
	b.Delete(d.space.key(keyExchange, s.Name))
	for i := range bindings {
		b.Delete(d.space.binding(&bindings[i]))
	}
	d.commit(&b)
}

// binding is a binding's key: a digest of what tells it from others.
func (s space) binding(b *routing.Binding[*queue]) []byte {
	args := slices.Clone(b.Args)
	slices.SortStableFunc(args, func(a, b routing.Header) int { return cmp.Compare(a.Name, b.Name) })
	id := bindingRecord{Source: b.Source, Exchange: b.Exchange, Filter: b.Filter.String(),
		Dollars: b.Filter.Dollars(), Args: core.AppendHeaders(nil, args)}
	if b.Queue != nil {
		id.QueueKind, id.Queue = b.Queue.key.Kind, b.Queue.key.Name
	}
	sum := sha256.Sum256(record(id))
	return s.key(keyBinding, string(sum[:16]))
}

// lasts tells whether both ends of a binding are durable.
func (e *Engine) lasts(b *routing.Binding[*queue]) bool {
	if e.disk == nil || !e.exchanges[b.Source].spec.Durable {
		return false
	}
	if b.Exchange != "" {
		return e.exchanges[b.Exchange].spec.Durable
	}
	return b.Queue.durable.Load()
}

// addBinding keeps a binding. With mu held.
func (e *Engine) addBinding(b *routing.Binding[*queue]) {
	if !e.lasts(b) {
		return
	}
	var batch store.Batch
	batch.Set(e.disk.space.binding(b), bindingOnDisk(b))
	e.disk.commit(&batch)
}

// dropBinding forgets a binding. With mu held.
func (e *Engine) dropBinding(b *routing.Binding[*queue]) {
	if !e.lasts(b) {
		return
	}
	var batch store.Batch
	batch.Delete(e.disk.space.binding(b))
	e.disk.commit(&batch)
}

// newBoot counts the openings of the realm, so that what an older one spilled
// is told from what this one does.
func (d *disk) newBoot() error {
	k := d.space.key(keyBoot)
	v, _, err := d.store.Get(k)
	if err != nil {
		return fmt.Errorf("boot number: %w", err)
	}
	if len(v) == 8 {
		d.boot = binary.BigEndian.Uint64(v)
	}
	d.boot++
	var b store.Batch
	b.Set(k, binary.BigEndian.AppendUint64(nil, d.boot))
	d.commit(&b)
	return core.DiskError(d.store.Sync())
}
