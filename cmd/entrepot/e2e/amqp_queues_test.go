package e2e

import (
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// queueBehaviours are about queues as such.
func queueBehaviours() []behaviour {
	return []behaviour{
		{name: "queue: the same declaration twice, and passively", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "durable", amqp.Table{"x-message-ttl": int32(60000)})
			c.publish("", "q", "1")
			c.until("q", 1, 0)
			c.queue("q", "durable", amqp.Table{"x-message-ttl": int32(60000)})
			c.look("missing")
		}},
		{name: "queue: the same number in another type", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", amqp.Table{"x-message-ttl": int16(6000), "x-max-length": int64(5)})
			c.queue("q", "", amqp.Table{"x-message-ttl": int64(6000), "x-max-length": byte(5)})
		}},
		{name: "queue: a reserved name cannot be declared", play: func(s *scene) { s.channel().queue("amq.mine", "", nil) }},
		{name: "queue: a name of 255 bytes, and of all signs", play: func(s *scene) {
			c := s.channel()
			long := s.prefix + strings.Repeat("n", 255-len(s.prefix))
			q, err := c.QueueDeclare(long, false, true, true, false, nil)
			c.did(err, fmt.Sprint(" ", len(q.Name)), "255 bytes")
			for _, n := range []string{"a b", "a/b", "a.b", "#", "*", "$x", "äöü", "a%2Fb", "+", "tab\there"} {
				c.queue(n, "exclusive", nil)
				c.publish("", n, n)
				c.drain(n)
			}
		}},
		{name: "queue: the broker's own name, and the last declared queue", play: func(s *scene) {
			c := s.channel()
			q, err := c.QueueDeclare("", false, false, true, false, nil)
			c.did(err, fmt.Sprint(" ", q.Name[:8]), "queue without a name")
			c.bind("", "k", "amq.direct", nil)
			c.did(c.Publish("", q.Name, false, false, amqp.Publishing{Body: []byte("1")}), "", "publish")
			d, ok, err := c.Get("", true)
			c.did(err, fmt.Sprint(" ", ok, string(d.Body)), "get from the last declared")
			n, err := c.QueuePurge("", false)
			c.did(err, fmt.Sprint(" ", n), "purge the last declared")
			_, err = c.Consume("", "c", true, false, false, false, nil)
			c.did(err, "", "consume from the last declared")
			c.unbind("", "k", "amq.direct", nil)
			n, err = c.QueueDelete("", false, false, false)
			c.did(err, fmt.Sprint(" ", n), "delete the last declared")
		}},
		{name: "queue: an empty key with an empty name is the queue's name", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "direct", "", nil)
			q, err := c.QueueDeclare("", false, false, true, false, nil)
			c.did(err, "", "queue without a name")
			c.bind("", "", "x", nil)
			for _, key := range []string{"", q.Name} {
				c.publish("x", key, "1")
				_, ok, err := c.Get("", true)
				c.did(err, fmt.Sprint(" ", ok), "get")
			}
		}},
		{name: "queue: no last declared queue", play: func(s *scene) {
			for _, what := range []string{"get", "consume", "bind", "purge", "look", "delete"} {
				c := s.channel()
				var err error
				switch what {
				case "get":
					_, _, err = c.Get("", true)
				case "consume":
					_, err = c.Consume("", "c", true, false, false, false, nil)
				case "bind":
					err = c.QueueBind("", "k", "amq.direct", false, nil)
				case "purge":
					_, err = c.QueuePurge("", false)
				case "look":
					_, err = c.QueueDeclarePassive("", false, false, false, false, nil)
				case "delete":
					_, err = c.QueueDelete("", false, false, false)
				}
				c.did(err, "", "%s", what)
			}
		}},
		{name: "queue: auto-delete after the last consumer", play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.queue("q", "autodelete", nil)
			c.get("q", "noack")
			c.consume("q", "a", "noack", nil)
			d.consume("q", "b", "noack", nil)
			c.did(c.Cancel("a", false), "", "cancel a")
			c.look("q")
			c.did(d.Cancel("b", false), "", "cancel b")
			c.look("q")
		}},
		{name: "queue: auto-delete when its consumer's channel or connection ends", play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.queue("q", "autodelete", nil)
			c.queue("r", "autodelete", nil)
			d.consume("q", "a", "noack", nil)
			c.did(d.Close(), "", "close the channel")
			s.gone("q")
			d = s.channel()
			d.consume("r", "a", "", nil)
			c.did(d.link.Close(), "", "close the connection")
			s.gone("r")
		}},
	}
}

// queueEnds are about what is in a queue, and its end.
func queueEnds() []behaviour {
	return []behaviour{
		{name: "queue: delete tells how many it had", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", nil)
			c.numbers("q", 3)
			n, err := c.QueueDelete(s.name("q"), false, false, false)
			c.did(err, fmt.Sprint(" ", n), "delete")
			n, err = c.QueueDelete(s.name("q"), false, false, false)
			c.did(err, fmt.Sprint(" ", n), "delete what is gone")
		}},
		{name: "queue: delete only when empty", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", nil)
			c.numbers("q", 1)
			_, err := c.QueueDelete(s.name("q"), false, true, false)
			c.did(err, "", "delete while not empty")
			c = s.channel()
			c.get("q", "noack")
			_, err = c.QueueDelete(s.name("q"), false, true, false)
			c.did(err, "", "delete when empty")
		}},
		{name: "queue: delete only when unused", play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.queue("q", "", nil)
			d.consume("q", "a", "", nil)
			_, err := c.QueueDelete(s.name("q"), true, false, false)
			c.did(err, "", "delete while used")
			c = s.channel()
			c.did(d.Cancel("a", false), "", "cancel")
			_, err = c.QueueDelete(s.name("q"), true, false, false)
			c.did(err, "", "delete when unused")
		}},
		{name: "queue: purge leaves what is out", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", nil)
			c.numbers("q", 5)
			c.get("q", "")
			d := c.get("q", "")
			n, err := c.QueuePurge(s.name("q"), false)
			c.did(err, fmt.Sprint(" ", n), "purge")
			c.look("q")
			c.nack(d.DeliveryTag, true, true)
			c.drain("q")
			_, err = c.QueuePurge(s.name("missing"), false)
			c.did(err, "", "purge what is not there")
		}},
		{name: "queue: counts are of what is ready", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", nil)
			c.numbers("q", 5)
			c.until("q", 5, 0)
			d := c.get("q", "")
			c.look("q")
			c.ack(d.DeliveryTag, false)
			c.look("q")
			c.did(c.Qos(2, 0, false), "", "qos 2")
			c.consume("q", "a", "", nil).take(2)
			c.look("q")
			c.consume("q", "b", "", nil).take(2)
			c.look("q")
		}},
		{name: "queue: deleting it tells its consumers", play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.queue("q", "", nil)
			f, g := c.consume("q", "a", "", nil), d.consume("q", "b", "", nil)
			_, err := c.QueueDelete(s.name("q"), false, false, false)
			c.did(err, "", "delete")
			s.say("cancelled %s, %s", <-c.cancels, <-d.cancels)
			f.quiet()
			g.quiet()
			c.did(c.Cancel("a", false), "", "cancel what is gone")
			c.look("q")
		}},
	}
}

// queueConflicts declare what is there with one thing changed.
func queueConflicts() []behaviour {
	var all []behaviour
	for _, other := range []struct {
		flags string
		args  amqp.Table
	}{
		{"durable", nil},
		{"autodelete", nil},
		{"exclusive", nil},
		{"", amqp.Table{"x-message-ttl": int32(1000)}},
		{"", amqp.Table{"x-expires": int32(60000)}},
		{"", amqp.Table{"x-max-length": int32(10)}},
		{"", amqp.Table{"x-max-length-bytes": int32(10)}},
		{"", amqp.Table{"x-overflow": "reject-publish"}},
		{"", amqp.Table{"x-dead-letter-exchange": "x"}},
		{"", amqp.Table{"x-max-priority": int32(10)}},
		{"", amqp.Table{"x-single-active-consumer": true}},
	} {
		what := other.flags
		for k := range other.args {
			what = k
		}
		all = append(all, behaviour{name: "queue: declared again with another " + what, play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", nil)
			c.queue("q", other.flags, other.args)
			c = s.channel()
			c.queue("r", other.flags, other.args)
			c.queue("r", "", nil)
		}})
	}
	return append(all, behaviour{name: "queue: declared again with another dead-letter key", play: func(s *scene) {
		c := s.channel()
		c.queue("q", "", amqp.Table{"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "a"})
		c.queue("q", "", amqp.Table{"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "a"})
		c.queue("q", "", amqp.Table{"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "b"})
	}})
}

// queueArguments are wrong in type or value.
func queueArguments() []behaviour {
	row := func(name string, args ...amqp.Table) behaviour {
		return behaviour{name: "queue argument: " + name, play: func(s *scene) {
			for i, a := range args {
				c := s.channel()
				c.queue(fmt.Sprint("q", i), "", a)
				_ = c.link.Close()
			}
		}}
	}
	return []behaviour{
		row("x-message-ttl", amqp.Table{"x-message-ttl": int32(-1)}, amqp.Table{"x-message-ttl": "1000"}, amqp.Table{"x-message-ttl": 1.5},
			amqp.Table{"x-message-ttl": int32(0)}, amqp.Table{"x-message-ttl": int64(1) << 40}, amqp.Table{"x-message-ttl": true}, amqp.Table{"x-message-ttl": nil}),
		row("x-expires", amqp.Table{"x-expires": int32(0)}, amqp.Table{"x-expires": int32(-1)}, amqp.Table{"x-expires": "1000"}, amqp.Table{"x-expires": int64(1) << 40}),
		row("x-max-length", amqp.Table{"x-max-length": int32(-1)}, amqp.Table{"x-max-length": "5"}, amqp.Table{"x-max-length": int32(0)}, amqp.Table{"x-max-length": int64(1) << 40}),
		row("x-max-length-bytes", amqp.Table{"x-max-length-bytes": int32(-1)}, amqp.Table{"x-max-length-bytes": "5"}, amqp.Table{"x-max-length-bytes": int32(0)}),
		row("x-overflow", amqp.Table{"x-overflow": "no-such"}, amqp.Table{"x-overflow": int32(1)}, amqp.Table{"x-overflow": "drop-head"}, amqp.Table{"x-overflow": "reject-publish-dlx"}),
		row("dead letters", amqp.Table{"x-dead-letter-exchange": int32(1)}, amqp.Table{"x-dead-letter-routing-key": "k"},
			amqp.Table{"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": int32(1)}),
		row("x-max-priority", amqp.Table{"x-max-priority": int32(-1)}, amqp.Table{"x-max-priority": "5"}, amqp.Table{"x-max-priority": int32(255)}, amqp.Table{"x-max-priority": int32(256)}),
		differs(row("x-max-priority of 0", amqp.Table{"x-max-priority": int32(0)}), `queue "q0" : channel closed with 406 for 50.10`),
		row("x-single-active-consumer", amqp.Table{"x-single-active-consumer": "yes"}, amqp.Table{"x-single-active-consumer": int32(1)}, amqp.Table{"x-single-active-consumer": false}),
		row("x-queue-type", amqp.Table{"x-queue-type": "classic"}, amqp.Table{"x-queue-type": "no-such"}, amqp.Table{"x-queue-type": int32(1)}),
		row("x-queue-mode", amqp.Table{"x-queue-mode": "lazy"}, amqp.Table{"x-queue-mode": "default"}, amqp.Table{"x-queue-mode": "no-such"}),
		row("without x-", amqp.Table{"colour": "red", "deep": amqp.Table{"a": []any{int32(1), "b"}}}),
		differs(row("an unknown x-", amqp.Table{"x-no-such": "red"}), `queue "q0" : channel closed with 406 for 50.10`),
	}
}

// exclusiveBehaviours are about queues that belong to one connection.
func exclusiveBehaviours() []behaviour {
	all := []behaviour{
		{name: "exclusive queue: goes with its connection", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "exclusive", nil)
			c.queue("q", "exclusive", nil)
			other := s.on(c.link)
			other.consume("q", "a", "noack", nil)
			other.publish("", "q", "1")
			other.did(c.Close(), "", "close the declaring channel")
			other.look("q")
			other.did(c.link.Close(), "", "close the connection")
			s.gone("q")
		}},
		{name: "exclusive queue: others may publish to it", play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.queue("q", "exclusive", nil)
			d.confirmMode()
			d.publish("", "q", "from another")
			d.confirmed(1)
			c.drain("q")
		}},
	}
	for _, what := range []string{"declare", "look", "get", "consume", "bind", "unbind", "purge", "delete"} {
		all = append(all, behaviour{name: "exclusive queue: another connection cannot " + what, play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.queue("q", "exclusive", nil)
			c.bind("q", "k", "amq.direct", nil)
			var err error
			switch what {
			case "declare":
				d.queue("q", "exclusive", nil)
				return
			case "look":
				d.look("q")
				return
			case "get":
				d.get("q", "noack")
				return
			case "consume":
				d.consume("q", "a", "", nil)
				return
			case "bind":
				d.bind("q", "k", "amq.direct", nil)
				return
			case "unbind":
				d.unbind("q", "k", "amq.direct", nil)
				return
			case "purge":
				_, err = d.QueuePurge(s.name("q"), false)
			case "delete":
				_, err = d.QueueDelete(s.name("q"), false, false, false)
			}
			d.did(err, "", "%s", what)
		}})
	}
	return all
}
