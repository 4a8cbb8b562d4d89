package enginetest

import (
	"slices"
	"sync"
	"testing/synctest"

	"entrepot/core"
)

// probe is a receiver that writes down what it gets.
type probe struct {
	rig *rig

	mu     sync.Mutex
	got    []core.Delivery
	room   int // how many it takes before it is full; negative: any number
	answer core.Verdict
	inside bool
	gone   int // calls of QueueGone

	// gate, where set, holds every Deliver up: it sends on entered, then waits
	// for gate.
	gate    chan struct{}
	entered chan core.Delivery
}

// probe takes any number and holds them.
func (r *rig) probe() *probe { return &probe{rig: r, room: -1, answer: core.Held} }

// settling answers Settled.
func (r *rig) settling() *probe { return &probe{rig: r, room: -1, answer: core.Settled} }

// taking is full after n.
func (r *rig) taking(n int) *probe { return &probe{rig: r, room: n, answer: core.Held} }

// gated holds Deliver up: meet waits until one is inside, leave lets it go on.
func (r *rig) gated(v core.Verdict) *probe {
	p := r.probe()
	p.answer = v
	p.gate, p.entered = make(chan struct{}), make(chan core.Delivery)
	return p
}

func (p *probe) meet() core.Delivery { return <-p.entered }
func (p *probe) leave()              { p.gate <- struct{}{} }

// Deliver implements core.Receiver.
func (p *probe) Deliver(d core.Delivery) core.Verdict {
	p.mu.Lock()
	if p.inside {
		p.rig.Error("Deliver runs twice at once for one consumer")
	}
	if d.Batch == nil {
		p.rig.Error("a delivery without a batch")
	}
	p.inside = true
	p.mu.Unlock()
	if p.gate != nil {
		p.entered <- d
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside = false
	if p.room == 0 || p.answer == core.Full {
		return core.Full
	}
	p.room--
	p.got = append(p.got, d)
	return p.answer
}

// QueueGone implements core.QueueGone.
func (p *probe) QueueGone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone++
}

// say changes the answer.
func (p *probe) say(v core.Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = v
}

// more makes room; Resume is the caller's.
func (p *probe) more(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = n
}

// take returns what came since the last take.
func (p *probe) take() []core.Delivery {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

// want compares payloads with what came since the last take, and returns that.
func (p *probe) want(payloads ...string) []core.Delivery {
	p.rig.Helper()
	got := p.take()
	if texts := texts(got); !slices.Equal(texts, payloads) {
		p.rig.Fatalf("received %q, want %q", texts, payloads)
	}
	return got
}

func (p *probe) wantGone(times int) {
	p.rig.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != times {
		p.rig.Fatalf("QueueGone was called %d times, want %d", p.gone, times)
	}
}

func texts(ds []core.Delivery) []string {
	var list []string
	for _, d := range ds {
		list = append(list, string(d.Payload))
	}
	return list
}

func seqs(ds []core.Delivery) []uint64 {
	var list []uint64
	for _, d := range ds {
		list = append(list, d.Seq)
	}
	return list
}

// consume attaches a receiver.
func (r *rig) consume(k core.QueueKey, recv core.Receiver, edits ...func(*core.ConsumeOptions)) core.Consumer {
	r.Helper()
	var o core.ConsumeOptions
	for _, edit := range edits {
		edit(&o)
	}
	c, err := r.engine.Consume(r.ctx, k, o, recv)
	r.must(err)
	return c
}

func noAck(o *core.ConsumeOptions)             { o.NoAck = true }
func pull(o *core.ConsumeOptions)              { o.Pull = true }
func paused(o *core.ConsumeOptions)            { o.Paused = true }
func exclusiveConsumer(o *core.ConsumeOptions) { o.Exclusive = true }

// settle ends deliveries and wants each to have been held.
func (r *rig) settle(c core.Consumer, o core.Outcome, ds ...core.Delivery) {
	r.Helper()
	r.must(c.Settle(nil, o, seqs(ds)...))
	synctest.Wait()
}

func (r *rig) ack(c core.Consumer, ds ...core.Delivery) {
	r.Helper()
	r.settle(c, core.Ack, ds...)
}
