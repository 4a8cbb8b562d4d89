package enginetest

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"entrepot/core"
)

func levelTests() []test {
	return []test{
		{"x-max-priority: the highest first, in order within one", levelsFirst},
		{"x-max-priority: larger ones count as the highest, none as 0", levelsClamped},
		{"x-max-priority: what comes back goes to its place", levelsBack},
		{"x-max-priority: with a prefetch of one", levelsPrefetch},
		{"x-max-priority: a full queue drops the oldest of the lowest", levelsMaxlen},
		{"x-max-priority: a TTL acts in every level", levelsTTL},
		{"x-max-priority: a long backlog", levelsBacklog},
		{"x-max-priority: an Apply, a reject, a purge", levelsApply},
		{"x-max-priority: consumers that choose", levelsChoose},
		{"x-max-priority: not on a session's queue, not with last values", levelsRefused},
		{"fault 84: x-max-overtakes, the low ones get their turn in a flood", levelsOvertakes},
	}
}

func levelQueue(r *rig, most int, edits ...func(*core.QueueArgs)) core.QueueKey {
	r.Helper()
	a := core.QueueArgs{MaxPriority: most}
	for _, edit := range edits {
		edit(&a)
	}
	return r.queue("q", func(s *core.QueueSpec) { s.Durable = true }, args(a))
}

func priority(p uint8) func(*core.Message) {
	return func(m *core.Message) {
		if m.Props == nil {
			m.Props = &core.Properties{}
		}
		m.Props.Priority, m.Props.HasPriority = p, true
	}
}

// rank publishes "<priority><letter>" for every word.
func (r *rig) rank(words string, edits ...func(*core.Message)) {
	r.Helper()
	for _, w := range strings.Fields(words) {
		r.sendOne(r.message("", "q", w, append(edits, priority(w[0]-'0'), durable)...))
	}
}

func levelsFirst(r *rig) {
	k := levelQueue(r, 9)
	r.rank("0a 5b 3c 5d 9e 0f 3g")
	r.wantInfo(k, 7, 0, 14)
	r.drain(k, "9e", "5b", "5d", "3c", "3g", "0a", "0f")
	r.rank("1a 2b")
	r.drain(k, "2b", "1a")
}

func levelsClamped(r *rig) {
	k := levelQueue(r, 3)
	for _, p := range []uint8{255, 3, 4, 0} {
		r.sendOne(r.message("", "q", fmt.Sprint(p), priority(p), durable))
	}
	r.send("", "q", "none")
	r.drain(k, "255", "3", "4", "0", "none")
}

func levelsBack(r *rig) {
	k := levelQueue(r, 255)
	p := r.taking(6)
	c := r.consume(k, p)
	r.rank("1a 1b 5c 5d")
	got := p.want("1a", "1b", "5c", "5d")
	c.Cancel(core.Return)
	r.rank("5e 1f 9g 0h")
	r.drain(k, "9g", "5c", "5d", "5e", "1a", "1b", "1f", "0h")
	_ = got
	p = r.taking(2)
	c = r.consume(k, p)
	r.rank("3a 3b 3c")
	d := p.want("3a", "3b")
	r.settle(c, core.Requeue, d[1])
	r.settle(c, core.Requeue, d[0])
	c.Cancel(core.Return)
	r.drain(k, "3a", "3b", "3c")
}

func levelsPrefetch(r *rig) {
	k := levelQueue(r, 9)
	p := r.taking(1)
	c := r.consume(k, p)
	r.rank("0a 0b")
	r.rank("7c")
	for _, want := range []string{"0a", "7c", "0b"} {
		d := p.want(want)
		p.more(1)
		r.ack(c, d...)
	}
}

func levelsMaxlen(r *rig) {
	k := levelQueue(r, 9, func(a *core.QueueArgs) { a.MaxLength, a.HasMaxLength = 3, true })
	r.rank("5a 1b 5c 1d 9e")
	r.wantInfo(k, 3, 0, 6)
	r.wantDropped(core.DropOverflow, 2)
	r.rank("0f")
	r.drain(k, "9e", "5a", "5c")
}

func levelsTTL(r *rig) {
	k := levelQueue(r, 9)
	r.rank("9a 5b 0c")
	r.rank("5d 0e 9f", ttl(time.Second))
	pass(time.Second)
	r.wantInfo(k, 3, 0, 6)
	r.wantDropped(core.DropExpired, 3)
	r.drain(k, "9a", "5b", "0c")
}

// levelsBacklog is more than fits in memory where there is a window.
func levelsBacklog(r *rig) {
	k := levelQueue(r, 9)
	var want []string
	for p := 9; p >= 0; p-- {
		for n := range 30 {
			want = append(want, fmt.Sprintf("%d%02d", p, n))
		}
	}
	for n := range 30 {
		for _, p := range []int{4, 9, 0, 7, 1, 2, 8, 3, 6, 5} {
			r.rank(fmt.Sprintf("%d%02d", p, n))
		}
	}
	r.wantInfo(k, 300, 0, 900)
	p := r.taking(150)
	c := r.consume(k, p)
	p.want(want[:150]...)
	c.Cancel(core.Return)
	r.rank("9last")
	want = append(append(append([]string{}, want[:30]...), "9last"), want[30:]...)
	r.drain(k, want...)
	r.wantInfo(k, 0, 0, 0)
}

func levelsApply(r *rig) {
	k := levelQueue(r, 9)
	op := func(text string, p uint8) core.Op {
		o := r.publication("", "q", text)
		priority(p)(o.Message)
		durable(o.Message)
		return o
	}
	_, err := r.apply(op("a", 1), op("b", 5), op("c", 3))
	r.must(err)
	p := r.taking(1)
	c := r.consume(k, p)
	_, err = r.apply(settlement(c, core.Reject, p.want("b")[0]), op("d", 0), op("e", 9))
	r.must(err)
	c.Cancel(core.Return)
	r.wantInfo(k, 4, 0, 4)
	r.wantDropped(core.DropRejected, 1)
	r.fall(k, core.Ack, "e")
	if n, err := r.engine.PurgeQueue(r.ctx, k, 0); n != 3 || err != nil {
		r.Fatalf("purged %d, %v", n, err)
	}
	r.wantInfo(k, 0, 0, 0)
	r.rank("1x 2y")
	r.drain(k, "2y", "1x")
}

func levelsChoose(r *rig) {
	k := levelQueue(r, 9)
	p := r.settling()
	c, err := r.engine.Consume(r.ctx, k, core.ConsumeOptions{Paused: true, Accepts: func(m *core.Message) bool {
		return m.Payload[1] == 'x'
	}}, p)
	r.must(err)
	r.rank("0x 5a 5x 9b 0c 9x")
	c.Resume(nil)
	p.want("9x", "5x", "0x")
	r.rank("3d 3x")
	p.want("3x")
	c.Cancel(core.Return)
	r.drain(k, "9b", "5a", "3d", "0c")
}

func levelsRefused(r *rig) {
	for _, s := range []core.QueueSpec{
		{Key: core.Key(core.SessionQueue, "s"), Args: core.QueueArgs{MaxPriority: 3}},
		{Key: core.Named("q"), Args: core.QueueArgs{MaxPriority: 3, LastValueKey: "k"}},
	} {
		_, err := r.engine.DeclareQueue(r.ctx, s)
		r.wantError(err, core.ErrUnsupported)
	}
}

// levelsOvertakes: of those below, the oldest comes after at most three.
func levelsOvertakes(r *rig) {
	k := levelQueue(r, 9, func(a *core.QueueArgs) { a.MaxOvertakes = 3 })
	r.rank("1a 0b 5c")
	r.rank("9m 9n 9o 9p 9q 9r 9s 9t 9u 9v 9w")
	r.drain(k, "9m", "9n", "9o", "1a", "9p", "9q", "9r", "0b", "9s", "9t", "9u", "5c", "9v", "9w")
	p := r.taking(1)
	c := r.consume(k, p)
	r.rank("0a")
	p.want("0a")
	r.rank("9b 9c 9d 9e 9f")
	c.Cancel(core.Requeue) // 0a is back in its place
	synctest.Wait()
	r.drain(k, "9b", "9c", "9d", "0a", "9e", "9f")
}
