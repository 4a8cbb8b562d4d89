package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"entrepot/core"
)

// The stress tests run in a bubble: when all goroutines wait for each other,
// synctest.Wait returns, and a message that is then still in its queue though
// somebody has room is a lost wake-up. No deadline is needed to see it.

// worker is a receiver that is full at random, holds, settles at random from
// goroutines of its own, and resumes.
type worker struct {
	t      *testing.T
	engine *Engine
	acked  *tally
	// kind chooses outcomes; only acks keep a message from coming again.
	outcomes []core.Outcome
	fullness int // one in so many deliveries finds it full; 0: never

	mu     sync.Mutex
	dice   *rand.Rand
	con    core.Consumer
	wg     sync.WaitGroup
	inside bool
	ended  bool
}

// Deliver may run before con is known, and so may not use it.
func (w *worker) Deliver(d core.Delivery) core.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inside || w.ended {
		w.t.Errorf("Deliver: twice at once %v, after Cancel %v", w.inside, w.ended)
	}
	if w.fullness > 0 && w.dice.IntN(w.fullness) == 0 {
		w.wg.Go(func() { w.consumer().Resume(nil) })
		return core.Full
	}
	o := w.outcomes[w.dice.IntN(len(w.outcomes))]
	if w.dice.IntN(8) == 0 && o == core.Ack {
		w.acked.note(d)
		return core.Settled
	}
	w.wg.Go(func() { w.end(d, o) })
	return core.Held
}

func (w *worker) consumer() core.Consumer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.con
}

// end settles; a delivery that a Cancel took back first is not this worker's.
func (w *worker) end(d core.Delivery, o core.Outcome) {
	if err := w.consumer().Settle(nil, o, d.Seq); err == nil && o == core.Ack {
		w.acked.note(d)
	}
}

// start attaches; the lock keeps what Deliver starts waiting for con.
func (w *worker) start(k core.QueueKey) {
	c, err := w.engine.Consume(context.Background(), k, core.ConsumeOptions{Paused: true}, w)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	w.con = c
	w.mu.Unlock()
	c.Resume(nil)
}

func (w *worker) stop(o core.Outcome) {
	w.con.Cancel(o)
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wg.Wait()
}

// tally counts how often each message was settled for good.
type tally struct {
	mu    sync.Mutex
	times map[string]int
}

func (t *tally) note(d core.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times[string(d.Payload)]++
}

func (t *tally) want(tb testing.TB, publishers, each int) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range publishers {
		for i := range each {
			if n := t.times[fmt.Sprint(p, " ", i)]; n != 1 {
				tb.Errorf("message %d of publisher %d was acknowledged %d times", i, p, n)
			}
		}
	}
}

// publishAll sends "publisher number" from as many goroutines to a topic of
// amq.topic.
func publishAll(t *testing.T, e *Engine, text string, publishers, each int) {
	to := topic(t, text)
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			b := &core.Batch{}
			for i := range each {
				payload := fmt.Sprint(p, " ", i)
				m := core.NewMessage(len(payload))
				copy(m.Payload, payload)
				m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, to, core.AtLeastOnce
				e.Publish(b, m, func(routed bool, err error) {
					if !routed || err != nil {
						t.Errorf("message %d of publisher %d: routed %v, %v", i, p, routed, err)
					}
				})
				b.Flush()
			}
		})
	}
	wg.Wait()
}

func wantEmpty(t *testing.T, e *Engine) {
	t.Helper()
	synctest.Wait()
	if st := e.Stats(); st.Queues+st.Bindings+st.Consumers+st.Ready+st.Unsettled != 0 || st.Bytes != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

func (e *Engine) wantDrained(t *testing.T, k core.QueueKey) {
	t.Helper()
	synctest.Wait()
	q, err := e.find(k, 0)
	if err != nil {
		t.Fatal(err)
	}
	if i := q.info(); i.Messages != 0 || i.Unsettled != 0 || i.Bytes != 0 {
		t.Errorf("a wake-up is lost: %+v", i)
	}
}

func remove(t *testing.T, e *Engine, k core.QueueKey) {
	t.Helper()
	if _, err := e.DeleteQueue(context.Background(), k, core.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

const (
	stressPublishers = 4
	stressEach       = 400
)

// Competing workers that are full, requeue, return and leave at random: each
// message is acknowledged once, none is left.
func TestWorkersUnderStress(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			e := tireless()
			k := core.Named("work")
			declare(t, e, k)
			bindTo(t, e, core.TopicExchange, "job/#", k, nil)
			acked := &tally{times: map[string]int{}}
			hire := func(seed uint64, fullness int, outcomes ...core.Outcome) *worker {
				w := &worker{t: t, engine: e, acked: acked, dice: dice(seed), outcomes: outcomes, fullness: fullness}
				w.start(k)
				return w
			}
			var published, moving sync.WaitGroup
			published.Go(func() { publishAll(t, e, "job/1", stressPublishers, stressEach) })
			for i := range uint64(3) {
				moving.Go(func() { // comes and goes
					for round := range uint64(30) {
						w := hire(seed*1000+i*100+round, 3, core.Ack, core.Requeue, core.Return)
						w.stop([]core.Outcome{core.Requeue, core.Return}[round%2])
					}
				})
			}
			stays := []*worker{hire(seed, 2, core.Ack), hire(seed+1, 5, core.Ack, core.Ack, core.Requeue)}
			published.Wait()
			moving.Wait()
			e.wantDrained(t, k)
			acked.want(t, stressPublishers, stressEach)
			for _, w := range stays {
				w.stop(core.Requeue)
			}
			remove(t, e, k)
			wantEmpty(t, e)
		})
	}
}

// ordered checks that each publisher's messages come in order, also through
// Full and Resume.
type ordered struct {
	worker
	last map[int]int
}

func (o *ordered) Deliver(d core.Delivery) core.Verdict {
	v := o.worker.Deliver(d)
	if v == core.Full {
		return v
	}
	var p, i int
	if _, err := fmt.Sscan(string(d.Payload), &p, &i); err != nil {
		o.t.Error(err)
	}
	if next := o.last[p]; i != next {
		o.t.Errorf("publisher %d: message %d, want %d", p, i, next)
	}
	o.last[p] = i + 1
	return v
}

func (o *ordered) start(k core.QueueKey) {
	c, err := o.engine.Consume(context.Background(), k, core.ConsumeOptions{Paused: true}, o)
	if err != nil {
		o.t.Error(err)
		return
	}
	o.mu.Lock()
	o.con = c
	o.mu.Unlock()
	c.Resume(nil)
}

// One consumer on a queue gets each publisher's messages in order and each
// once, while bindings change, other queues come and go, and it is often full.
func TestOrderUnderStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := tireless()
		var subscribers []*ordered
		for i := range 3 {
			k := core.Key(core.SessionQueue, fmt.Sprint(i))
			declare(t, e, k)
			bindTo(t, e, core.TopicExchange, "a/+", k, i)
			o := &ordered{last: map[int]int{}}
			o.worker = worker{t: t, engine: e, acked: &tally{times: map[string]int{}}, dice: dice(uint64(i)),
				outcomes: []core.Outcome{core.Ack}, fullness: 2 + i}
			o.start(k)
			subscribers = append(subscribers, o)
		}
		quit := make(chan struct{})
		var churn sync.WaitGroup
		for i := range 2 {
			churn.Go(func() { comeAndGo(t, e, i, quit) })
		}
		churn.Go(func() { rebind(t, e, core.Key(core.SessionQueue, "0"), quit) })
		publishAll(t, e, "a/b", stressPublishers, stressEach)
		close(quit)
		churn.Wait()
		for i, o := range subscribers {
			k := core.Key(core.SessionQueue, fmt.Sprint(i))
			e.wantDrained(t, k)
			o.acked.want(t, stressPublishers, stressEach)
			o.stop(core.Return)
			remove(t, e, k)
		}
		wantEmpty(t, e)
	})
}

// comeAndGo declares, binds, consumes and deletes on the same topics.
func comeAndGo(t *testing.T, e *Engine, n int, quit chan struct{}) {
	for round := uint64(0); ; round++ {
		select {
		case <-quit:
			return
		default:
		}
		k := core.Key(core.TopicQueue, fmt.Sprint(n))
		declare(t, e, k)
		bindTo(t, e, core.TopicExchange, "a/#", k, nil)
		w := &worker{t: t, engine: e, acked: &tally{times: map[string]int{}}, dice: dice(round), fullness: 4,
			outcomes: []core.Outcome{core.Ack, core.Requeue, core.Reject}}
		w.start(k)
		bindTo(t, e, core.TopicExchange, "+/b", k, nil)
		if round%2 == 0 {
			w.stop(core.Requeue)
			remove(t, e, k)
		} else { // deleted under it
			remove(t, e, k)
			w.stop(core.Requeue)
		}
	}
}

// rebind adds and removes a second binding that overlaps, and replaces the
// value of the first.
func rebind(t *testing.T, e *Engine, k core.QueueKey, quit chan struct{}) {
	second := core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: filter(t, "#")}
	for n := 0; ; n++ {
		select {
		case <-quit:
			return
		default:
		}
		bindTo(t, e, core.TopicExchange, "#", k, n)
		bindTo(t, e, core.TopicExchange, "a/+", k, n)
		if err := e.Unbind(context.Background(), second); err != nil {
			t.Error(err)
		}
	}
}

// A queue that refuses, publishers that try again, workers that free it: the
// limit holds and each message is in both queues or in none.
func TestRefusingUnderStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := tireless()
		var tallies []*tally
		var workers []*worker
		for i := range 2 {
			k := core.Named(fmt.Sprint(i))
			s := core.QueueSpec{Key: k, Args: core.QueueArgs{MaxLength: 5, HasMaxLength: true, Overflow: core.RejectPublish}}
			if _, err := e.DeclareQueue(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			bindTo(t, e, core.TopicExchange, "a", k, nil)
			acked := &tally{times: map[string]int{}}
			w := &worker{t: t, engine: e, acked: acked, dice: dice(uint64(i)), outcomes: []core.Outcome{core.Ack}, fullness: 2}
			w.start(k)
			tallies, workers = append(tallies, acked), append(workers, w)
		}
		accepted := make([]int, stressPublishers)
		var wg sync.WaitGroup
		for p := range stressPublishers {
			wg.Go(func() { accepted[p] = tryAll(t, e, p) })
		}
		wg.Wait()
		for i, w := range workers {
			e.wantDrained(t, core.Named(fmt.Sprint(i)))
			w.stop(core.Requeue)
			remove(t, e, core.Named(fmt.Sprint(i)))
		}
		sum := 0
		for _, n := range accepted {
			sum += n
		}
		for i, acked := range tallies {
			if len(acked.times) != sum {
				t.Errorf("queue %d got %d messages, %d were accepted", i, len(acked.times), sum)
			}
		}
		wantEmpty(t, e)
	})
}

// tryAll publishes through Apply and Publish in turn and counts what was taken.
func tryAll(t *testing.T, e *Engine, p int) (accepted int) {
	to := topic(t, "a")
	b := &core.Batch{}
	for i := range stressEach {
		payload := fmt.Sprint(p, " ", i)
		m := core.NewMessage(len(payload))
		copy(m.Payload, payload)
		m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, to, core.AtLeastOnce
		done := func(_ bool, err error) {
			if err == nil {
				accepted++
			}
		}
		if i%2 == 0 {
			e.Publish(b, m, done)
		} else {
			e.Apply(b, []core.Op{{Message: m}}, done)
		}
	}
	return accepted
}
