package enginetest

import (
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

func deadFaultTests() []test {
	return []test{
		{"fault 81: the dead-letter exchange is missing", deadMissing},
		{"fault 81: no queue is behind the dead-letter exchange", deadNowhere},
		{"fault 81: the queue behind the dead-letter exchange is full", deadFull},
		{"fault 81: dead letters that go round without a reject are cut and counted", deadCycle},
		{"fault 81: one of two queues is cut", deadHalfCycle},
		{"fault 81: dead letters that go round with a reject go on", deadRejectCycle},
		{"fault 82: a TTL after dead-lettering is the new queue's", deadNewTTL},
		{"purge and delete take the dead letters that wait", deadPurged},
		{"reject-publish-dlx: refused, and a dead letter", deadRefused},
		{"reject-publish-dlx: no target, nothing kept", deadRefusedNowhere},
	}
}

func (r *rig) wantWaiting(k core.QueueKey, n int) {
	r.Helper()
	synctest.Wait()
	if got := r.info(k).DeadLetters; got != n {
		r.Fatalf("%d dead letters wait in %v, want %d", got, k, n)
	}
}

func deadMissing(r *rig) {
	k := r.queue("q", buried(core.QueueArgs{}))
	r.send("", "q", "1", "2")
	r.fall(k, core.Reject, "1")
	r.wantWaiting(k, 1)
	r.wantInfo(k, 1, 0, 2)
	pass(time.Hour)
	r.fall(k, core.Reject, "2")
	r.wantWaiting(k, 2)
	dead := r.graveyard()
	pass(5 * time.Second)
	r.wantWaiting(k, 0)
	r.ackOne(dead, "1")
	r.ackOne(dead, "2")
	r.wantInfo(k, 0, 0, 0)
}

func deadNowhere(r *rig) {
	r.exchange("dlx", routing.Direct)
	k := r.queue("q", buried(core.QueueArgs{MaxLength: 1, HasMaxLength: true}))
	r.send("", "q", "1", "2")
	pass(time.Minute)
	r.wantWaiting(k, 1)
	r.wantInfo(k, 1, 0, 2)
	dead := r.queue("dead")
	r.bind("dlx", "q", dead)
	pass(5 * time.Second)
	r.ackOne(dead, "1")
	r.wantWaiting(k, 0)
}

func deadFull(r *rig) {
	dead := r.graveyard(length(1, core.RejectPublish))
	k := r.queue("q", buried(core.QueueArgs{}))
	r.send("", "q", "1", "2", "3")
	for _, m := range []string{"1", "2", "3"} {
		r.fall(k, core.Reject, m)
	}
	r.wantWaiting(k, 2)
	for _, m := range []string{"1", "2", "3"} {
		r.ackOne(dead, m)
		pass(5 * time.Second)
	}
	r.wantWaiting(k, 0)
}

func deadCycle(r *rig) {
	k := r.queue("q", args(core.QueueArgs{MessageTTL: time.Second, HasMessageTTL: true, DeadLetter: &core.DeadLetter{}}))
	r.send("", "q", "m")
	pass(time.Minute)
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropCycle, 1)
	hop := func(name, next string) core.QueueKey {
		return r.queue(name, args(core.QueueArgs{MessageTTL: time.Second, HasMessageTTL: true,
			DeadLetter: &core.DeadLetter{Key: next, HasKey: true}}))
	}
	a, b, c := hop("a", "b"), hop("b", "c"), hop("c", "a")
	r.send("", "a", "n")
	pass(2500 * time.Millisecond)
	r.wantInfo(c, 1, 0, 1)
	pass(time.Minute)
	for _, k := range []core.QueueKey{a, b, c} {
		r.wantInfo(k, 0, 0, 0)
	}
	r.wantDropped(core.DropCycle, 2)
}

func deadHalfCycle(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", buried(core.QueueArgs{MessageTTL: time.Second, HasMessageTTL: true}))
	r.bind("dlx", "", k)
	r.send("", "q", "m")
	pass(time.Minute)
	r.wantInfo(k, 0, 0, 0)
	r.ackOne(dead, "m")
	r.wantDropped(core.DropCycle, 0)
}

// deadRejectCycle is the usual way to try again later.
func deadRejectCycle(r *rig) {
	wait := r.queue("wait", args(core.QueueArgs{MessageTTL: time.Second, HasMessageTTL: true,
		DeadLetter: &core.DeadLetter{Key: "work", HasKey: true}}))
	work := r.queue("work", args(core.QueueArgs{DeadLetter: &core.DeadLetter{Key: "wait", HasKey: true}}))
	r.send("", "work", "m")
	for range 3 {
		r.fall(work, core.Reject, "m")
		r.wantInfo(wait, 1, 0, 1)
		pass(time.Second)
	}
	r.wantHistory(r.ackOne(work, "m"), "count=3 reason=expired queue=wait exchange= routing-keys=[wait]",
		"count=3 reason=rejected queue=work exchange= routing-keys=[work]")
}

func deadNewTTL(r *rig) {
	dead := r.graveyard(queueTTLOf(10 * time.Second))
	r.queue("q", buried(core.QueueArgs{}))
	r.sendOne(r.message("", "q", "m", ttl(time.Second)))
	pass(9 * time.Second)
	r.wantInfo(dead, 1, 0, 1)
	pass(3 * time.Second)
	r.wantInfo(dead, 0, 0, 0)
	r.wantDropped(core.DropExpired, 1)
}

func deadPurged(r *rig) {
	k := r.queue("q", buried(core.QueueArgs{}))
	r.send("", "q", "1", "2", "3")
	r.fall(k, core.Reject, "1")
	n, err := r.engine.PurgeQueue(r.ctx, k, 0)
	if err != nil || n != 3 {
		r.Fatalf("purged %d, %v", n, err)
	}
	r.wantInfo(k, 0, 0, 0)
	r.wantWaiting(k, 0)
	r.send("", "q", "4")
	r.fall(k, core.Reject, "4")
	r.wantWaiting(k, 1)
	_, err = r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{})
	r.must(err)
	dead := r.graveyard()
	pass(time.Minute)
	r.wantInfo(dead, 0, 0, 0)
}

func deadRefused(r *rig) {
	dead := r.graveyard()
	k := r.queue("q", buried(core.QueueArgs{MaxLength: 1, HasMaxLength: true, Overflow: core.RejectPublishDLX}))
	r.send("", "q", "1")
	_, err := r.publish(r.message("", "q", "2"))
	r.wantError(err, core.ErrFull)
	r.wantInfo(k, 1, 0, 1)
	r.wantHistory(r.ackOne(dead, "2"), "count=1 reason=maxlen queue=q exchange= routing-keys=[q]")
}

func deadRefusedNowhere(r *rig) {
	k := r.queue("q", buried(core.QueueArgs{HasMaxLength: true, Overflow: core.RejectPublishDLX}))
	_, err := r.publish(r.message("", "q", "1"))
	r.wantError(err, core.ErrFull)
	r.wantInfo(k, 0, 0, 0)
	r.wantWaiting(k, 0)
	r.wantDropped(core.DropOverflow, 1)
}
