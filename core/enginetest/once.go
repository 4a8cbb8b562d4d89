package enginetest

import "entrepot/core"

func onceTests() []test {
	return []test{
		{"a named queue keeps at-most-once messages", namedKeeps},
		{"a subscription queue takes them only while a consumer is attached", subscriptionForgets},
		{"a binding may make everything at most once", bindingAtMostOnce},
		{"the better of two bindings counts", betterBinding},
		{"an at-most-once message that comes back to nobody is forgotten", returnedToNobody},
	}
}

func namedKeeps(r *rig) {
	k := r.queue("q")
	r.sendOne(r.message("", "q", "1", atMostOnce))
	c := r.consume(k, r.taking(0))
	r.sendOne(r.message("", "q", "2", atMostOnce))
	c.Cancel(core.Requeue)
	r.wantInfo(k, 2, 0, 2)
}

func subscriptionForgets(r *rig) {
	for _, of := range []core.QueueKind{core.SessionQueue, core.GroupQueue, core.TopicQueue} {
		k := r.queue("s", kind(of))
		r.bind(core.TopicExchange, "a", k)
		r.sendOne(r.message(core.TopicExchange, "a", "1", atMostOnce)) // taken, and forgotten
		r.send(core.TopicExchange, "a", "2")
		r.wantInfo(k, 1, 0, 1)
		one, other := r.consume(k, r.taking(0)), r.consume(k, r.taking(0), paused)
		r.sendOne(r.message(core.TopicExchange, "a", "3", atMostOnce))
		r.send(core.TopicExchange, "a", "4")
		one.Cancel(core.Requeue)
		r.wantInfo(k, 3, 0, 3)
		other.Cancel(core.Requeue)
		r.wantInfo(k, 2, 0, 2)
		r.drain(k, "2", "4")
		r.delete(k, core.DeleteOptions{})
	}
	r.wantDropped(core.DropOffline, 6)
}

func lowered(s *core.BindSpec) { s.AtMostOnce = true }

func bindingAtMostOnce(r *rig) {
	k := r.queue("s", kind(core.SessionQueue))
	r.bind(core.TopicExchange, "a", k, lowered)
	r.send(core.TopicExchange, "a", "1")
	r.wantInfo(k, 0, 0, 0)
	p := r.probe()
	r.consume(k, p)
	r.send(core.TopicExchange, "a", "2")
	p.want("2")
	r.bind(core.TopicExchange, "a", k) // subscribes again with a better QoS
	r.consume(k, r.probe()).Cancel(core.Requeue)
	r.send(core.TopicExchange, "a", "3")
	p.want("3")
}

func betterBinding(r *rig) {
	k := r.queue("s", kind(core.SessionQueue))
	r.bind(core.TopicExchange, "a/#", k, lowered)
	r.bind(core.TopicExchange, "a/b", k)
	r.send(core.TopicExchange, "a/b", "1")
	r.send(core.TopicExchange, "a/c", "2")
	r.wantInfo(k, 1, 0, 1)
	r.drain(k, "1")
}

func returnedToNobody(r *rig) {
	k := r.queue("s", kind(core.TopicQueue))
	r.bind(core.TopicExchange, "a", k)
	p := r.probe()
	c := r.consume(k, p)
	r.sendOne(r.message(core.TopicExchange, "a", "1", atMostOnce))
	r.sendOne(r.message(core.TopicExchange, "a", "2", atMostOnce))
	got := p.want("1", "2")
	c.Cancel(core.Keep)
	r.wantInfo(k, 0, 2, 2)
	r.settle(c, core.Requeue, got[0])
	r.wantInfo(k, 0, 1, 1)
	c.Cancel(core.Requeue)
	r.wantInfo(k, 0, 0, 0)
	r.wantDropped(core.DropOffline, 2)
}
