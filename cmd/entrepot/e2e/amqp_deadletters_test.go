package e2e

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// buried declares queue "q" with more arguments, whose dead letters go by way
// of exchange "dlx" to queue "dead".
func buried(s *scene, more amqp.Table) *channel {
	c := s.channel()
	if err := c.ExchangeDeclare(s.name("dlx"), "fanout", false, false, false, false, nil); err != nil {
		s.cut("dlx: %v", err)
	}
	c.declare("dead", nil)
	c.bind("dead", "", "dlx", nil)
	args := amqp.Table{"x-dead-letter-exchange": "dlx"}
	for k, v := range more {
		args[k] = v
	}
	c.declare("q", args)
	return c
}

// deathBehaviours are about why messages die, and what tells of it.
func deathBehaviours() []behaviour {
	rich := func(p *amqp.Publishing) {
		p.ContentType, p.CorrelationId, p.Headers = "text/plain", "7", amqp.Table{"kept": "yes"}
	}
	return []behaviour{
		{name: "dead letter: rejected", play: func(s *scene) {
			c := buried(s, nil)
			c.publish("", "q", "1", rich)
			c.reject(c.get("q", "").DeliveryTag, false)
			c.arrive("dead")
			c.look("q")
		}},
		{name: "dead letter: headers of the last death", here: []string{"last death: q of  rejected"}, play: func(s *scene) {
			c := buried(s, nil)
			c.publish("", "q", "1")
			c.reject(c.get("q", "").DeliveryTag, false)
			d := c.arrive("dead")
			s.say("last death: %v of %v %v", d.Headers[lastDeath+"queue"], d.Headers[lastDeath+"exchange"], d.Headers[lastDeath+"reason"])
		}},
		{name: "dead letter: nack of several keeps their order", play: func(s *scene) {
			c := buried(s, nil)
			c.numbers("q", 5)
			for range 5 {
				c.get("q", "")
			}
			c.nack(4, true, false)
			for range 4 {
				c.arrive("dead")
			}
			c.ack(5, false)
			c.look("dead")
		}},
		{name: "dead letter: expired by its own time", play: func(s *scene) {
			c := buried(s, nil)
			c.publish("", "q", "1", rich, func(p *amqp.Publishing) { p.Expiration = "30" })
			c.arrive("dead")
		}},
		{name: "dead letter: expired by the queue's time", play: func(s *scene) {
			c := buried(s, amqp.Table{"x-message-ttl": int32(30)})
			c.publish("", "q", "1", rich)
			c.arrive("dead")
		}},
		{name: "dead letter: pushed out at the head", play: func(s *scene) {
			c := buried(s, amqp.Table{"x-max-length": int32(2)})
			c.numbers("q", 4)
			c.arrive("dead")
			c.arrive("dead")
			c.drain("q")
		}},
		{name: "dead letter: refused by a full queue", play: func(s *scene) {
			c := buried(s, amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish-dlx"})
			c.confirmMode()
			c.numbers("q", 4)
			c.confirmed(4)
			c.arrive("dead")
			c.arrive("dead")
			c.drain("q")
		}},
		{name: "dead letter: a plain reject-publish buries nothing", play: func(s *scene) {
			c := buried(s, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
			c.confirmMode()
			c.numbers("q", 2)
			c.confirmed(2)
			c.look("dead")
		}},
		{name: "dead letter: a key of its own", play: func(s *scene) {
			c := buried(s, amqp.Table{"x-dead-letter-routing-key": "grave"})
			c.publish("", "q", "1")
			c.reject(c.get("q", "").DeliveryTag, false)
			c.arrive("dead")
		}},
		{name: "dead letter: over the default exchange, by key", play: func(s *scene) {
			c := s.channel()
			c.declare("dead", nil)
			c.queue("q", "", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
			c.publish("", "q", "1")
			c.reject(c.get("q", "").DeliveryTag, false)
			c.arrive("dead")
		}},
		{name: "dead letter: CC goes along without a key, not with one", play: func(s *scene) {
			c := s.channel()
			c.exchange("dlx", "direct", "", nil)
			c.declare("dead", nil)
			c.bind("dead", "copy", "dlx", nil)
			c.bind("dead", "grave", "dlx", nil)
			for _, args := range []amqp.Table{{"x-dead-letter-exchange": "dlx"}, {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "grave"}} {
				name := fmt.Sprint("q", len(args))
				c.declare(name, args)
				c.publish("", name, "1", headers(amqp.Table{"CC": []any{"copy"}, "BCC": []any{"hidden"}}))
				c.reject(c.get(name, "").DeliveryTag, false)
				c.arrive("dead")
			}
		}},
		{name: "dead letter: no requeue is no death", play: func(s *scene) {
			c := buried(s, nil)
			c.publish("", "q", "1")
			c.reject(c.get("q", "").DeliveryTag, true)
			c.get("q", "noack")
			c.look("dead")
		}},
		{name: "dead letter: purge and delete bury nothing", play: func(s *scene) {
			c := buried(s, nil)
			c.numbers("q", 2)
			_, err := c.QueuePurge(s.name("q"), false)
			c.did(err, "", "purge")
			c.numbers("q", 2)
			_, err = c.QueueDelete(s.name("q"), false, false, false)
			c.did(err, "", "delete")
			c.look("dead")
		}},
		{name: "dead letter: without a dead-letter exchange it is gone", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1")
			c.reject(c.get("q", "").DeliveryTag, false)
			c.look("q")
		}},
	}
}

// graveBehaviours are about where dead letters go, and how often.
func graveBehaviours() []behaviour {
	const once = `headers={x-death=[={count=int64(1) exchange="" queue="q" reason="rejected" routing-keys=["q"] time=now}] ` +
		`x-first-death-exchange="" x-first-death-queue="q" x-first-death-reason="rejected"}`
	return []behaviour{
		{name: "dead letter: published again, with its history", here: []string{
			`get "q": #3 "1" of "" key "q", 0 left`, `in "dead" arrives #4 "1" of "dlx" key "q" ` + once,
			`get "q": #5 "1" of "" key "q", 0 left`, `in "dead" arrives #6 "1" of "dlx" key "q" ` + once,
		}, play: func(s *scene) {
			c := buried(s, nil)
			c.publish("", "q", "1")
			for range 3 {
				c.reject(c.get("q", "").DeliveryTag, false)
				c.publish("", "q", "1", headers(c.arrive("dead").Headers))
			}
		}},
		{name: "dead letter: from queue to queue, the latest death first", play: func(s *scene) {
			c := buried(s, nil)
			c.declare("next", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "last"})
			c.declare("last", nil)
			c.bind("next", "", "dlx", nil)
			c.publish("", "q", "1", func(p *amqp.Publishing) { p.Expiration = "30" })
			c.until("next", 1, 0)
			c.reject(c.get("next", "").DeliveryTag, false)
			c.arrive("last")
		}},
		{name: "dead letter: a circle of expiry ends", play: func(s *scene) {
			c := s.channel()
			c.declare("a", amqp.Table{"x-message-ttl": int32(20), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"})
			c.declare("b", amqp.Table{"x-message-ttl": int32(20), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a"})
			c.declare("fence", nil)
			c.publish("", "a", "round and round")
			c.declare("q", amqp.Table{"x-message-ttl": int32(400), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "fence"})
			c.publish("", "q", "time is up")
			c.until("fence", 1, 0)
			c.until("a", 0, 0)
			c.until("b", 0, 0)
		}},
		{name: "dead letter: a circle with a reject goes on", play: func(s *scene) {
			c := s.channel()
			c.declare("wait", amqp.Table{"x-message-ttl": int32(20), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"})
			c.declare("work", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
			f := c.consume("work", "a", "", nil)
			c.publish("", "work", "retry")
			for range 4 {
				c.reject(f.next().DeliveryTag, false)
			}
			f.next()
		}},
		{name: "dead letter: back to its own queue at once", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
			f := c.consume("q", "a", "", nil)
			c.publish("", "q", "1")
			c.reject(f.next().DeliveryTag, false)
			c.reject(f.next().DeliveryTag, false)
			f.next()
		}},
		{name: "dead letter: expired, back to its own queue", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-message-ttl": int32(20), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
			c.publish("", "q", "1")
			c.until("q", 0, 0)
		}},
		{name: "dead letter: a missing exchange", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-dead-letter-exchange": "missing"})
			c.numbers("q", 1)
			c.reject(c.get("q", "").DeliveryTag, false)
			c.look("q")
		}},
		{name: "dead letter: an exchange that comes later", here: []string{`drain "dead": #2 "1" of "later" key "q" ` + once, `drain "dead": ok, empty`},
			play: func(s *scene) {
				c := s.channel()
				c.declare("q", amqp.Table{"x-dead-letter-exchange": "later"})
				c.declare("dead", nil)
				c.numbers("q", 1)
				c.reject(c.get("q", "").DeliveryTag, false)
				c.tick("50")
				c.exchange("later", "fanout", "", nil)
				c.bind("dead", "", "later", nil)
				c.tick("700")
				c.drain("dead")
			}},
		{name: "dead letter: an exchange without a route", play: func(s *scene) {
			c := s.channel()
			c.exchange("dlx", "direct", "", nil)
			c.declare("q", amqp.Table{"x-dead-letter-exchange": "dlx"})
			c.numbers("q", 1)
			c.reject(c.get("q", "").DeliveryTag, false)
			c.look("q")
		}},
		{name: "dead letter: the grave's time and priority count", play: func(s *scene) {
			c := s.channel()
			c.declare("dead", amqp.Table{"x-max-priority": int32(5)})
			c.declare("q", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
			c.publish("", "q", "low", priority(1))
			c.publish("", "q", "high", priority(4))
			for range 2 {
				c.get("q", "")
			}
			c.nack(2, true, false)
			c.until("dead", 2, 0)
			c.drain("dead")
		}},
		{name: "dead letter: a persistent message stays one", users: true, play: func(s *scene) {
			c := buried(s, nil)
			c.publish("", "q", "1", persistent, func(p *amqp.Publishing) {
				p.Timestamp, p.MessageId, p.Type, p.AppId, p.UserId, p.ReplyTo = time.Unix(1600000000, 0), "m", "t", "a", "guest", "r"
			})
			c.reject(c.get("q", "").DeliveryTag, false)
			c.arrive("dead")
		}},
	}
}

// limitBehaviours are about messages that are delivered too often.
func limitBehaviours() []behaviour {
	return []behaviour{
		{name: "delivery limit: too many rejects with requeue", here: []string{
			`a gets #2 "poison" of "" key "q" redelivered`, `a gets #3 "poison" of "" key "q" redelivered`,
		}, play: func(s *scene) {
			c := s.channel()
			c.declare("dead", nil)
			c.queue("q", "durable", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
			f := c.consume("q", "a", "", nil)
			c.publish("", "q", "poison")
			for range 3 {
				c.nack(f.next().DeliveryTag, false, true)
			}
			c.arrive("dead")
			f.quiet()
		}},
		{name: "delivery limit: a lost consumer counts", here: []string{`a gets #1 "poison" of "" key "q" redelivered`}, play: func(s *scene) {
			c := s.channel()
			c.declare("dead", nil)
			c.queue("q", "durable", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
			c.publish("", "q", "poison")
			for range 2 {
				w := s.channel()
				w.consume("q", "a", "", nil).next()
				_ = w.link.tap.Conn.Close()
			}
			c.arrive("dead")
		}},
	}
}
