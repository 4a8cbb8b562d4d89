package local

import (
	"fmt"

	"entrepot/core"
)

// A last-value queue holds one waiting message for each value of a header: a
// younger one takes the older's part, at the end of the queue, unless that is
// out for settlement; when it comes back and there is a younger one it goes.
// Messages without the header wait as in any queue. All that waits is in
// memory, since its number is that of the values.

// topicValue as x-last-value-key is the message's topic.
const topicValue = "x-topic"

// valueOf is what tells a message from others in a last-value queue.
func (q *queue) valueOf(m *core.Message) (string, bool) {
	if q.args.LastValueKey == topicValue {
		return m.Topic.String(), true
	}
	if m.Props == nil {
		return "", false
	}
	v, ok := m.Props.Headers.Get(q.args.LastValueKey)
	if b, bytes := v.([]byte); bytes {
		return string(b), ok
	}
	return fmt.Sprint(v), ok
}

// replace notes a new entry as its value's last and drops the one before.
func (q *queue) replace(e *entry) {
	if old := q.noteValue(e); old != 0 {
		q.cut(old)
	}
}

// outdated tells whether there is a younger entry of the same value.
func (q *queue) outdated(e *entry) bool {
	v, ok := q.valueOf(e.msg)
	return ok && q.last[v] > e.seq
}

// cut drops a waiting entry that was replaced; one that its publisher has not
// shown yet goes when it does.
func (q *queue) cut(seq uint64) {
	is := func(e *entry) bool { return e.seq == seq && !e.pending }
	if e := q.ready.find(seq); e != nil {
		if is(e) {
			q.waitBytes -= e.size()
			q.drop(*e, core.DropReplaced)
			q.ready.remove(seq)
		}
		return
	}
	keep := func(e *entry) bool {
		if !is(e) {
			return true
		}
		q.waitBytes -= e.size()
		q.drop(*e, core.DropReplaced)
		return false
	}
	q.back.keep(keep)
	q.late.keep(keep)
	q.aside.keep(keep)
}

// forgetValue: an entry left for good.
func (q *queue) forgetValue(e *entry) {
	if v, ok := q.valueOf(e.msg); ok && q.last[v] == e.seq {
		delete(q.last, v)
	}
}

// readAll brings what a restart left on disk into memory, so that its values
// are known.
func (q *queue) readAll() {
	q.mu.Lock()
	defer q.unlock()
	s := q.shelf
	for s.n > 0 && s.fault == nil {
		msgs, err := s.spool.load(s.next, s.applied, wholeCount, wholeBytes)
		if err != nil {
			q.unreadable(err)
			return
		}
		if len(msgs) == 0 {
			q.phantoms(&s.part)
			return
		}
		for i := range msgs {
			q.shelved(&msgs[i])
		}
		s.next = msgs[len(msgs)-1].seq + 1
	}
	for i := range q.ready.len() {
		q.noteValue(q.ready.at(i))
	}
	q.ready.keep(func(e *entry) bool {
		if !q.outdated(e) {
			return true
		}
		q.waitBytes -= e.size()
		q.drop(*e, core.DropReplaced)
		return false
	})
}

// noteValue makes an entry its value's last, and returns the seq of the one
// before.
func (q *queue) noteValue(e *entry) (old uint64) {
	v, ok := q.valueOf(e.msg)
	if !ok {
		return 0
	}
	if q.last == nil {
		q.last = map[string]uint64{}
	}
	old = q.last[v]
	q.last[v] = max(old, e.seq)
	return old
}
