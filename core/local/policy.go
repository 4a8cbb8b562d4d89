package local

import (
	"reflect"

	"entrepot/core"
)

// Policies give a queue arguments that its clients did not. What was declared
// is kept apart: it is what stands on disk and what a second declare is
// compared with, so that other policies after a restart are no conflict.

// ruling is what a policy makes of a queue.
type ruling struct {
	name     string // "": the one that gave it its levels is gone
	declared core.QueueArgs
	// kept: messages on disk hold the queue to other levels than the policy's.
	kept bool
}

// Option changes what an engine does.
type Option func(*Engine)

// WithPolicies gives the engine's queues arguments, those too that come back
// from disk. Messages that wait there keep the date of their end.
func WithPolicies(p *core.Policies) Option { return func(e *Engine) { e.policies = p } }

// declared are the arguments that the queue was made with. Without mu.
func (q *queue) declared() *core.QueueArgs {
	if q.ruling != nil {
		return &q.ruling.declared
	}
	return q.args
}

// policy is the name of the queue's policy. Without mu.
func (q *queue) policy() string {
	if q.ruling == nil {
		return ""
	}
	return q.ruling.name
}

// rule sets what follows from the arguments. Nobody else has the queue yet.
func (q *queue) rule(declared *core.QueueArgs) {
	args, name := q.engine.policies.Apply(q.key, *declared)
	q.ruling = nil
	if name != "" {
		q.ruling = &ruling{name: name, declared: *declared}
	}
	q.setArgs(args)
}

func (q *queue) setArgs(args core.QueueArgs) {
	q.args = &q.engine.plain
	if !reflect.ValueOf(args).IsZero() {
		q.args = &args
	}
	q.limit = limitOf(q.key, q.args)
	q.ready.levels = nil
	if n := q.args.MaxPriority; n > 0 {
		q.ready.levels = newLevels(n, q.args.MaxOvertakes)
	}
}

// ruledLevels is the x-max-priority that is a policy's, for the disk.
func (q *queue) ruledLevels() int {
	if q.declared().MaxPriority > 0 {
		return 0
	}
	return q.args.MaxPriority
}

// keepLevels gives a queue from disk the levels that its messages have there,
// whatever the policy says now.
func (q *queue) keepLevels(n int) {
	if q.ruledLevels() == n {
		return
	}
	args := *q.args
	if args.MaxPriority = n; n > 0 {
		args.LastValueKey = ""
	}
	if q.ruling == nil {
		q.ruling = &ruling{declared: *q.args}
	}
	q.ruling.kept = true
	q.setArgs(args)
}

// freeLevels gives a queue of which nothing is on disk the policy's levels.
func (q *queue) freeLevels(d *disk) {
	s := q.shelf
	if q.ruling == nil || !q.ruling.kept || s.n > 0 || s.fault != nil {
		return
	}
	declared := q.ruling.declared
	q.rule(&declared)
	s.spool.ranked = q.ready.levels != nil
	d.harden(q)
}
