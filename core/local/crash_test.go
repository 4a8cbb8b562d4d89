package local

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/store"
	"entrepot/routing"
)

// crashWorld is one broker life between two power cuts, with what its clients
// know.
type crashWorld struct {
	t      *testing.T
	rng    *rand.Rand
	disk   *store.Disk
	store  *store.Store
	engine *Engine
	takers map[string]*taker

	mu        sync.Mutex
	confirmed map[uint64]bool // publishes whose Done said so
}

// crashQueues and what is bound to them: topic t.<set> goes to the queues of
// that set.
// What they give up goes to a queue of dead letters, one for each.
var crashQueues = []string{"a", "b", "c"}

const graves = "dead-"

type published struct {
	id      uint64
	queues  []string
	delayed bool
}

// taker holds what it gets, up to a limit.
type taker struct {
	mu       sync.Mutex
	held     []core.Delivery
	room     int
	consumer core.Consumer
}

func (c *taker) Deliver(d core.Delivery) core.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) >= c.room {
		return core.Full
	}
	c.held = append(c.held, d)
	return core.Held
}

func idOf(m *core.Message) uint64 { return binary.BigEndian.Uint64(m.Payload) }

func openCrashWorld(t *testing.T, rng *rand.Rand, d *store.Disk, noSync bool) *crashWorld {
	t.Helper()
	st, err := store.Open("data", store.Options{Disk: d, NoSync: noSync})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(slog.New(slog.DiscardHandler), st, "/")
	if err != nil {
		t.Fatal(err)
	}
	e.window = windowSize{count: 4, bytes: 1 << 20}
	return &crashWorld{t: t, rng: rng, disk: d, store: st, engine: e, takers: map[string]*taker{}, confirmed: map[uint64]bool{}}
}

func (w *crashWorld) declare() {
	ctx := context.Background()
	for _, q := range crashQueues {
		args := core.QueueArgs{DeadLetter: &core.DeadLetter{Key: graves + q, HasKey: true}, DeliveryLimit: 2, HasLimit: true}
		if q == "c" {
			args.MaxPriority = 3
		}
		for _, s := range []core.QueueSpec{{Key: core.Named(q), Durable: true, Args: args}, {Key: core.Named(graves + q), Durable: true}} {
			if _, err := w.engine.DeclareQueue(ctx, s); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for set := 1; set < 1<<len(crashQueues); set++ {
		topic, err := routing.NewTopic("t", fmt.Sprint(set))
		if err != nil {
			w.t.Fatal(err)
		}
		for i, q := range crashQueues {
			if set&(1<<i) == 0 {
				continue
			}
			if _, err := w.engine.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named(q), Filter: topic.Filter()}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func (w *crashWorld) message(id uint64) (*core.Message, published) {
	set := 1 + w.rng.IntN(1<<len(crashQueues)-1)
	topic, err := routing.NewTopic("t", fmt.Sprint(set))
	if err != nil {
		w.t.Fatal(err)
	}
	m := core.NewMessage(8 + w.rng.IntN(60))
	binary.BigEndian.PutUint64(m.Payload, id)
	m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, topic, core.Durable
	m.Props = &core.Properties{Priority: uint8(w.rng.IntN(5))}
	p := published{id: id}
	if p.delayed = w.rng.IntN(4) == 0; p.delayed { // some for now, some for a time that does not come
		m.Props.Delay = []time.Duration{time.Millisecond, time.Hour}[w.rng.IntN(2)]
		m.Props.Due = time.Now().Add(m.Props.Delay)
	}
	for i, q := range crashQueues {
		if set&(1<<i) != 0 {
			p.queues = append(p.queues, q)
		}
	}
	return m, p
}

func (w *crashWorld) done(ids ...uint64) core.Done {
	return func(_ bool, err error) {
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range ids {
			w.confirmed[id] = true
		}
	}
}

// publish sends one message, or a transaction of some.
func (w *crashWorld) publish(next *uint64, sent *[]published) {
	n := 1
	if w.rng.IntN(4) == 0 {
		n = 1 + w.rng.IntN(4)
	}
	var ops []core.Op
	var ids []uint64
	for range n {
		m, p := w.message(*next)
		*next++
		*sent = append(*sent, p)
		ops = append(ops, core.Op{Message: m})
		ids = append(ids, p.id)
	}
	b := &core.Batch{}
	if n == 1 {
		w.engine.Publish(b, ops[0].Message, w.done(ids...))
	} else {
		w.engine.Apply(b, ops, w.done(ids...))
	}
}

// consume opens, settles or closes a consumer; acked gets (queue, id).
func (w *crashWorld) consume(acked map[string]map[uint64]bool) {
	q := crashQueues[w.rng.IntN(len(crashQueues))]
	c := w.takers[q]
	if c == nil {
		c = &taker{room: 1 + w.rng.IntN(8)}
		var err error
		if c.consumer, err = w.engine.Consume(context.Background(), core.Named(q), core.ConsumeOptions{}, c); err != nil {
			w.t.Fatal(err)
		}
		w.takers[q] = c
		return
	}
	c.mu.Lock()
	held := c.held
	c.held = nil
	c.mu.Unlock()
	for _, d := range held {
		outcome := []core.Outcome{core.Ack, core.Ack, core.Requeue, core.Reject}[w.rng.IntN(4)]
		if outcome == core.Ack {
			acked[q][idOf(d.Message)] = true
		}
		if err := c.consumer.Settle(nil, outcome, d.Seq); err != nil {
			w.t.Fatalf("settle: %v", err)
		}
	}
	if w.rng.IntN(6) == 0 {
		c.consumer.Cancel(core.Requeue)
		delete(w.takers, q)
	}
}

// awaitDelivers waits for the Delivers that run: what was settled before one
// returned goes to the store when it has.
func (w *crashWorld) awaitDelivers() {
	for _, name := range crashQueues {
		q := w.engine.queues[core.Named(name)]
		q.mu.Lock()
		for c := q.busy; c != nil && q.busy == c; {
			q.awaitDeliver()
		}
		q.unlock()
	}
}

// drainAll reads every queue to its end without settling.
func (w *crashWorld) drainAll() map[string][]uint64 {
	all := map[string][]uint64{}
	for _, q := range append([]string{graves + "a", graves + "b", graves + "c"}, crashQueues...) {
		c, err := w.engine.Consume(context.Background(), core.Named(q), core.ConsumeOptions{Pull: true}, nil)
		if err != nil {
			continue // a queue that is lost shows in the comparison
		}
		for {
			d, ok := c.Get()
			if !ok {
				break
			}
			all[q] = append(all[q], idOf(d.Message))
		}
		c.Cancel(core.Return)
	}
	return all
}

// crashRound runs lives on one disk; it returns what is wrong, "" when nothing.
func crashRound(t *testing.T, seed uint64, noSync bool) string {
	rng := rand.New(rand.NewPCG(seed, 99))
	d := store.MemoryDisk()
	next := uint64(1)
	var sent []published
	acked := map[string]map[uint64]bool{}       // told to the broker
	ackedSynced := map[string]map[uint64]bool{} // and synced since
	for _, q := range crashQueues {
		acked[q], ackedSynced[q] = map[uint64]bool{}, map[uint64]bool{}
	}
	confirmed := map[uint64]bool{}
	for life := range 3 {
		w := openCrashWorld(t, rng, d, noSync)
		if life == 0 {
			w.declare()
			if err := w.store.Sync(); err != nil {
				t.Fatal(err)
			}
		} else if fault := w.check(sent, confirmed, acked, ackedSynced); fault != "" {
			return fmt.Sprintf("life %d: %s", life, fault)
		}
		for range 20 + rng.IntN(60) {
			if rng.IntN(3) > 0 {
				w.publish(&next, &sent)
			} else {
				w.consume(acked)
			}
			if rng.IntN(15) == 0 {
				w.awaitDelivers()
				if err := w.store.Sync(); err != nil {
					t.Fatal(err)
				}
				for q, ids := range acked {
					for id := range ids {
						ackedSynced[q][id] = true
					}
				}
			}
		}
		w.mu.Lock()
		for id := range w.confirmed {
			confirmed[id] = true
		}
		w.mu.Unlock()
		d = d.Crash(rng.IntN(101), seed+uint64(life))
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		// What was neither confirmed nor survived may come no more.
	}
	w := openCrashWorld(t, rng, d, noSync)
	defer w.store.Close()
	if fault := w.check(sent, confirmed, acked, ackedSynced); fault != "" {
		return "at the end: " + fault
	}
	return ""
}

// waiting is what waits for its time when all that is due has been sent on.
func (w *crashWorld) waiting() (map[uint64]bool, string) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		list, err := w.engine.Delayed("", 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		ids := map[uint64]bool{}
		due := false
		for _, d := range list {
			due = due || time.Until(d.Due) < time.Minute
			if ids[idOf(d.Message)] {
				return nil, fmt.Sprintf("%d waits twice for its time", idOf(d.Message))
			}
			ids[idOf(d.Message)] = true
		}
		if n := w.engine.Stats().Delayed; !due && n == len(list) {
			return ids, ""
		} else if time.Now().After(deadline) {
			return nil, fmt.Sprintf("%d wait for their time, listed are %d, some are due: %v", n, len(list), due)
		}
		runtime.Gosched()
	}
}

// check compares what is there with what clients were told.
func (w *crashWorld) check(sent []published, confirmed map[uint64]bool, acked, synced map[string]map[uint64]bool) string {
	waits, fault := w.waiting()
	if fault != "" {
		return fault
	}
	have := w.drainAll()
	later := map[uint64]bool{}
	for _, p := range sent {
		later[p.id] = p.delayed
	}
	for _, q := range crashQueues {
		at := slices.DeleteFunc(slices.Clone(have[q]), func(id uint64) bool { return later[id] })
		if q != "c" && !slices.IsSorted(at) { // c has priorities
			return fmt.Sprintf("queue %s out of order: %v", q, have[q])
		}
		for _, id := range have[q] {
			if synced[q][id] {
				return fmt.Sprintf("queue %s: %d was acked and synced, and is back", q, id)
			}
		}
		have[q] = append(have[q], have[graves+q]...)
		slices.Sort(have[q])
		if n := len(have[q]); len(slices.Compact(slices.Clone(have[q]))) != n {
			return fmt.Sprintf("queue %s and its dead letters have something twice: %v", q, have[q])
		}
	}
	for _, p := range sent {
		there, gone := 0, 0
		for _, q := range p.queues {
			_, in := slices.BinarySearch(have[q], p.id)
			if in && waits[p.id] {
				return fmt.Sprintf("%d is in queue %s and waits for its time", p.id, q)
			}
			in = in || waits[p.id]
			switch {
			case in:
				there++
			case !acked[q][p.id]:
				gone++
			}
			if !in && confirmed[p.id] && !acked[q][p.id] {
				return fmt.Sprintf("queue %s: %d was confirmed, and is lost", q, p.id)
			}
		}
		if there > 0 && gone > 0 {
			return fmt.Sprintf("%d is in %d of its queues and missing in %d", p.id, there, gone)
		}
	}
	for _, q := range crashQueues {
		for _, id := range have[q] {
			delete(acked[q], id) // that ack was lost, which is allowed
		}
	}
	return ""
}

func soakRounds(normal, soak int) int {
	if os.Getenv("ENTREPOT_SOAK") == "1" {
		return soak
	}
	return normal
}

// TestCrashAnywhereLosesNothingConfirmed shows faults 68 and 69.
func TestCrashAnywhereLosesNothingConfirmed(t *testing.T) {
	const lanes = 4
	rounds := uint64(soakRounds(200, 10_000))
	for lane := range uint64(lanes) {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for seed := lane; seed < rounds; seed += lanes {
				if fault := crashRound(t, seed, false); fault != "" {
					t.Fatalf("seed %d: %s", seed, fault)
				}
			}
		})
	}
}

func TestCrashWithoutSyncLoses(t *testing.T) {
	for seed := range uint64(200) {
		if crashRound(t, seed, true) != "" {
			return
		}
	}
	t.Fatal("the model does not notice that nothing is synced")
}
