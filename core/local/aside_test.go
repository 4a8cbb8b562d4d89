package local

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
)

// chooser is a worker that takes what one publisher sent.
type chooser struct {
	worker
	of   int // the publisher
	last int // number of the youngest that it had first; -1
}

func (c *chooser) Deliver(d core.Delivery) core.Verdict {
	var p, i int
	if _, err := fmt.Sscan(string(d.Payload), &p, &i); err != nil {
		c.t.Error(err)
	}
	if c.of >= 0 && p != c.of {
		c.t.Errorf("chose %d and got %q", c.of, d.Payload)
	}
	v := c.worker.Deliver(d)
	if v != core.Full && c.of >= 0 && d.Attempts == 0 {
		if i <= c.last {
			c.t.Errorf("publisher %d: message %d after %d", p, i, c.last)
		}
		c.last = i
	}
	return v
}

func (c *chooser) start(k core.QueueKey) {
	o := core.ConsumeOptions{Paused: true}
	if c.of >= 0 {
		with := fmt.Sprint(c.of, " ")
		o.Accepts = func(m *core.Message) bool { return strings.HasPrefix(string(m.Payload), with) }
	}
	con, err := c.engine.Consume(context.Background(), k, o, c)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	c.con = con
	c.mu.Unlock()
	con.Resume(nil)
}

// hireChooser attaches one; a negative publisher is all of them.
func hireChooser(t *testing.T, e *Engine, acked *tally, of int, seed uint64, fullness int, outcomes ...core.Outcome) *chooser {
	c := &chooser{of: of, last: -1}
	c.worker = worker{t: t, engine: e, acked: acked, dice: dice(seed), outcomes: outcomes, fullness: fullness}
	c.start(core.Named("work"))
	return c
}

// Consumers that choose, are full, give back, come and go, with and without one
// that takes all: each message is acknowledged once, none is left, and who
// chooses gets what is new to the queue in order. With little room aside too.
func TestChoosersUnderStress(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			e := tireless()
			if seed%3 == 1 {
				e.aside.count = 5
			}
			k := core.Named("work")
			declare(t, e, k)
			bindTo(t, e, core.TopicExchange, "job/#", k, nil)
			acked := &tally{times: map[string]int{}}
			quit := make(chan struct{})
			var moving sync.WaitGroup
			for i := range 2 {
				moving.Go(func() { // comes and goes
					for round := uint64(0); !closed(quit); round++ {
						of := int(round+seed)%(stressPublishers+1) - 1
						c := hireChooser(t, e, acked, of, seed*1000+uint64(i)*100+round, 3, core.Ack, core.Requeue)
						c.stop(core.Requeue)
					}
				})
			}
			var stay []*chooser
			for of := range stressPublishers {
				stay = append(stay, hireChooser(t, e, acked, of, seed+uint64(of), 2+of, core.Ack, core.Ack, core.Requeue))
			}
			if seed%2 == 0 {
				stay = append(stay, hireChooser(t, e, acked, -1, seed, 2, core.Ack))
			}
			publishAll(t, e, "job/1", stressPublishers, stressEach)
			close(quit)
			moving.Wait()
			e.wantDrained(t, k)
			acked.want(t, stressPublishers, stressEach)
			for _, c := range stay {
				c.stop(core.Requeue)
			}
			remove(t, e, k)
			wantEmpty(t, e)
		})
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// choosing sets up a queue with a consumer that takes payloads beginning with
// "a", and counts how often it is asked.
type choosing struct {
	t     *testing.T
	e     *Engine
	k     core.QueueKey
	asked int
}

func newChoosing(t *testing.T, args core.QueueArgs) *choosing {
	c := &choosing{t: t, e: New(quiet()), k: core.Named("q")}
	c.e.aside.count = 4
	if _, err := c.e.DeclareQueue(t.Context(), core.QueueSpec{Key: c.k, Args: args}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *choosing) consume(with string, r core.Receiver) core.Consumer {
	con, err := c.e.Consume(c.t.Context(), c.k, core.ConsumeOptions{Accepts: func(m *core.Message) bool {
		c.asked++
		return strings.HasPrefix(string(m.Payload), with)
	}}, r)
	if err != nil {
		c.t.Fatal(err)
	}
	return con
}

func (c *choosing) send(ttl time.Duration, payloads ...string) {
	for _, p := range payloads {
		m := core.NewMessage(len(p))
		copy(m.Payload, p)
		m.Topic, m.Guarantee = topic(c.t, "q"), core.AtLeastOnce
		if ttl > 0 {
			m.Props = &core.Properties{TTL: ttl, HasTTL: true, Expires: time.Now().Add(ttl)}
		}
		c.e.Publish(&core.Batch{}, m, nil)
	}
}

// notes writes payloads down.
type notes struct {
	mu  sync.Mutex
	got []string
}

func (n *notes) Deliver(d core.Delivery) core.Verdict {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, string(d.Payload))
	return core.Settled
}

func (c *choosing) want(n *notes, payloads ...string) {
	c.t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := strings.Join(n.got, " "); got != strings.Join(payloads, " ") {
		c.t.Errorf("got %q, want %q", got, strings.Join(payloads, " "))
	}
	n.got = nil
}

// More than may be set aside: the queue waits, and goes on however room comes.
func TestAsideIsBounded(t *testing.T) {
	for name, room := range map[string]func(*choosing){
		"somebody takes them": func(c *choosing) { c.consume("b", &notes{}) },
		"one is pulled": func(c *choosing) {
			p, err := c.e.Consume(c.t.Context(), c.k, core.ConsumeOptions{Pull: true, NoAck: true}, nil)
			if _, ok := p.Get(); err != nil || !ok {
				c.t.Error("nothing to pull", err)
			}
		},
		"one expires": func(*choosing) { time.Sleep(2 * time.Second) },
		"a purge": func(c *choosing) {
			if _, err := c.e.PurgeQueue(c.t.Context(), c.k, 0); err != nil {
				c.t.Error(err)
			}
			c.send(0, "a1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChoosing(t, core.QueueArgs{})
				a := &notes{}
				c.consume("a", a)
				c.send(0, "b1")
				c.send(time.Second, "b2")
				c.send(0, "b3", "b4", "b5")
				c.send(0, "a1")
				c.want(a)
				room(c)
				c.want(a, "a1")
			})
		})
	}
}

func TestAsideIsBoundedAndTheQueueToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChoosing(t, core.QueueArgs{MaxLength: 4, HasMaxLength: true})
		a := &notes{}
		c.consume("a", a)
		c.send(0, "b1", "b2", "b3", "b4", "b5", "a1", "b6", "b7", "a2")
		c.want(a, "a1", "a2")
	})
}

// Nobody is asked twice for a message that stays where it is.
func TestAskedOnceAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChoosing(t, core.QueueArgs{})
		c.e.aside.count = 1000
		a, b := &notes{}, &notes{}
		con := c.consume("a", a)
		for range 100 {
			c.send(0, "b")
		}
		for range 50 {
			con.Resume(nil)
			c.send(0, "a")
		}
		if c.asked != 150 {
			t.Errorf("asked %d times for 150 messages", c.asked)
		}
		c.asked = 0
		c.consume("c", b)
		if c.asked != 100 {
			t.Errorf("asked %d times for 100 messages", c.asked)
		}
	})
}
