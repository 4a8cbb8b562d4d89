package enginetest

import (
	"fmt"
	"strings"
	"time"

	"entrepot/core"
)

func keeperTests() []test {
	return []test{
		{"by hand: browse page by page, nothing consumed", browsed},
		{"by hand: browse what came back, waits, is out", browsedParts},
		{"by hand: purge by filter", purgedSome},
		{"by hand: move, in order, each once", movedAll},
		{"by hand: move into a full queue ends there", movedFull},
		{"by hand: replay dead letters to where they came from", replayedDead},
		{"by hand: with priorities", keptLevels},
		{"by hand: no such queue, into itself", keeperRefuses},
	}
}

func (r *rig) keeper() core.QueueKeeper {
	r.Helper()
	k, ok := r.engine.(core.QueueKeeper)
	if !ok {
		r.Skip("the engine lets nobody work on its queues by hand")
	}
	return k
}

func (r *rig) wantBrowse(k core.QueueKey, after uint64, n int, match func(*core.Message) bool, want ...string) []core.Delivery {
	r.Helper()
	list, err := r.keeper().Browse(k, after, n, match)
	r.must(err)
	if got := texts(list); strings.Join(got, " ") != strings.Join(want, " ") {
		r.Fatalf("%v shows %q, want %q", k, got, want)
	}
	return list
}

// fill puts "00", "01", … into q.
func (r *rig) fill(n int) []string {
	r.Helper()
	var all []string
	for at := range n {
		all = append(all, fmt.Sprintf("%02d", at))
		r.sendOne(r.message("", "q", all[at], durable))
	}
	return all
}

func odd(m *core.Message) bool { return m.Payload[1]%2 == 1 }

func browsed(r *rig) {
	k := r.queue("q", durableQueue)
	all := r.fill(30)
	page := r.wantBrowse(k, 0, 12, nil, all[:12]...)
	page = r.wantBrowse(k, page[11].Seq, 12, nil, all[12:24]...)
	r.wantBrowse(k, page[11].Seq, 12, nil, all[24:]...)
	r.wantBrowse(k, 0, 3, odd, "01", "03", "05")
	r.wantInfo(k, 30, 0, 60)
	r.drain(k, all...)
	r.wantBrowse(k, 0, 12, nil)
}

func browsedParts(r *rig) {
	k := r.queue("q", durableQueue, args(core.QueueArgs{RedeliverWait: time.Minute}))
	p := r.taking(4)
	c := r.consume(k, p)
	all := r.fill(8)
	got := p.take()
	r.settle(c, core.Requeue, got[1]) // waits for its next try
	r.settle(c, core.Return, got[2])
	list := r.wantBrowse(k, 0, 99, nil, append([]string{"01", "02"}, all[4:]...)...)
	if list[0].Attempts != 1 {
		r.Fatalf("%d attempts", list[0].Attempts)
	}
	if n, err := r.keeper().PurgeSome(k, 0, nil); n != 6 || err != nil {
		r.Fatalf("purged %d, %v", n, err)
	}
	r.wantInfo(k, 0, 2, 4)
	c.Cancel(core.Return)
	r.drain(k, "00", "03")
}

func purgedSome(r *rig) {
	k := r.queue("q", durableQueue)
	r.fill(20)
	if n, err := r.keeper().PurgeSome(k, 4, odd); n != 4 || err != nil {
		r.Fatalf("purged %d, %v", n, err)
	}
	r.wantInfo(k, 16, 0, 32)
	if n, err := r.keeper().PurgeSome(k, 0, odd); n != 6 || err != nil {
		r.Fatalf("purged %d, %v", n, err)
	}
	r.drain(k, "00", "02", "04", "06", "08", "10", "12", "14", "16", "18")
	r.wantInfo(k, 0, 0, 0)
}

func movedAll(r *rig) {
	k, to := r.queue("q", durableQueue), r.queue("to", durableQueue)
	all := r.fill(30)
	if n, err := r.keeper().Move(k, to, 10, nil); n != 10 || err != nil {
		r.Fatalf("moved %d, %v", n, err)
	}
	r.wantInfo(k, 20, 0, 40)
	r.wantInfo(to, 10, 0, 20)
	if n, err := r.keeper().Move(k, to, 0, odd); n != 10 || err != nil {
		r.Fatalf("moved %d, %v", n, err)
	}
	p := r.settling()
	r.consume(to, p)
	want := append([]string{}, all[:10]...)
	for at := 11; at < 30; at += 2 {
		want = append(want, all[at])
	}
	if d := p.want(want...)[0]; d.Topic.String() != "q" {
		r.Fatalf("moved under the key %q", d.Topic)
	}
	r.drain(k, "10", "12", "14", "16", "18", "20", "22", "24", "26", "28")
}

func movedFull(r *rig) {
	k, to := r.queue("q", durableQueue), r.queue("to", durableQueue, length(2, core.RejectPublish))
	all := r.fill(6)
	n, err := r.keeper().Move(k, to, 0, nil)
	r.wantError(err, core.ErrFull)
	if n != 2 {
		r.Fatalf("moved %d", n)
	}
	r.wantInfo(k, 4, 0, 8)
	r.drain(k, all[2:]...)
	r.drain(to, all[:2]...)
}

func replayedDead(r *rig) {
	dead := r.graveyard(durableQueue)
	k := r.queue("q", durableQueue, buried(core.QueueArgs{}))
	gone := r.queue("gone", buried(core.QueueArgs{}))
	r.bind(core.TopicExchange, "a/b", k)
	r.bind(core.TopicExchange, "a/b", gone)
	r.sendOne(r.message(core.TopicExchange, "a/b", "m", durable))
	for _, from := range []core.QueueKey{gone, k} {
		r.fall(from, core.Reject, "m")
		pass(time.Second)
	}
	r.sendOne(r.message("", "dead", "alive", durable))
	_, err := r.engine.DeleteQueue(r.ctx, gone, core.DeleteOptions{})
	r.must(err)
	n, err := r.keeper().ReplayDead(dead, 0, nil)
	r.wantError(err, core.ErrNotFound)
	if n != 1 {
		r.Fatalf("replayed %d", n)
	}
	d := r.ackOne(k, "m")
	if d.Exchange != core.TopicExchange || d.Topic.String() != "a/b" {
		r.Fatalf("back by %q with %q", d.Exchange, d.Topic)
	}
	r.wantHistory(d, "count=1 reason=rejected queue=q exchange=amq.topic routing-keys=[a.b]")
	r.drain(dead, "m", "alive")
}

func keptLevels(r *rig) {
	k, to := levelQueue(r, 9), r.queue("to", durableQueue)
	r.rank("1a 9b 5c 1d 9e 5f 1g 1h 1i 1j 1k 1l")
	r.wantBrowse(k, 0, 5, nil, "9b", "9e", "5c", "5f", "1a")
	x := func(m *core.Message) bool { return strings.Contains("9e1a1l", string(m.Payload)) }
	if n, err := r.keeper().Move(k, to, 0, x); n != 3 || err != nil {
		r.Fatalf("moved %d, %v", n, err)
	}
	r.drain(to, "9e", "1a", "1l")
	r.drain(k, "9b", "5c", "5f", "1d", "1g", "1h", "1i", "1j", "1k")
	r.wantInfo(k, 0, 0, 0)
}

func keeperRefuses(r *rig) {
	k := r.queue("q")
	h := r.keeper()
	for _, err := range []error{
		second(h.Browse(core.Named("none"), 0, 1, nil)), second(h.PurgeSome(core.Named("none"), 0, nil)),
		second(h.Move(core.Named("none"), k, 0, nil)), second(h.Move(k, core.Named("none"), 0, nil)),
		second(h.ReplayDead(core.Named("none"), 0, nil)),
	} {
		r.wantError(err, core.ErrNotFound)
	}
	r.wantError(second(h.Move(k, k, 0, nil)), core.ErrInvalid)
}

func second[T any](_ T, err error) error { return err }
