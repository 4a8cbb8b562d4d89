package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// QueueKeeper is implemented by engines whose queues can be worked on by hand.
// What is out for settlement is not touched. match picks messages, nil all of
// them; it is quick and calls nothing back. most bounds how many are touched, 0
// does not. ErrNotFound for a queue that is not there.
type QueueKeeper interface {
	// Browse shows up to n messages that wait, in the queue's order, those
	// behind a seq; 0 begins. They stay where they are.
	Browse(k QueueKey, after uint64, n int, match func(*Message) bool) ([]Delivery, error)
	// Move puts messages into another queue, each as one with its removal, and
	// returns how many went. It ends at the first that is refused, which stays.
	Move(from, to QueueKey, most int, match func(*Message) bool) (int, error)
	// ReplayDead is Move back to the queue that gave each message up last,
	// addressed as it was; others stay, with an error where that queue is gone.
	ReplayDead(from QueueKey, most int, match func(*Message) bool) (int, error)
	// PurgeSome removes messages and returns how many.
	PurgeSome(k QueueKey, most int, match func(*Message) bool) (int, error)
}

// Keeper is for who may do all with the broker's queues; ErrUnsupported where
// the engine has none.
func (b *Broker) Keeper() (QueueKeeper, error) {
	if k, ok := b.engine.(QueueKeeper); ok {
		return k, nil
	}
	return nil, fmt.Errorf("work on queues by hand: %w", ErrUnsupported)
}

// Queues lists all queues by kind and name, those of sessions too, for who may
// do all.
func (b *Broker) Queues() []QueueInfo {
	l, ok := b.engine.(Lister)
	if !ok {
		return nil
	}
	var list []QueueInfo
	l.EachQueue(func(k QueueKey, _ SessionID) {
		// One that went meanwhile is not shown.
		if i, err := b.engine.DeclareQueue(context.Background(), QueueSpec{Key: k, Passive: true}); err == nil {
			list = append(list, i)
		}
	})
	slices.SortFunc(list, func(a, b QueueInfo) int {
		if a.Key.Kind != b.Key.Kind {
			return int(a.Key.Kind) - int(b.Key.Kind)
		}
		return strings.Compare(a.Key.Name, b.Key.Name)
	})
	return list
}
