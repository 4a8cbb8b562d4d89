package e2e

import (
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// exchangeBehaviours are about exchanges as such.
func exchangeBehaviours() []behaviour {
	return []behaviour{
		{name: "exchange: the same declaration twice, and passively", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "direct", "durable", nil)
			c.exchange("x", "direct", "durable", nil)
			c.lookExchange("x")
			c.lookExchange("amq.topic")
			c.lookExchange("missing")
		}},
		{name: "exchange: a reserved name cannot be declared", play: func(s *scene) { s.channel().exchange("amq.mine", "direct", "", nil) }},
		{name: "exchange: the default one cannot be declared", play: func(s *scene) { s.channel().exchange("", "direct", "durable", nil) }},
		{name: "exchange: an existing amq. one can be declared as it is", play: func(s *scene) {
			c := s.channel()
			c.exchange("amq.fanout", "fanout", "durable", nil)
			c.exchange("amq.fanout", "direct", "durable", nil)
		}},
		{name: "exchange: an unknown type", play: func(s *scene) { s.channel().exchange("x", "no-such-type", "", nil) }},
		{name: "exchange: an alternate exchange that is no name", play: func(s *scene) {
			s.channel().exchange("x", "direct", "", amqp.Table{"alternate-exchange": int32(1)})
		}},
		{name: "exchange: unknown arguments", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "direct", "", amqp.Table{"colour": "red"})
			c.exchange("x", "direct", "", amqp.Table{"colour": "red"})
		}},
		{name: "exchange: delete", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "fanout", "", nil)
			c.did(c.ExchangeDelete(s.name("x"), false, false), "", "delete")
			c.did(c.ExchangeDelete(s.name("x"), false, false), "", "delete what is gone")
			c.publish("x", "k", "to nowhere")
			c.end()
		}},
		{name: "exchange: delete only when unused", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "fanout", "", nil)
			c.declare("q", nil)
			c.bind("q", "", "x", nil)
			c.did(c.ExchangeDelete(s.name("x"), true, false), "", "delete while bound")
			c = s.channel()
			c.unbind("q", "", "x", nil)
			c.did(c.ExchangeDelete(s.name("x"), true, false), "", "delete when unbound")
		}},
		{name: "exchange: delete of a predeclared one", play: func(s *scene) {
			c := s.channel()
			c.did(c.ExchangeDelete("amq.direct", false, false), "", "delete amq.direct")
		}},
		{name: "exchange: delete of the default one", play: func(s *scene) {
			c := s.channel()
			c.did(c.ExchangeDelete("", false, false), "", "delete")
		}},
		{name: "exchange: auto-delete after the last binding", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "fanout", "autodelete", nil)
			c.declare("q", nil)
			c.lookExchange("x")
			c.bind("q", "a", "x", nil)
			c.bind("q", "b", "x", nil)
			c.unbind("q", "a", "x", nil)
			c.lookExchange("x")
			c.unbind("q", "b", "x", nil)
			c.lookExchange("x")
		}},
		{name: "exchange: auto-delete when its queue goes", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "fanout", "autodelete", nil)
			c.declare("q", nil)
			c.bind("q", "a", "x", nil)
			_, err := c.QueueDelete(s.name("q"), false, false, false)
			c.did(err, "", "delete q")
			c.lookExchange("x")
		}},
		{name: "exchange: an internal one takes no messages from clients", play: func(s *scene) {
			c := s.channel()
			c.exchange("in", "fanout", "internal", nil)
			c.exchange("out", "fanout", "", nil)
			c.declare("q", nil)
			c.bind("q", "", "in", nil)
			c.did(c.ExchangeBind(s.name("in"), "", s.name("out"), false, nil), "", "bind in to out")
			c.publish("out", "k", "by way of out")
			c.get("q", "noack")
			c.publish("in", "k", "straight")
			c.end()
		}},
		{name: "exchange: publish to a missing one", play: func(s *scene) {
			c := s.channel()
			c.publish("missing", "k", "x")
			c.end()
			c.s.channel().declare("still", nil)
		}},
		{name: "exchange: the name lasts while its kind changes", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.exchange("x", "direct", "", nil)
			c.bind("q", "k", "x", nil)
			c.did(c.ExchangeDelete(s.name("x"), false, false), "", "delete")
			c.exchange("x", "fanout", "", nil)
			c.publish("x", "k", "nobody is bound any more")
			c.get("q", "noack")
		}},
	}
}

// exchangeConflicts declare what is there with one thing changed.
func exchangeConflicts() []behaviour {
	var all []behaviour
	for _, other := range []struct {
		what, kind, flags string
		args              amqp.Table
	}{
		{"type", "fanout", "", nil},
		{"durable", "direct", "durable", nil},
		{"auto-delete", "direct", "autodelete", nil},
		{"internal", "direct", "internal", nil},
		{"alternate exchange", "direct", "", amqp.Table{"alternate-exchange": "y"}},
	} {
		all = append(all, behaviour{name: "exchange: declared again with another " + other.what, play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "direct", "", nil)
			c.exchange("x", other.kind, other.flags, other.args)
			c = s.channel()
			c.exchange("y", other.kind, other.flags, other.args)
			c.exchange("y", "direct", "", nil)
		}})
	}
	return all
}

// topicBehaviours show which of many keys a pattern takes.
func topicBehaviours() []behaviour {
	keys := []string{"a", "a.b", "a.b.c", "a.b.c.d", "b", "b.a", ".", "a.", ".a", "a..b", "a.*", "*", "#", "$a.b", "A.b", "a.b.a.b"}
	var all []behaviour
	for _, patterns := range []string{"a a.b * #", "*.* a.* *.b", "a.# #.b #.a.#", "a.*.c a.#.c #.#", "*.# #.* *.#.*", "a..b . .#", "a.b.a.b #.a.b.#"} {
		all = append(all, behaviour{name: "topic: " + patterns, play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "topic", "", nil)
			for i, p := range strings.Fields(patterns) {
				c.declare(fmt.Sprint("q", i), nil)
				c.bind(fmt.Sprint("q", i), p, "x", nil)
			}
			for _, k := range keys {
				c.publish("x", k, k)
			}
			for i := range strings.Fields(patterns) {
				c.drain(fmt.Sprint("q", i))
			}
		}})
	}
	all = append(all, behaviour{name: "topic: the empty key", here: []string{
		`drain "q1": #2 "1" of "x" key ""`, `drain "q1": ok, empty`, `drain "q2": #3 "1" of "x" key ""`, `drain "q2": ok, empty`,
	}, play: func(s *scene) {
		c := s.channel()
		c.exchange("x", "topic", "", nil)
		for i, p := range []string{"", "*", "#"} {
			c.declare(fmt.Sprint("q", i), nil)
			c.bind(fmt.Sprint("q", i), p, "x", nil)
		}
		c.publish("x", "", "1")
		for i := range 3 {
			c.drain(fmt.Sprint("q", i))
		}
	}})
	return append(all, behaviour{name: "topic: one copy for each queue, however many bindings take it", play: func(s *scene) {
		c := s.channel()
		c.exchange("x", "topic", "", nil)
		c.declare("q", nil)
		for _, p := range []string{"a.b", "a.*", "#", "#.b"} {
			c.bind("q", p, "x", nil)
		}
		c.publish("x", "a.b", "once")
		c.drain("q")
	}})
}

// routingBehaviours are about bindings and the exchange types.
func routingBehaviours() []behaviour {
	return []behaviour{
		{name: "bind: a missing exchange", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.bind("q", "k", "missing", nil)
		}},
		{name: "bind: a missing queue", play: func(s *scene) { s.channel().bind("missing", "k", "amq.direct", nil) }},
		{name: "bind: the default exchange refuses", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.bind("q", "k", "", nil)
			c = s.channel()
			c.unbind("q", "q", "", nil)
		}},
		{name: "bind: twice is once", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.exchange("x", "direct", "", nil)
			c.bind("q", "k", "x", nil)
			c.bind("q", "k", "x", nil)
			c.publish("x", "k", "1")
			c.unbind("q", "k", "x", nil)
			c.publish("x", "k", "2")
			c.drain("q")
		}},
		{name: "unbind: what is not bound", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.exchange("x", "direct", "", nil)
			c.unbind("q", "k", "x", nil)
			c.unbind("q", "k", "missing", nil)
		}},
		{name: "unbind: a missing queue", play: func(s *scene) { s.channel().unbind("missing", "k", "amq.direct", nil) }},
		{name: "unbind: arguments are part of a binding", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.exchange("x", "direct", "", nil)
			c.bind("q", "k", "x", amqp.Table{"colour": "red"})
			c.unbind("q", "k", "x", nil)
			c.publish("x", "k", "1")
			c.unbind("q", "k", "x", amqp.Table{"colour": "red"})
			c.publish("x", "k", "2")
			c.drain("q")
		}},
		{name: "direct: the key is compared whole", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "direct", "", nil)
			for _, k := range []string{"a", "a.b", "*", "#", "", "A"} {
				c.declare("q"+k, nil)
				c.bind("q"+k, k, "x", nil)
			}
			for _, k := range []string{"a", "a.b", "*", "#", "", "A", "b"} {
				c.publish("x", k, k)
			}
			for _, k := range []string{"a", "a.b", "*", "#", "", "A"} {
				c.drain("q" + k)
			}
		}},
		{name: "headers: all, any, and with x-", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "headers", "", nil)
			for i, args := range []amqp.Table{
				{"x-match": "all", "a": int32(1), "b": "two"}, {"x-match": "any", "a": int32(1), "b": "two"},
				{"a": int32(1), "b": "two"}, {"x-match": "all"}, {"x-match": "any"}, {},
				{"x-match": "all", "x-a": int32(1)}, {"x-match": "all-with-x", "x-a": int32(1)}, {"x-match": "any-with-x", "x-a": int32(1), "b": "two"},
				{"x-match": "all", "a": nil}, {"x-match": "all", "t": true},
			} {
				c.declare(fmt.Sprint("q", i), nil)
				c.bind(fmt.Sprint("q", i), "ignored", "x", args)
			}
			for i, h := range []amqp.Table{nil, {"a": int32(1)}, {"a": int32(1), "b": "two"}, {"a": int32(2), "b": "two"}, {"x-a": int32(1)},
				{"a": int64(1), "b": "two"}, {"a": "1"}, {"t": true}, {"t": false}, {"c": int32(1)}, {"a": 1.0}} {
				c.publish("x", "k", fmt.Sprint(i), headers(h))
			}
			for i := range 11 {
				c.drain(fmt.Sprint("q", i))
			}
		}},
		{name: "headers: an x-match that is none", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "headers", "", nil)
			c.declare("q", nil)
			c.bind("q", "", "x", amqp.Table{"x-match": "most"})
		}},
		{name: "headers: an x-match that is no text", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "headers", "", nil)
			c.declare("q", nil)
			c.bind("q", "", "x", amqp.Table{"x-match": int32(1)})
		}},
		{name: "alternate exchange: takes what has no route", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "direct", "", amqp.Table{"alternate-exchange": "rest"})
			c.exchange("rest", "fanout", "", nil)
			c.declare("q", nil)
			c.declare("r", nil)
			c.bind("q", "k", "x", nil)
			c.bind("r", "", "rest", nil)
			c.publish("x", "k", "routed")
			c.mandatory("x", "other", "not routed")
			c.drain("q")
			c.drain("r")
		}},
		{name: "alternate exchange: missing, and in a circle", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "direct", "", amqp.Table{"alternate-exchange": "missing"})
			c.mandatory("x", "k", "1")
			c.returned()
			c.exchange("y", "direct", "", amqp.Table{"alternate-exchange": "z"})
			c.exchange("z", "direct", "", amqp.Table{"alternate-exchange": "y"})
			c.mandatory("y", "k", "2")
			c.returned()
		}},
		exchangeChain(),
	}
}

// exchangeChain binds exchanges to exchanges.
func exchangeChain() behaviour {
	return behaviour{name: "exchange to exchange: a chain, a circle, and its end", play: func(s *scene) {
		c := s.channel()
		tie := func(to, key, from string) {
			c.did(c.ExchangeBind(s.name(to), key, s.name(from), false, nil), "", "bind exchange %q to %q key %q", to, from, key)
		}
		c.exchange("x", "topic", "", nil)
		c.exchange("y", "direct", "", nil)
		c.exchange("z", "fanout", "", nil)
		c.declare("q", nil)
		tie("y", "a.#", "x")
		tie("z", "a.b", "y")
		tie("x", "", "z")
		c.bind("q", "", "z", nil)
		c.bind("q", "a.b", "y", nil)
		c.publish("x", "a.b", "1")
		c.publish("x", "a.c", "2")
		c.publish("z", "anything", "3")
		c.drain("q")
		c.did(c.ExchangeUnbind(s.name("y"), "a.#", s.name("x"), false, nil), "", "unbind y from x")
		c.did(c.ExchangeUnbind(s.name("y"), "a.#", s.name("x"), false, nil), "", "and once more")
		c.publish("x", "a.b", "4")
		c.drain("q")
		tie("missing", "k", "x")
		c = s.channel()
		tie("x", "k", "missing")
	}}
}
