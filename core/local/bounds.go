package local

import (
	"fmt"

	"entrepot/core"
)

// census is the named queues, in all and by user, and what bounds them. It is under
// Engine.mu.
type census struct {
	core.Bounds
	queues int
	of     map[string]int
}

// Bound sets the bounds that hold from then on.
func (e *Engine) Bound(b core.Bounds) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.census.Bounds = b
}

// count takes note of a queue that came (1) or went (-1).
func (t *census) count(q *queue, n int) {
	if q.key.Kind != core.NamedQueue {
		return
	}
	t.queues += n
	if q.user == "" {
		return
	}
	if t.of == nil {
		t.of = map[string]int{}
	}
	if t.of[q.user] += n; t.of[q.user] == 0 {
		delete(t.of, q.user)
	}
}

// roomForQueue refuses a named queue beyond the bounds.
func (t *census) roomForQueue(s *core.QueueSpec) error {
	if s.Key.Kind != core.NamedQueue {
		return nil
	}
	if err := t.room(core.LimitQueuesInAll, t.queues, t.Queues); err != nil {
		return err
	}
	if s.User == "" {
		return nil
	}
	return t.room(core.LimitUserQueues, t.of[s.User], t.UserQueues)
}

// room refuses one more than most; 0 is no bound.
func (t *census) room(l core.Limit, have, most int) error {
	if most == 0 || have < most {
		return nil
	}
	t.Reached(l)
	return fmt.Errorf("%s: at most %d: %w", l, most, core.ErrLimit)
}
