package local

import (
	"entrepot/core"
	"entrepot/routing"
)

// replay is a retained snapshot that goes into a queue as there is room.
type replay struct {
	src    core.Source
	to     *target
	source string // the binding that asked for it
	filter routing.Filter
}

// replayAhead bounds how many messages wait before a replay holds.
const replayAhead = 256

// of tells whether the replay was asked for by that binding.
func (r *replay) of(s *core.BindSpec) bool { return r.source == s.Source && r.filter == s.Filter }

// replay starts a snapshot. One of the same binding that is not at its end is
// given up for it, since the newer has all that the older still had. It takes
// mu.
func (q *queue) replay(s *core.BindSpec, src core.Source) {
	b := &core.Batch{}
	q.mu.Lock()
	if !q.dead && (!s.AtMostOnce || !q.forgets() || len(q.consumers) > 0) {
		q.endReplay(s)
		q.replays = append(q.replays, replay{src, newTarget(q, s), s.Source, s.Filter})
		q.drain(b)
	}
	q.unlock()
	b.Flush()
}

// endReplay: the binding is gone or asks again.
func (q *queue) endReplay(s *core.BindSpec) {
	q.replays = keepReplays(q.replays, func(r *replay) bool { return !r.of(s) })
}

// unbound takes mu.
func (q *queue) unbound(s *core.BindSpec) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endReplay(s)
}

func keepReplays(rs []replay, f func(*replay) bool) []replay {
	var left []replay
	for i := range rs {
		if f(&rs[i]) {
			left = append(left, rs[i])
		}
	}
	return left
}

// refill takes replayed messages in. The source is asked under mu, so that a
// live message of the same topic is either seen by it or comes after.
func (q *queue) refill() {
	for len(q.replays) > 0 && q.waiting()-q.setAside() < replayAhead && q.onDisk() == 0 {
		r := &q.replays[0]
		m, ok := r.src()
		if !ok {
			q.replays[0] = replay{}
			if q.replays = q.replays[1:]; len(q.replays) == 0 {
				q.replays = nil
			}
			continue
		}
		e := entry{msg: m, to: r.to, seq: q.nextSeq(m), replayed: true,
			transient: m.Guarantee == core.AtMostOnce || r.to.atMostOnce}
		if m.Props != nil || q.args.HasMessageTTL {
			q.date(&e)
		}
		q.bytes += e.size()
		q.push(e)
	}
}
