package enginetest

import (
	"fmt"
	"sync"
	"testing/synctest"

	"entrepot/core"
)

func orderTests() []test {
	return []test{
		{"one publisher's messages keep their order under concurrency", orderKept},
		{"nothing is lost or doubled between consumers that are full and leave", nothingLost},
		{"declares, deletes and publishes at once", topologyRaces},
	}
}

const publishers, each = 4, 300

// publishAll runs the publishers; payloads are "publisher number".
func (r *rig) publishAll(send func(b *core.Batch, m *core.Message)) {
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			b := &core.Batch{}
			for i := range each {
				send(b, r.message("", "q", fmt.Sprintf("%d %d", p, i)))
				b.Flush()
			}
		})
	}
	wg.Wait()
	synctest.Wait()
}

// ledger notes the last number of each publisher and how often each came.
type ledger struct {
	last  [publishers]int
	times map[string]int
}

func newLedger() *ledger { return &ledger{[publishers]int{-1, -1, -1, -1}, map[string]int{}} }

// note returns false when a publisher's message is older than one before.
func (l *ledger) note(d core.Delivery) bool {
	var p, i int
	if _, err := fmt.Sscanf(string(d.Payload), "%d %d", &p, &i); err != nil {
		return false
	}
	l.times[string(d.Payload)]++
	inOrder := i > l.last[p]
	l.last[p] = i
	return inOrder
}

func (l *ledger) whole(r *rig) {
	r.Helper()
	if len(l.times) != publishers*each {
		r.Fatalf("%d of %d messages", len(l.times), publishers*each)
	}
	for payload, n := range l.times {
		if n != 1 {
			r.Fatalf("%q came %d times", payload, n)
		}
	}
}

func orderKept(r *rig) {
	k := r.queue("q")
	p := r.settling()
	r.consume(k, p)
	r.publishAll(func(b *core.Batch, m *core.Message) { r.engine.Publish(b, m, nil) })
	l := newLedger()
	for _, d := range p.take() {
		if !l.note(d) {
			r.Fatalf("%q is out of order", d.Payload)
		}
	}
	l.whole(r)
}

func nothingLost(r *rig) {
	k := r.queue("q")
	l := newLedger()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for round := 0; ; round++ {
			select {
			case <-quit:
				return
			default:
			}
			p := r.taking(1 + round%7)
			c := r.consume(k, p)
			synctest.Wait()
			got := p.take()
			done := got[:len(got)/2] // the rest goes to the next
			r.must(c.Settle(nil, core.Ack, seqs(done)...))
			done = append(done, p.take()...)[:len(done)]
			for _, d := range done {
				l.note(d)
			}
			c.Cancel(core.Return)
		}
	}()
	for p := range publishers {
		for i := range each {
			r.engine.Publish(r.batch, r.message("", "q", fmt.Sprintf("%d %d", p, i)), nil)
		}
	}
	close(quit)
	<-ended
	rest := r.settling()
	r.consume(k, rest)
	for _, d := range rest.take() {
		l.note(d)
	}
	l.whole(r)
}

func topologyRaces(r *rig) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				k := core.Named("q")
				_, err := r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k, Drops: r.drops})
				r.must(err)
				s := r.binding(core.TopicExchange, "a/#", k)
				_, _ = r.engine.Bind(r.ctx, s) // another may have deleted it
				r.engine.Publish(&core.Batch{}, r.message(core.TopicExchange, "a/b", "x"), nil)
				if c, err := r.engine.Consume(r.ctx, k, core.ConsumeOptions{}, r.probe()); err == nil {
					r.engine.Publish(&core.Batch{}, r.message("", "q", "x"), nil)
					c.Cancel(core.Requeue)
				}
				_, _ = r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{})
			}
		})
	}
	wg.Wait()
	r.wantGone(core.Named("q"))
}
