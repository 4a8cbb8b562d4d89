package core

import (
	"context"
	"fmt"

	"entrepot/core/auth"
	"entrepot/routing"
)

// ExchangeSpec describes an exchange to declare.
type ExchangeSpec struct {
	Name string
	Kind routing.Kind
	// Alternate takes what this exchange matches to nothing; "" for none.
	Alternate  string
	Durable    bool
	AutoDelete bool // goes when its last binding as a source goes
	Internal   bool // clients cannot publish to it
	// Delayed: of the type x-delayed-message. Every exchange takes messages for
	// later; from this one they come with the delay, negative, in the header
	// x-delay, as from RabbitMQ's plug-in.
	Delayed bool
	// Passive: only tell whether it exists.
	Passive bool
}

// Replay says whether a Bind is followed by the retained messages that match.
type Replay uint8

const (
	ReplayNever Replay = iota
	// ReplayIfNew: only when the binding was not there before.
	ReplayIfNew
	ReplayAlways
)

// BindSpec describes a binding from an exchange to a queue, or to another
// exchange when Exchange is not empty.
type BindSpec struct {
	Source   string
	Queue    QueueKey
	Exchange string
	// Filter is the binding key: a filter on a topic exchange, a literal on a
	// direct one.
	Filter routing.Filter
	// Literal, where it is set, is the key as a source reads it whose kind knows
	// no wildcards, in place of Filter, which such a key need not have.
	Literal routing.Filter
	Args    routing.Headers
	// Value is the adapter's own; it comes back in Delivery.Matched. Binding
	// the same source, target, filter and arguments again replaces it.
	Value any
	// AtMostOnce: whatever this binding brings in is taken as AtMostOnce,
	// unless another binding of the queue that matched says otherwise.
	AtMostOnce bool
	Replay     Replay
	By         SessionID
	// Owner is stamped by Session.Bind.
	Owner *Owner
}

// Owner is who made a binding: messages come in with its rights, as long as the
// binding is there. It does not change.
type Owner struct {
	Principal auth.Principal
	Session   SessionID
}

// RoutingTopic is the topic that a routing key in dotted spelling is on an
// exchange; on the default exchange a key is a queue's name, one level. It
// returns an error wrapping ErrInvalid for what is none.
func RoutingTopic(exchange, key string) (routing.Topic, error) {
	if exchange == DefaultExchange {
		a, err := QueueAddress(key)
		return a.Topic, err
	}
	t, err := routing.Dotted.ParseTopic(key)
	if err != nil {
		return t, fmt.Errorf("routing key %q: %w: %w", key, ErrInvalid, err)
	}
	return t, nil
}

// Validate returns an error for a key that its exchange cannot route, and for
// RPCExchange: a dead letter calls nobody.
func (d *DeadLetter) Validate() error {
	if d != nil && d.Exchange == RPCExchange {
		return fmt.Errorf("argument x-dead-letter-exchange: %w", errCalls)
	}
	if d == nil || !d.HasKey {
		return nil
	}
	if _, err := RoutingTopic(d.Exchange, d.Key); err != nil {
		return fmt.Errorf("argument x-dead-letter-routing-key: %w", err)
	}
	return nil
}

// declareReserved lets a client make sure of what the broker has.
func (s *Session) declareReserved(ctx context.Context, x ExchangeSpec) error {
	if (x.Name == DefaultExchange || x.Name == RPCExchange) && x.Passive {
		return nil
	}
	if x.Name == RPCExchange {
		return fmt.Errorf("exchange %q: %w: it is the broker's own", x.Name, ErrNotAllowed)
	}
	there := x
	there.Passive = true
	err := s.broker.engine.DeclareExchange(ctx, there)
	if x.Passive {
		return err
	}
	if x.Name == DefaultExchange || err != nil {
		return &ExchangeError{Exchange: x.Name, Reserved: true, Err: ErrNotAllowed}
	}
	return s.broker.engine.DeclareExchange(ctx, x)
}
