package enginetest

import (
	"fmt"
	"sync"
	"testing/synctest"

	"entrepot/core"
)

func replayTests() []test {
	return []test{
		{"replayed messages are marked and come in order", replayed},
		{"a replay goes on as there is room", replayGoesOn},
		{"a replay waits for its consumer", replayWaits},
		{"a replay asks only for what it has room for", replayBounded},
		{"Unbind ends the replay [MQTT-3.10.4-2]", unbindEndsReplay},
		{"a newer replay of a binding takes the place of the older", newerReplay},
		{"an at-most-once replay ends with the last consumer", replayForgotten},
		{"live messages come beside a replay", liveBesideReplay},
		{"a replay into nowhere is refused", replayNowhere},
		{"purge and delete end a replay", purgeEndsReplay},
	}
}

// snapshot is a source of n messages that counts how many were asked for.
type snapshot struct {
	mu    sync.Mutex
	left  []*core.Message
	asked int
}

func (s *snapshot) next() (*core.Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.left) == 0 {
		return nil, false
	}
	m := s.left[0]
	s.left = s.left[1:]
	s.asked++
	return m, true
}

func (s *snapshot) taken() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (r *rig) snapshot(name string, n int) *snapshot {
	s := &snapshot{}
	for i := range n {
		s.left = append(s.left, r.message(core.TopicExchange, "a", fmt.Sprint(name, i)))
	}
	return s
}

// subscription is a session's queue with a binding to replay for.
func (r *rig) subscription(edits ...func(*core.BindSpec)) core.BindSpec {
	r.Helper()
	k := r.queue("s", kind(core.SessionQueue))
	s := r.binding(core.TopicExchange, "a", k, edits...)
	_, err := r.engine.Bind(r.ctx, s)
	r.must(err)
	return s
}

func replayed(r *rig) {
	s := r.subscription()
	p := r.probe()
	c := r.consume(s.Queue, p)
	r.must(r.engine.Replay(r.ctx, s, r.snapshot("r", 3).next))
	got := p.want("r0", "r1", "r2")
	for _, d := range got {
		if !d.Replayed || d.Attempts != 0 {
			r.Fatalf("%q: replayed %v, attempts %d", d.Payload, d.Replayed, d.Attempts)
		}
	}
	r.send(core.TopicExchange, "a", "live")
	live := p.want("live")
	if live[0].Replayed || live[0].Seq <= got[2].Seq {
		r.Fatal("a live message that is replayed, or out of order")
	}
	r.ack(c, got...)
	r.ack(c, live...)
}

func replayGoesOn(r *rig) {
	s := r.subscription()
	p := r.taking(1)
	c := r.consume(s.Queue, p)
	r.must(r.engine.Replay(r.ctx, s, r.snapshot("r", 3).next))
	for i := range 3 {
		got := p.want(fmt.Sprint("r", i))
		p.more(1)
		r.ack(c, got...)
	}
	p.want()
}

func replayWaits(r *rig) {
	s := r.subscription()
	r.must(r.engine.Replay(r.ctx, s, r.snapshot("r", 2).next))
	p := r.probe()
	c := r.consume(s.Queue, p, paused)
	p.want()
	c.Resume(nil)
	p.want("r0", "r1")
}

func replayBounded(r *rig) {
	s := r.subscription()
	src := r.snapshot("r", 10_000)
	c := r.consume(s.Queue, r.taking(0))
	r.must(r.engine.Replay(r.ctx, s, src.next))
	if n := src.taken(); n > 1000 {
		r.Fatalf("%d messages are in the queue of a client that takes none", n)
	}
	c.Cancel(core.Return)
	p := r.settling()
	r.consume(s.Queue, p)
	if n := len(p.take()); n != 10_000 {
		r.Fatalf("%d received", n)
	}
}

func unbindEndsReplay(r *rig) {
	s := r.subscription()
	src := r.snapshot("r", 1000)
	p := r.taking(1)
	c := r.consume(s.Queue, p)
	r.must(r.engine.Replay(r.ctx, s, src.next))
	p.want("r0")
	before := src.taken()
	r.must(r.engine.Unbind(r.ctx, s))
	p.more(-1)
	c.Resume(nil)
	p.take()
	if n := src.taken(); n != before {
		r.Fatalf("%d more were asked for after Unbind", n-before)
	}
}

func newerReplay(r *rig) {
	s := r.subscription()
	older := r.snapshot("old", 1000)
	p := r.taking(1)
	c := r.consume(s.Queue, p)
	r.must(r.engine.Replay(r.ctx, s, older.next))
	before := older.taken()
	r.must(r.engine.Replay(r.ctx, s, r.snapshot("new", 2).next))
	p.more(-1)
	c.Resume(nil)
	got := texts(p.take())
	if n := older.taken(); n != before {
		r.Fatalf("%d more were asked of the older", n-before)
	}
	if n := len(got); n < 2 || got[n-2] != "new0" || got[n-1] != "new1" {
		r.Fatalf("the newer is not whole: %q", got)
	}
}

func replayForgotten(r *rig) {
	s := r.subscription(lowered)
	src := r.snapshot("r", 1000)
	r.must(r.engine.Replay(r.ctx, s, src.next)) // nobody is there
	p := r.taking(1)
	c := r.consume(s.Queue, p)
	p.want()
	r.must(r.engine.Replay(r.ctx, s, src.next))
	r.ack(c, p.want("r0")...)
	c.Cancel(core.Return)
	r.wantInfo(s.Queue, 0, 0, 0)
	next := r.probe()
	r.consume(s.Queue, next)
	next.want()
}

func liveBesideReplay(r *rig) {
	s := r.subscription()
	src := r.snapshot("r", 600)
	p := r.settling()
	c := r.consume(s.Queue, p, paused)
	r.must(r.engine.Replay(r.ctx, s, src.next))
	r.send(core.TopicExchange, "a", "live1", "live2")
	c.Resume(nil)
	var live []string
	got := p.take()
	for _, d := range got {
		if !d.Replayed {
			live = append(live, string(d.Payload))
		}
	}
	if len(got) != 602 || len(live) != 2 || live[0] != "live1" {
		r.Fatalf("%d received, of them live %q", len(got), live)
	}
}

func replayNowhere(r *rig) {
	s := r.binding(core.TopicExchange, "a", core.Key(core.SessionQueue, "nobody"))
	r.wantError(r.engine.Replay(r.ctx, s, r.snapshot("r", 1).next), core.ErrNotFound)
}

func purgeEndsReplay(r *rig) {
	s := r.subscription()
	src := r.snapshot("r", 10)
	r.must(r.engine.Replay(r.ctx, s, src.next))
	_, err := r.engine.PurgeQueue(r.ctx, s.Queue, 0)
	r.must(err)
	p := r.settling()
	r.consume(s.Queue, p)
	p.want()
	r.must(r.engine.Replay(r.ctx, s, src.next))
	p.take()
	r.delete(s.Queue, core.DeleteOptions{})
	r.wantError(r.engine.Replay(r.ctx, s, src.next), core.ErrNotFound)
}
