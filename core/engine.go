package core

import (
	"context"

	"entrepot/routing"
)

// Engine keeps the exchanges and queues of one realm. It is used by Broker and
// Session alone; rights are checked before a call comes here, owners of
// exclusive queues by the engine (the By fields). All methods may be called
// from any goroutine. core/enginetest is its contract in tests.
//
// What is durable of declares, binds and deletes is on its way to the disk when
// they return, in their order; Broker waits for the sync. Durable messages are
// on the disk when their Done is called.
//
// Receivers and Done are called with no lock held that another method takes;
// a Source is called under its queue's lock and calls nothing back.
type Engine interface {
	DeclareExchange(ctx context.Context, s ExchangeSpec) error
	DeleteExchange(ctx context.Context, name string, ifUnused bool) error
	DeclareQueue(ctx context.Context, s QueueSpec) (QueueInfo, error)
	// DeleteQueue removes a queue with its bindings and returns how many ready
	// messages went with it. Its consumers are told by QueueGone if their
	// receiver has it.
	DeleteQueue(ctx context.Context, k QueueKey, o DeleteOptions) (int, error)
	PurgeQueue(ctx context.Context, k QueueKey, by SessionID) (int, error)
	// Bind returns whether the binding is new. Publishes that begin after it
	// returned see it.
	Bind(ctx context.Context, s BindSpec) (added bool, err error)
	Unbind(ctx context.Context, s BindSpec) error
	// Replay feeds src into the queue of a binding as there is room, each
	// message marked Replayed and with the binding's Value as what matched. It
	// ends when the binding goes, and one that still runs for the same source,
	// queue and filter gives way to the new one.
	Replay(ctx context.Context, s BindSpec, src Source) error
	Consume(ctx context.Context, k QueueKey, o ConsumeOptions, r Receiver) (Consumer, error)
	// Publish routes m and puts it into every queue that it matches, or none
	// when one refuses. done may be nil.
	Publish(b *Batch, m *Message, done Done)
	// Apply does all of ops or none. A settlement of what was in a queue that is
	// deleted does nothing and is no refusal.
	Apply(b *Batch, ops []Op, done Done)
	Stats() EngineStats
}

// Lister is implemented by engines that can tell their queues.
type Lister interface {
	// EachQueue calls f for every queue; owner is 0 unless it is exclusive.
	EachQueue(f func(k QueueKey, owner SessionID))
}

// Guarded is implemented by engines that ask about what a binding brings in.
// Without it a filter is granted whole or not at all.
type Guarded interface {
	// Guard has may asked, from then on and of routes found before too, whether
	// a queue that is bound to TopicExchange gets a topic from there: it does
	// when that is so for the owner of a binding that matches. nil asks nobody.
	// may is called under locks, about once for each topic and binding.
	Guard(may func(o *Owner, t routing.Topic) bool)
	// EachBinding calls f for every binding that has an owner, without locks.
	EachBinding(f func(BindSpec))
}

// QueueGone is implemented by receivers that want to know when their queue
// was deleted under them. Called once, on a goroutine of its own; the consumer
// is cancelled already and no Deliver runs.
type QueueGone interface{ QueueGone() }

// Source yields retained messages one after the other, ok false at the end.
type Source func() (m *Message, ok bool)

// Op is one step of an Apply: a publish when Message is set, a note when Note
// is, else a settlement of Seq on Consumer.
type Op struct {
	Message  *Message
	Note     *Note
	Consumer Consumer
	Seq      uint64
	Outcome  Outcome
	// Unrouted, which may be nil, is called when no queue takes Message and
	// nothing of the Apply is refused, before its Done. It must not block.
	Unrouted func()
}

// Note is something that a session's adapter keeps on disk beside the
// messages, written as one with the other steps of its Apply: the packet ids
// of QoS 2, for one. A nil Value removes it. Without a store it is nothing.
type Note struct {
	Key   []byte
	Value []byte
}

// EngineStats are sums over an engine at one moment.
type EngineStats struct {
	Exchanges, Queues, Bindings, Consumers int
	Ready, Unsettled                       int
	Bytes                                  int64  // payload bytes of both
	Unroutable                             uint64 // messages that no queue matched
	DeadLetters                            int    // given up, and not yet in a queue behind the dead-letter exchange
	DeadLettered                           uint64 // those that are
	Delayed                                int    // messages for later
}
