package enginetest

import (
	"entrepot/core"
	"entrepot/routing"
)

func routingTests() []test {
	return []test{
		{"the default exchange reaches the queue of that name [AMQP 3.1.2]", byQueueName},
		{"a queue that comes, goes and comes again is found", byQueueNameChanges},
		{"names with a slash and a dollar are queue names too", byOddQueueName},
		{"direct: the key is the binding's [AMQP 3.1.3.1]", direct},
		{"fanout: every queue [AMQP 3.1.3.2]", fanout},
		{"a binding's literal is what a kind without wildcards reads", literal},
		{"topic: the filter matches [AMQP 3.1.3.3]", topics},
		{"headers: all, any, and with x- [AMQP 3.1.3.4]", headerMatch},
		{"headers of each message count, not those of the first", headersEachTime},
		{"exchange to exchange, in a ring too, each queue once", chain},
		{"alternate exchange takes what matches nothing", alternate},
		{"one copy for overlapping bindings", oneCopy},
		{"a publish after Bind sees the binding, after Unbind no more", seesChange},
		{"binding again is no new binding", bindAgain},
		{"unroutable messages are counted", unroutable},
	}
}

func literal(r *rig) {
	x, err := routing.NewTopic("a", "#")
	r.must(err)
	both := func(s *core.BindSpec) { s.Literal = x.Filter() }
	k := r.queue("q")
	r.exchange("d", routing.Direct)
	r.exchange("t", routing.TopicKind)
	r.bind("d", "a/#", k, both)
	r.bind("t", "a/#", k, both)
	r.sendNowhere(r.message("d", "a/b", "1"))
	m := r.message("d", "a", "2")
	m.Topic = x
	r.sendOne(m)
	r.send("t", "a/b", "3")
	r.unbind("d", "a/#", k, both)
	r.unbind("t", "a/#", k, both)
	r.sendNowhere(r.message("t", "a/b", "4"))
	r.wantInfo(k, 2, 0, 2)
}

// queueTopic is the topic of a queue on the default exchange.
func (r *rig) queueTopic(name string) string {
	r.Helper()
	a, err := core.QueueAddress(name)
	r.must(err)
	return a.Topic.String()
}

func byQueueName(r *rig) {
	one, other := r.queue("one"), r.queue("other")
	r.send("", "one", "m")
	r.wantInfo(one, 1, 0, 1)
	r.wantInfo(other, 0, 0, 0)
}

func byQueueNameChanges(r *rig) {
	r.sendNowhere(r.message("", "q", "too early"))
	k := r.queue("q")
	r.send("", "q", "m")
	_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{})
	r.must(err)
	r.sendNowhere(r.message("", "q", "too late"))
	r.queue("q")
	r.send("", "q", "m2")
	r.wantInfo(k, 1, 0, 2)
}

func byOddQueueName(r *rig) {
	for _, name := range []string{"a/b", "$x", "+", "a#", "%2F", " "} {
		k := r.queue(name)
		r.send("", r.queueTopic(name), name)
		r.wantInfo(k, 1, 0, int64(len(name)))
	}
}

func direct(r *rig) {
	a, b, both := r.queue("a"), r.queue("b"), r.queue("both")
	r.bind("amq.direct", "red", a)
	r.bind("amq.direct", "blue", b)
	r.bind("amq.direct", "red", both)
	r.bind("amq.direct", "blue", both)
	r.send("amq.direct", "red", "1")
	r.send("amq.direct", "blue", "2")
	r.sendNowhere(r.message("amq.direct", "green", "3"))
	r.wantInfo(a, 1, 0, 1)
	r.wantInfo(b, 1, 0, 1)
	r.wantInfo(both, 2, 0, 2)
}

func fanout(r *rig) {
	a, b := r.queue("a"), r.queue("b")
	r.bind("amq.fanout", "", a)
	r.bind("amq.fanout", "key", b)
	r.send("amq.fanout", "other/key", "1")
	r.wantInfo(a, 1, 0, 1)
	r.wantInfo(b, 1, 0, 1)
}

func topics(r *rig) {
	for _, c := range []struct {
		filter string
		yes    []string
		no     []string
	}{
		{"plant/7/temp", []string{"plant/7/temp"}, []string{"plant/7", "plant/8/temp"}},
		{"plant/+/temp", []string{"plant/7/temp", "plant//temp"}, []string{"plant/temp", "plant/7/x/temp"}},
		{"plant/#", []string{"plant", "plant/7", "plant/7/temp"}, []string{"plants"}},
		{"#/temp", []string{"temp", "a/temp", "a/b/temp"}, []string{"temp/a", "$a/temp"}},
		{"+/+", []string{"a/b", "/"}, []string{"a", "a/b/c", "$a/b"}},
		{"#", []string{"a", "a/b"}, []string{"$SYS/a"}},
		{"$SYS/#", []string{"$SYS/a"}, []string{"SYS/a"}},
	} {
		k := r.queue(c.filter)
		r.bind(core.TopicExchange, c.filter, k)
		for _, topic := range c.yes {
			r.send(core.TopicExchange, topic, "m")
		}
		for _, topic := range c.no {
			r.sendNowhere(r.message(core.TopicExchange, topic, "m"))
		}
		r.wantInfo(k, len(c.yes), 0, int64(len(c.yes)))
		r.unbind(core.TopicExchange, c.filter, k)
	}
}

func headerMatch(r *rig) {
	a, b, x := routing.Header{Name: "a", Value: "1"}, routing.Header{Name: "b", Value: int32(2)}, routing.Header{Name: "x-c", Value: true}
	mode := func(v string) routing.Header { return routing.Header{Name: "x-match", Value: v} }
	for _, c := range []struct {
		title string
		args  routing.Headers
		yes   []routing.Headers
		no    []routing.Headers
	}{
		{"all", routing.Headers{mode("all"), a, b, x}, []routing.Headers{{a, b}, {b, a, x}}, []routing.Headers{{a}, {}}},
		{"all, unsaid", routing.Headers{a, b}, []routing.Headers{{a, b}}, []routing.Headers{{b}}},
		{"any", routing.Headers{mode("any"), a, b, x}, []routing.Headers{{a}, {b}}, []routing.Headers{{x}, {}}},
		{"all-with-x", routing.Headers{mode("all-with-x"), a, x}, []routing.Headers{{a, x}}, []routing.Headers{{a}, {x}}},
		{"any-with-x", routing.Headers{mode("any-with-x"), a, x}, []routing.Headers{{a}, {x}}, []routing.Headers{{b}}},
	} {
		k := r.queue(c.title)
		r.bind("amq.headers", "", k, bindArgs(c.args))
		for _, hs := range c.yes {
			r.sendOne(r.message("amq.headers", "t", "m", headers(hs...)))
		}
		for _, hs := range c.no {
			r.sendNowhere(r.message("amq.headers", "t", "m", headers(hs...)))
		}
		r.wantInfo(k, len(c.yes), 0, int64(len(c.yes)))
		r.unbind("amq.headers", "", k, bindArgs(c.args))
	}
}

func headersEachTime(r *rig) {
	k := r.queue("q")
	want := routing.Header{Name: "kind", Value: "alarm"}
	r.bind("amq.match", "", k, bindArgs(routing.Headers{want}))
	r.sendNowhere(r.message("amq.match", "t", "1"))
	r.sendOne(r.message("amq.match", "t", "2", headers(want)))
	r.sendNowhere(r.message("amq.match", "t", "3", headers(routing.Header{Name: "kind", Value: "note"})))
	r.sendOne(r.message("amq.match", "t", "4", headers(want)))
	p := r.settling()
	r.consume(k, p)
	p.want("2", "4")
}

func chain(r *rig) {
	r.exchange("first", routing.TopicKind)
	r.exchange("second", routing.Fanout)
	r.exchange("third", routing.Direct)
	near, far := r.queue("near"), r.queue("far")
	r.bind("first", "a/#", core.QueueKey{}, toExchange("second"))
	r.bind("second", "", core.QueueKey{}, toExchange("third"))
	r.bind("third", "a/b", core.QueueKey{}, toExchange("first"))
	r.bind("second", "", near)
	r.bind("third", "a/b", near)
	r.bind("third", "a/b", far)
	r.send("first", "a/b", "1")
	r.send("first", "a/c", "2")
	r.sendNowhere(r.message("first", "b", "3"))
	r.wantInfo(near, 2, 0, 2)
	r.wantInfo(far, 1, 0, 1)
	r.unbind("first", "a/#", core.QueueKey{}, toExchange("second"))
	r.sendNowhere(r.message("first", "a/b", "4"))
}

func alternate(r *rig) {
	r.exchange("last", routing.Fanout)
	r.exchange("middle", routing.Direct, func(s *core.ExchangeSpec) { s.Alternate, s.Internal = "last", true })
	r.exchange("main", routing.Direct, func(s *core.ExchangeSpec) { s.Alternate = "middle" })
	hit, missed := r.queue("hit"), r.queue("missed")
	r.bind("main", "known", hit)
	r.sendNowhere(r.message("main", "unknown", "0"))
	r.bind("last", "", missed)
	r.send("main", "known", "1")
	r.send("main", "unknown", "2")
	r.wantInfo(hit, 1, 0, 1)
	r.wantInfo(missed, 1, 0, 1)
	r.must(r.engine.DeleteExchange(r.ctx, "middle", false))
	r.sendNowhere(r.message("main", "unknown", "3"))
}

func oneCopy(r *rig) {
	k := r.queue("q")
	r.bind(core.TopicExchange, "a/#", k)
	r.bind(core.TopicExchange, "a/+", k)
	r.bind(core.TopicExchange, "a/b", k)
	r.send(core.TopicExchange, "a/b", "1")
	r.wantInfo(k, 1, 0, 1)
	r.unbind(core.TopicExchange, "a/+", k)
	r.send(core.TopicExchange, "a/b", "2")
	r.wantInfo(k, 2, 0, 2)
}

func seesChange(r *rig) {
	k := r.queue("q")
	for _, filter := range []string{"a/b", "a/+", "#", "+/b", "a/#"} {
		for range 2 { // the second time it is remembered
			r.sendNowhere(r.message(core.TopicExchange, "a/b", "x"))
		}
		r.bind(core.TopicExchange, filter, k)
		for range 2 {
			r.send(core.TopicExchange, "a/b", "m")
		}
		r.wantInfo(k, 2, 0, 2)
		r.unbind(core.TopicExchange, filter, k)
		_, err := r.engine.PurgeQueue(r.ctx, k, 0)
		r.must(err)
	}
}

func bindAgain(r *rig) {
	k := r.queue("q")
	s := r.binding(core.TopicExchange, "a", k)
	for i, want := range []bool{true, false} {
		if added, err := r.engine.Bind(r.ctx, s); err != nil || added != want {
			r.Fatalf("bind %d: added %v, error %v", i, added, err)
		}
	}
	if n := r.engine.Stats().Bindings - r.first.Bindings; n != 1 {
		r.Fatalf("%d bindings, want 1", n)
	}
	r.must(r.engine.Unbind(r.ctx, s))
	r.wantError(r.engine.Unbind(r.ctx, s), core.ErrNotFound)
}

func unroutable(r *rig) {
	before := r.engine.Stats().Unroutable
	r.sendNowhere(r.message(core.TopicExchange, "a", "1"))
	r.sendNowhere(r.message("", "nobody", "2"))
	if n := r.engine.Stats().Unroutable - before; n != 2 {
		r.Fatalf("%d counted, want 2", n)
	}
}
