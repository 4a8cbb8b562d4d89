package enginetest

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

func deadLetterTests() []test {
	return []test{
		{"dead letters: rejected", deadRejected},
		{"dead letters: expired, the TTL cleared and kept in the history", deadExpired},
		{"dead letters: maxlen", deadMaxlen},
		{"dead letters: a TTL of 0 that nobody takes", deadInstant},
		{"dead letters: given back more often than x-delivery-limit", deadLimit},
		{"fault 80: a message that every consumer dies of is a dead letter after 20 more tries", deadPoison},
		{"x-delivery-limit without a dead-letter exchange drops and counts", limitDrops},
		{"no x-delivery-limit: without a dead-letter exchange, of -1, on session queues", limitNone},
		{"dead letters: a key of their own, and none", deadKeys},
		{"dead letters: a queue by its name behind the default exchange", deadByName},
		{"dead letters: copies for CC go the same ways, unless there is a key", deadCopies},
		{"dead letters: the history, newest first, counted up for the same queue and reason", deadHistory},
		{"dead letters: through an internal exchange", deadInternal},
		{"dead letters: in order, and many", deadMany},
		{"dead letters: what an Apply rejects", deadApply},
	}
}

// graveyard declares a fanout exchange dlx with a queue dead behind it.
func (r *rig) graveyard(edits ...func(*core.QueueSpec)) core.QueueKey {
	r.Helper()
	r.exchange("dlx", routing.Fanout)
	k := r.queue("dead", edits...)
	r.bind("dlx", "", k)
	return k
}

// buried are arguments with the dead-letter exchange dlx.
func buried(a core.QueueArgs) func(*core.QueueSpec) {
	if a.DeadLetter == nil {
		a.DeadLetter = &core.DeadLetter{Exchange: "dlx"}
	}
	return args(a)
}

// fall gives the next message of a queue an outcome.
func (r *rig) fall(k core.QueueKey, o core.Outcome, want string) core.Delivery {
	r.Helper()
	p := r.taking(1)
	c := r.consume(k, p)
	d := p.want(want)[0]
	r.settle(c, o, d)
	c.Cancel(core.Return)
	return d
}

// ackOne takes one and is done with it.
func (r *rig) ackOne(k core.QueueKey, want string) core.Delivery {
	r.Helper()
	return r.fall(k, core.Ack, want)
}

// history is x-death as text, one line a table, times left out.
func (r *rig) history(d core.Delivery) []string {
	r.Helper()
	if d.Props == nil {
		return nil
	}
	v, _ := d.Props.Headers.Get("x-death")
	list, _ := v.([]any)
	var lines []string
	for _, e := range list {
		var words []string
		for _, h := range e.(routing.Headers) {
			if h.Name == "time" {
				if at, ok := h.Value.(time.Time); !ok || at.Nanosecond() != 0 {
					r.Fatalf("time %v", h.Value)
				}
				continue
			}
			words = append(words, fmt.Sprintf("%s=%v", h.Name, h.Value))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

func (r *rig) wantHistory(d core.Delivery, want ...string) {
	r.Helper()
	if got := r.history(d); strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.Fatalf("history of %q:\n%s\nwant\n%s", d.Payload, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (r *rig) wantHeader(d core.Delivery, name string, want any) {
	r.Helper()
	if got, _ := d.Props.Headers.Get(name); got != want {
		r.Fatalf("header %s is %v, want %v", name, got, want)
	}
}

func deadRejected(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", buried(core.QueueArgs{}))
	r.send("", "q", "m")
	r.fall(k, core.Reject, "m")
	r.wantInfo(k, 0, 0, 0)
	d := r.ackOne(dead, "m")
	r.wantHistory(d, "count=1 reason=rejected queue=q exchange= routing-keys=[q]")
	for _, when := range []string{"first", "last"} {
		r.wantHeader(d, "x-"+when+"-death-queue", "q")
		r.wantHeader(d, "x-"+when+"-death-reason", "rejected")
		r.wantHeader(d, "x-"+when+"-death-exchange", "")
	}
	if d.Exchange != "dlx" || d.Topic.String() != "q" || d.Attempts != 0 {
		r.Fatalf("came by %q with key %q and %d attempts", d.Exchange, d.Topic, d.Attempts)
	}
	r.wantDropped(core.DropRejected, 0)
}

func deadExpired(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", buried(core.QueueArgs{}))
	r.sendOne(r.message("", "q", "m", ttl(1500*time.Millisecond)))
	r.send("", "q", "other")
	pass(2 * time.Second)
	r.wantInfo(k, 1, 0, 5)
	d := r.ackOne(dead, "m")
	r.wantHistory(d, "count=1 reason=expired queue=q exchange= routing-keys=[q] original-expiration=1500")
	if d.Props.HasTTL {
		r.Fatal("the TTL goes on")
	}
	r.wantDropped(core.DropExpired, 0)
}

func deadMaxlen(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", buried(core.QueueArgs{MaxLength: 1, HasMaxLength: true}))
	r.send("", "q", "1", "2", "3")
	r.wantInfo(k, 1, 0, 1)
	r.wantHistory(r.ackOne(dead, "1"), "count=1 reason=maxlen queue=q exchange= routing-keys=[q]")
	r.ackOne(dead, "2")
	r.wantDropped(core.DropOverflow, 0)
}

func deadInstant(r *rig) {
	dead := r.graveyard()
	r.queue("q", buried(core.QueueArgs{}))
	r.sendOne(r.message("", "q", "m", ttl(0)))
	synctest.Wait()
	r.wantHistory(r.ackOne(dead, "m"), "count=1 reason=expired queue=q exchange= routing-keys=[q] original-expiration=0")
}

func deadLimit(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", buried(core.QueueArgs{DeliveryLimit: 1, HasLimit: true}))
	r.send("", "q", "m", "n")
	r.fall(k, core.Requeue, "m")
	r.fall(k, core.Return, "m")
	r.fall(k, core.Requeue, "m")
	r.wantHistory(r.ackOne(dead, "m"), "count=1 reason=delivery_limit queue=q exchange= routing-keys=[q]")
	r.ackOne(k, "n")
	zero := r.queue("zero", buried(core.QueueArgs{HasLimit: true}))
	r.send("", "zero", "z")
	r.fall(zero, core.Requeue, "z")
	r.ackOne(dead, "z")
	r.wantDropped(core.DropDeliveryLimit, 0)
}

// deadPoison: a nack and the loss of a consumer count alike.
func deadPoison(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", buried(core.QueueArgs{}))
	r.send("", "q", "poison")
	for n := range 21 {
		r.wantInfo(k, 1, 0, 6)
		p := r.taking(1)
		c := r.consume(k, p)
		d := p.want("poison")[0]
		if d.Attempts != uint32(n) {
			r.Fatalf("attempt %d is marked %d", n, d.Attempts)
		}
		c.Cancel(core.Requeue)
		pass(time.Minute)
	}
	r.wantInfo(k, 0, 0, 0)
	r.wantHistory(r.ackOne(dead, "poison"), "count=1 reason=delivery_limit queue=q exchange= routing-keys=[q]")
}

func limitDrops(r *rig) {
	k := r.queue("q", args(core.QueueArgs{DeliveryLimit: 1, HasLimit: true}))
	r.send("", "q", "m")
	r.fall(k, core.Requeue, "m")
	r.wantInfo(k, 1, 0, 1)
	r.fall(k, core.Requeue, "m")
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropDeliveryLimit, 1)
}

func limitNone(r *rig) {
	r.graveyard()
	for _, k := range []core.QueueKey{
		r.queue("plain"),
		r.queue("none", buried(core.QueueArgs{DeliveryLimit: -1, HasLimit: true})),
		r.queue("session", kind(core.SessionQueue), buried(core.QueueArgs{})),
	} {
		r.bind(core.TopicExchange, "t", k)
		r.send(core.TopicExchange, "t", "m")
		for range 25 {
			r.fall(k, core.Requeue, "m")
			pass(time.Minute)
		}
		r.wantInfo(k, 1, 0, 1)
		r.unbind(core.TopicExchange, "t", k)
	}
}

func deadKeys(r *rig) {
	r.exchange("dlx", routing.TopicKind)
	own, other := r.queue("own"), r.queue("other")
	r.bind("dlx", "a/#", own)
	r.bind("dlx", "k/l", other)
	k := r.queue("q", buried(core.QueueArgs{}))
	r.bind(core.TopicExchange, "a/b", k)
	r.send(core.TopicExchange, "a/b", "1")
	r.fall(k, core.Reject, "1")
	r.wantHistory(r.ackOne(own, "1"), "count=1 reason=rejected queue=q exchange=amq.topic routing-keys=[a.b]")
	keyed := r.queue("keyed", buried(core.QueueArgs{DeadLetter: &core.DeadLetter{Exchange: "dlx", Key: "k.l", HasKey: true}}))
	r.bind(core.TopicExchange, "a/c", keyed)
	r.send(core.TopicExchange, "a/c", "2")
	r.fall(keyed, core.Reject, "2")
	d := r.ackOne(other, "2")
	r.wantHistory(d, "count=1 reason=rejected queue=keyed exchange=amq.topic routing-keys=[a.c]")
	if d.Topic.String() != "k/l" {
		r.Fatalf("key %q", d.Topic)
	}
}

func deadByName(r *rig) {
	dead := r.queue("dead.letters")
	k := r.queue("q", buried(core.QueueArgs{DeadLetter: &core.DeadLetter{Key: "dead.letters", HasKey: true}}))
	r.bind(core.TopicExchange, "a/b", k)
	r.send(core.TopicExchange, "a/b", "m")
	r.fall(k, core.Reject, "m")
	r.ackOne(dead, "m")
	named := r.queue("a.b") // by the message's own key
	self := r.queue("self", buried(core.QueueArgs{DeadLetter: &core.DeadLetter{}}))
	r.unbind(core.TopicExchange, "a/b", k)
	r.bind(core.TopicExchange, "a/b", self)
	r.send(core.TopicExchange, "a/b", "n")
	r.fall(self, core.Reject, "n")
	r.ackOne(named, "n")
}

func deadCopies(r *rig) {
	r.exchange("dlx", routing.Direct)
	in1, in2, out1, out2 := r.queue("in1", buried(core.QueueArgs{})), r.queue("in2"), r.queue("out1"), r.queue("out2")
	r.bind("dlx", "in1", out1)
	r.bind("dlx", "cc", out2)
	copies := func(m *core.Message) {
		m.Props = &core.Properties{CC: topicList(r, "cc", "in2"), BCC: topicList(r, "in2"),
			Headers: routing.Headers{{Name: "CC", Value: []any{"cc", "in2"}}}}
	}
	r.sendOne(r.message("", "in1", "m", copies))
	r.ackOne(in2, "m")
	r.wantInfo(in2, 0, 0, 0) // once
	r.fall(in1, core.Reject, "m")
	for _, k := range []core.QueueKey{out1, out2} {
		d := r.ackOne(k, "m")
		r.wantHistory(d, "count=1 reason=rejected queue=in1 exchange= routing-keys=[in1 cc in2]")
		if _, ok := d.Props.Headers.Get("CC"); !ok {
			r.Fatal("the CC header is gone")
		}
	}
	keyed := r.queue("keyed", buried(core.QueueArgs{DeadLetter: &core.DeadLetter{Exchange: "dlx", Key: "in1", HasKey: true}}))
	r.sendOne(r.message("", "keyed", "n", copies))
	r.fall(keyed, core.Reject, "n")
	d := r.ackOne(out1, "n")
	r.wantInfo(out2, 0, 0, 0)
	if _, ok := d.Props.Headers.Get("CC"); ok {
		r.Fatal("the CC header stayed")
	}
}

func topicList(r *rig, names ...string) []routing.Topic {
	var ts []routing.Topic
	for _, n := range names {
		t, err := routing.ParseTopic(n)
		r.must(err)
		ts = append(ts, t)
	}
	return ts
}

func deadHistory(r *rig) {
	one := r.queue("one", buried(core.QueueArgs{DeadLetter: &core.DeadLetter{Key: "two", HasKey: true}}))
	two := r.queue("two", buried(core.QueueArgs{DeadLetter: &core.DeadLetter{Key: "one", HasKey: true}}))
	r.send("", "one", "m")
	for range 2 {
		r.fall(one, core.Reject, "m")
		r.fall(two, core.Reject, "m")
	}
	r.fall(one, core.Reject, "m")
	d := r.ackOne(two, "m")
	r.wantHistory(d, "count=3 reason=rejected queue=one exchange= routing-keys=[one]",
		"count=2 reason=rejected queue=two exchange= routing-keys=[two]")
	r.wantHeader(d, "x-first-death-queue", "one")
	r.wantHeader(d, "x-last-death-queue", "one")
}

func deadInternal(r *rig) {
	r.exchange("dlx", routing.Fanout, func(s *core.ExchangeSpec) { s.Internal = true })
	dead := r.queue("dead")
	r.bind("dlx", "", dead)
	k := r.queue("q", buried(core.QueueArgs{}))
	r.send("", "q", "m")
	r.fall(k, core.Reject, "m")
	r.ackOne(dead, "m")
}

func deadMany(r *rig) {
	dead := r.graveyard()
	r.queue("q", buried(core.QueueArgs{HasMaxLength: true}))
	const n = 1000
	for i := range n {
		r.send("", "q", fmt.Sprintf("%04d", i))
	}
	r.wantInfo(dead, n, 0, 4*n)
	p := r.settling()
	r.consume(dead, p)
	for i, d := range p.take() {
		if string(d.Payload) != fmt.Sprintf("%04d", i) {
			r.Fatalf("%s is number %d", d.Payload, i)
		}
	}
}

func deadApply(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", func(s *core.QueueSpec) { s.Durable = true }, buried(core.QueueArgs{}))
	r.sendOne(r.message("", "q", "m", func(m *core.Message) { m.Guarantee = core.Durable }))
	p := r.probe()
	c := r.consume(k, p)
	d := p.want("m")[0]
	_, err := r.apply(settlement(c, core.Reject, d), r.publication("", "q", "n"))
	r.must(err)
	r.wantHistory(r.ackOne(dead, "m"), "count=1 reason=rejected queue=q exchange= routing-keys=[q]")
	p.want("n")
}
