package enginetest

import (
	"testing/synctest"
	"time"

	"entrepot/core"
)

func expiryTests() []test {
	return []test{
		{"a message's TTL: it goes when the time is over, and is counted", messageTTL},
		{"the queue's TTL", queueTTL},
		{"the shorter of both counts", shorterTTL},
		{"TTL 0 is for a consumer that has room", zeroTTL},
		{"TTL 0 while the consumer's Deliver runs", zeroTTLMeanwhile},
		{"a queue TTL of 0", zeroQueueTTL},
		{"what is out does not expire, what comes back late does", outDoesNotExpire},
		{"a session's unsettled message does not expire", startedDoesNotExpire},
		{"the clock runs for what Get left as the oldest", nextExpires},
		{"a long backlog expires though nobody takes from it", backlogExpires},
		{"a TTL longer than any clock never comes", longestTTL},
		{"x-expires: the queue goes after so long without use", expires},
		{"x-expires does not run while there are consumers", expiresConsumer},
		{"x-expires starts again with a declare and a get", expiresUsed},
		{"a deleted queue's clocks do nothing to the next of its name", deletedClocks},
	}
}

// pass lets time go by and what is due be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func queueTTLOf(d time.Duration) func(*core.QueueSpec) {
	return args(core.QueueArgs{MessageTTL: d, HasMessageTTL: true})
}

func messageTTL(r *rig) {
	k := r.queue("q")
	r.sendOne(r.message("", "q", "1", ttl(time.Second)))
	r.sendOne(r.message("", "q", "2", ttl(2*time.Second)))
	r.send("", "q", "3")
	pass(time.Second - time.Millisecond)
	r.wantInfo(k, 3, 0, 3)
	pass(time.Millisecond)
	r.wantInfo(k, 2, 0, 2)
	pass(time.Second)
	r.wantInfo(k, 1, 0, 1)
	r.wantDropped(core.DropExpired, 2)
	pass(time.Hour)
	r.drain(k, "3")
}

func queueTTL(r *rig) {
	k := r.queue("q", queueTTLOf(time.Second))
	r.send("", "q", "1")
	pass(600 * time.Millisecond)
	r.send("", "q", "2")
	pass(600 * time.Millisecond)
	r.wantInfo(k, 1, 0, 1)
	r.drain(k, "2")
	r.wantDropped(core.DropExpired, 1)
}

func shorterTTL(r *rig) {
	k := r.queue("q", queueTTLOf(time.Minute))
	r.sendOne(r.message("", "q", "1", ttl(time.Second)))
	r.sendOne(r.message("", "q", "2", ttl(time.Hour)))
	pass(time.Second)
	r.wantInfo(k, 1, 0, 1)
	pass(time.Minute)
	r.wantInfo(k, 0, 0, 0)
}

func zeroTTL(r *rig) {
	k := r.queue("q")
	r.sendOne(r.message("", "q", "1", ttl(0)))
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropExpired, 1)
	p := r.taking(1)
	r.consume(k, p)
	r.sendOne(r.message("", "q", "2", ttl(0)))
	p.want("2")
	r.sendOne(r.message("", "q", "3", ttl(0))) // it is full
	r.wantInfo(k, 0, 1, 1)
	r.wantDropped(core.DropExpired, 2)
}

// zeroTTLMeanwhile: the consumer has room for both, though the second comes
// while the first is handed over.
func zeroTTLMeanwhile(r *rig) {
	k := r.queue("q")
	p := r.gated(core.Settled)
	r.consume(k, p)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "1", ttl(0)), nil)
	p.meet()
	r.sendOne(r.message("", "q", "2", ttl(0)))
	p.leave()
	p.meet()
	p.leave()
	p.want("1", "2")
	r.wantDropped(core.DropExpired, 0)
	go r.engine.Publish(&core.Batch{}, r.message("", "q", "3", ttl(0)), nil)
	p.meet()
	r.sendOne(r.message("", "q", "4", ttl(0)))
	p.say(core.Full)
	p.leave()
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropExpired, 2)
}

func zeroQueueTTL(r *rig) {
	k := r.queue("q", queueTTLOf(0))
	p := r.taking(1)
	c := r.consume(k, p)
	r.send("", "q", "1", "2")
	got := p.want("1")
	r.wantInfo(k, 0, 1, 1)
	r.settle(c, core.Requeue, got...)
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropExpired, 2)
}

func outDoesNotExpire(r *rig) {
	k := r.queue("q")
	p := r.probe()
	c := r.consume(k, p)
	r.sendOne(r.message("", "q", "1", ttl(time.Second)))
	r.sendOne(r.message("", "q", "2", ttl(time.Second)))
	got := p.want("1", "2")
	pass(time.Hour)
	r.wantInfo(k, 0, 2, 2)
	r.ack(c, got[0])
	c.Cancel(core.Return)
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropExpired, 1)
}

// startedDoesNotExpire: the client may know its packet id [MQTT-4.4.0-1].
func startedDoesNotExpire(r *rig) {
	k := r.queue("client", kind(core.SessionQueue))
	r.bind(core.TopicExchange, "a", k)
	p := r.taking(1)
	c := r.consume(k, p)
	r.sendOne(r.message(core.TopicExchange, "a", "1", ttl(time.Second)))
	r.sendOne(r.message(core.TopicExchange, "a", "2", ttl(time.Second)))
	p.want("1")
	c.Cancel(core.Return)
	pass(time.Hour)
	r.drain(k, "1")
}

func nextExpires(r *rig) {
	k := r.queue("q")
	c := r.consume(k, nil, pull)
	r.send("", "q", "1")
	r.sendOne(r.message("", "q", "2", ttl(time.Second)))
	r.get(c, "1")
	pass(time.Second)
	r.wantInfo(k, 0, 1, 1)
	r.wantDropped(core.DropExpired, 1)
}

func backlogExpires(r *rig) {
	k := r.queue("q", func(s *core.QueueSpec) { s.Durable = true }, queueTTLOf(time.Minute))
	durable := func(m *core.Message) { m.Guarantee = core.Durable }
	for i := range 50 {
		r.sendOne(r.message("", "q", "x", durable))
		if i%10 == 9 {
			pass(time.Second)
		}
	}
	r.wantInfo(k, 50, 0, 50)
	pass(time.Minute - 2*time.Second)
	r.wantInfo(k, 10, 0, 10)
	pass(time.Minute)
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropExpired, 50)
}

func longestTTL(r *rig) {
	pass(time.Hour)
	k := r.queue("q", queueTTLOf(1<<63-1))
	r.sendOne(r.message("", "q", "1", ttl(1<<63-1)))
	pass(time.Hour)
	r.drain(k, "1")
}

func expiresAfter(d time.Duration) func(*core.QueueSpec) {
	return args(core.QueueArgs{Expires: d})
}

func expires(r *rig) {
	k := r.queue("q", expiresAfter(time.Minute))
	r.bind("amq.fanout", "", k)
	r.send("amq.fanout", "a", "1")
	pass(time.Minute - time.Millisecond)
	r.send("amq.fanout", "a", "2") // a publish is no use
	pass(time.Millisecond)
	r.wantGone(k)
	r.sendNowhere(r.message("amq.fanout", "a", "3"))
}

func expiresConsumer(r *rig) {
	k := r.queue("q", expiresAfter(time.Minute))
	pass(30 * time.Second)
	c := r.consume(k, r.probe())
	pass(time.Hour + 7*time.Second)
	c.Cancel(core.Requeue)
	pass(time.Minute - time.Millisecond)
	r.send("", "q", "1")
	pass(time.Millisecond)
	r.wantGone(k)
}

func expiresUsed(r *rig) {
	k := r.queue("q", expiresAfter(time.Minute))
	c := r.consume(k, nil, pull)
	for range 5 {
		pass(40 * time.Second)
		r.queue("q", expiresAfter(time.Minute))
		pass(40 * time.Second)
		r.getNone(c)
	}
	pass(time.Minute - time.Millisecond)
	r.send("", "q", "1")
	pass(time.Millisecond)
	r.wantGone(k)
}

func deletedClocks(r *rig) {
	k := r.queue("q", args(core.QueueArgs{Expires: time.Minute, MessageTTL: time.Minute, HasMessageTTL: true}))
	r.send("", "q", "1")
	r.delete(k, core.DeleteOptions{})
	r.queue("q")
	r.send("", "q", "2")
	pass(time.Hour)
	r.wantInfo(k, 1, 0, 1)
	r.wantDropped(core.DropExpired, 0)
}
