package e2e

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// timeBehaviours are about messages whose time is up.
func timeBehaviours() []behaviour {
	return []behaviour{
		{name: "ttl: 0 without a consumer is gone at once", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", ttl("0"))
			c.get("q", "noack")
			c.look("q")
		}},
		{name: "ttl: 0 reaches a consumer that waits", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			f := c.consume("q", "a", "noack", nil)
			c.publish("", "q", "1", ttl("0"))
			f.next()
		}},
		{name: "ttl: a queue's 0", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-message-ttl": int32(0)})
			c.publish("", "q", "nobody")
			c.get("q", "noack")
			f := c.consume("q", "a", "noack", nil)
			c.publish("", "q", "somebody")
			f.next()
		}},
		{name: "ttl: the shorter of queue's and message's", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-message-ttl": int32(60)})
			c.confirmMode()
			c.publish("", "q", "queue's", ttl("600000"))
			c.confirmed(1)
			c.until("q", 0, 0)
			c.declare("r", amqp.Table{"x-message-ttl": int32(600000)})
			c.publish("", "r", "message's", ttl("60"))
			c.confirmed(1)
			c.until("r", 0, 0)
		}},
		{name: "ttl: not before its time", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.confirmMode()
			begin := time.Now()
			c.publish("", "q", "1", ttl("400"))
			c.confirmed(1)
			c.until("q", 0, 0)
			s.say("in time: %v", time.Since(begin) >= 390*time.Millisecond)
		}},
		{name: "ttl: behind the head", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "head")
			c.publish("", "q", "behind", ttl("30"))
			c.tick("200")
			c.drain("q")
		}},
		{name: "ttl: a message that is out does not expire", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", ttl("300"))
			d := c.get("q", "")
			c.tick("500")
			c.ack(d.DeliveryTag, false)
			c.look("q")
		}},
		{name: "ttl: a message that comes back late expires", play: func(s *scene) {
			c := buried(s, nil)
			c.publish("", "q", "1", ttl("300"))
			d := c.get("q", "")
			c.tick("500")
			c.reject(d.DeliveryTag, true)
			c.arrive("dead")
		}},
		{name: "ttl: what the consumer is told", here: []string{`drain "q": #2 "2" of "" key "q" expiration="60000"`}, play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", ttl("60000"))
			c.publish("", "q", "2", ttl("0060000"))
			c.drain("q")
		}},
		{name: "ttl: a long one", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "49 days", ttl("4233600000"))
			c.until("q", 1, 0)
		}},
		{name: "ttl: of a queue that is declared again", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", amqp.Table{"x-message-ttl": int32(0)})
			c.queue("q", "", amqp.Table{"x-message-ttl": int32(1)})
		}},
	}
}

// expiryBehaviours are about queues that nobody uses.
func expiryBehaviours() []behaviour {
	return []behaviour{
		{name: "expires: a queue that nobody uses", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", amqp.Table{"x-expires": int32(100)})
			c.vanish("q")
		}},
		{name: "expires: its messages are not buried", play: func(s *scene) {
			c := buried(s, amqp.Table{"x-expires": int32(100)})
			c.numbers("q", 3)
			c.vanish("q")
			c.look("dead")
		}},
		{name: "expires: not while it is consumed", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", amqp.Table{"x-expires": int32(150)})
			c.consume("q", "a", "", nil)
			c.queue("other", "", amqp.Table{"x-expires": int32(400)})
			c.vanish("other")
			c.look("q")
			c.did(c.Cancel("a", false), "", "cancel")
			c.vanish("q")
		}},
		{name: "expires: get and declare put it off, publish does not", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "", amqp.Table{"x-expires": int32(2000)})
			c.queue("r", "", amqp.Table{"x-expires": int32(2000)})
			for range 5 {
				c.tick("500")
				_, _, err := c.Get(s.name("q"), true)
				c.did(err, "", "get")
				c.publish("", "r", "1")
			}
			c.vanish("r")
			c.vanish("q")
		}},
	}
}

// lengthBehaviours are about queues that are full.
func lengthBehaviours() []behaviour {
	return []behaviour{
		{name: "overflow: drop-head keeps the latest", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(3)})
			c.confirmMode()
			c.numbers("q", 5)
			c.confirmed(5)
			c.drain("q")
		}},
		{name: "overflow: bytes of bodies count", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length-bytes": int32(10)})
			c.confirmMode()
			for _, body := range []string{"1234", "123456", "1", "", "12345678901", "12"} {
				c.publish("", "q", body, headers(amqp.Table{"padding": strings.Repeat("x", 50)}))
				c.confirmed(1)
				c.look("q")
			}
			c.drain("q")
		}},
		{name: "overflow: bytes, refused", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length-bytes": int32(10), "x-overflow": "reject-publish"})
			c.confirmMode()
			for _, body := range []string{"12345", "12345", "1", "12"} {
				c.publish("", "q", body)
				c.confirmed(1)
			}
			c.drain("q")
		}},
		{name: "overflow: whichever limit comes first", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(3), "x-max-length-bytes": int32(6)})
			c.confirmMode()
			for _, body := range []string{"1", "2", "3", "4", "5555", "6"} {
				c.publish("", "q", body)
				c.confirmed(1)
				c.look("q")
			}
			c.drain("q")
		}},
		{name: "overflow: a length of 0", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(0)})
			c.publish("", "q", "nobody")
			c.get("q", "noack")
			f := c.consume("q", "a", "noack", nil)
			c.publish("", "q", "somebody")
			f.next()
		}},
		{name: "overflow: what is out does not count", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(2)})
			c.numbers("q", 2)
			c.get("q", "")
			c.get("q", "")
			c.publish("", "q", "3")
			c.publish("", "q", "4")
			c.until("q", 2, 0)
			c.nack(2, true, true)
			c.drain("q")
		}},
		{name: "overflow: what comes back is over the limit", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"})
			c.numbers("q", 2)
			c.get("q", "")
			c.publish("", "q", "3")
			c.nack(1, false, true)
			c.until("q", 3, 0)
			c.confirmMode()
			c.publish("", "q", "4")
			c.confirmed(1)
			c.drain("q")
		}},
		{name: "overflow: a consumer that keeps up", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(1)})
			f := c.consume("q", "a", "noack", nil)
			for i := range 5 {
				c.publish("", "q", fmt.Sprint(i))
				f.next()
			}
		}},
		{name: "overflow: refused, in a transaction", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
			c.numbers("q", 1)
			c.until("q", 1, 0)
			c.did(c.Tx(), "", "tx.select")
			c.publish("", "q", "too many")
			c.did(c.TxCommit(), "", "commit")
			s.channel().drain("q")
		}},
	}
}

// priorityBehaviours are about x-max-priority.
func priorityBehaviours() []behaviour {
	mixed := func(c *channel, queue string, ps ...uint8) {
		for i, p := range ps {
			c.publish("", queue, fmt.Sprintf("%d-p%d", i, p), priority(p))
		}
	}
	start := func(s *scene, args amqp.Table) *channel {
		c := s.channel()
		c.declare("q", args)
		return c
	}
	ten := amqp.Table{"x-max-priority": int32(10)}
	return []behaviour{
		{name: "priority: the higher first, then as published", play: func(s *scene) {
			c := start(s, ten)
			mixed(c, "q", 0, 5, 1, 5, 10, 0, 9)
			c.drain("q")
		}},
		{name: "priority: above the queue's is the queue's", play: func(s *scene) {
			c := start(s, amqp.Table{"x-max-priority": int32(3)})
			mixed(c, "q", 3, 200, 4, 2)
			c.drain("q")
		}},
		{name: "priority: none is 0", play: func(s *scene) {
			c := start(s, ten)
			mixed(c, "q", 0)
			c.publish("", "q", "none")
			mixed(c, "q", 0, 1)
			c.drain("q")
		}},
		{name: "priority: a plain queue does not regard it", play: func(s *scene) {
			c := start(s, nil)
			mixed(c, "q", 0, 9, 5)
			c.drain("q")
		}},
		{name: "priority: what comes back keeps its place", play: func(s *scene) {
			c := start(s, ten)
			mixed(c, "q", 1, 5, 1, 5, 9)
			for range 4 {
				c.get("q", "")
			}
			mixed(c, "q", 5, 1)
			c.nack(4, true, true)
			c.drain("q")
		}},
		{name: "priority: with a window of 1", play: func(s *scene) {
			c := start(s, ten)
			c.did(c.Qos(1, 0, false), "", "qos 1")
			mixed(c, "q", 1, 2, 3)
			f := c.consume("q", "a", "", nil)
			d := f.next()
			mixed(c, "q", 9, 2)
			c.until("q", 4, 1)
			for range 4 {
				c.ack(d.DeliveryTag, false)
				d = f.next()
			}
			f.quiet()
		}},
		{name: "priority: with a window of 3", play: func(s *scene) {
			c := start(s, ten)
			c.did(c.Qos(3, 0, false), "", "qos 3")
			mixed(c, "q", 1, 2, 3, 1, 2)
			f := c.consume("q", "a", "", nil)
			f.take(3)
			mixed(c, "q", 9)
			c.until("q", 3, 1)
			c.ack(1, false)
			f.next()
			f.quiet()
			c.nack(2, false, true)
			f.next()
		}},
		{name: "priority: a full queue drops", here: []string{
			`drain "q": #1 "2-p9" of "" key "q" priority=9`, `drain "q": #2 "0-p5" of "" key "q" priority=5`,
			`drain "q": #3 "4-p5" of "" key "q" priority=5`,
		}, play: func(s *scene) {
			c := start(s, amqp.Table{"x-max-priority": int32(10), "x-max-length": int32(3)})
			mixed(c, "q", 5, 1, 9, 1, 5)
			c.drain("q")
		}},
		{name: "priority: a full queue that rejects", play: func(s *scene) {
			c := start(s, amqp.Table{"x-max-priority": int32(10), "x-max-length": int32(2), "x-overflow": "reject-publish"})
			c.confirmMode()
			mixed(c, "q", 1, 1, 9)
			c.confirmed(3)
			c.drain("q")
		}},
		{name: "priority: time counts on every level", play: func(s *scene) {
			c := start(s, ten)
			c.publish("", "q", "low", priority(1), ttl("50"))
			c.publish("", "q", "high", priority(9))
			c.publish("", "q", "high too", priority(9), ttl("600000"))
			c.tick("150")
			c.drain("q")
		}},
		{name: "priority: purge takes all levels", play: func(s *scene) {
			c := start(s, ten)
			mixed(c, "q", 0, 5, 10)
			n, err := c.QueuePurge(s.name("q"), false)
			c.did(err, fmt.Sprint(" ", n), "purge")
			c.drain("q")
		}},
		{name: "priority: the property is kept as it was", play: func(s *scene) {
			c := start(s, amqp.Table{"x-max-priority": int32(2)})
			c.publish("", "q", "255", priority(255))
			c.get("q", "noack")
		}},
	}
}

// activeBehaviours are about x-single-active-consumer.
func activeBehaviours() []behaviour {
	start := func(s *scene) *channel {
		c := s.channel()
		c.declare("q", amqp.Table{"x-single-active-consumer": true})
		return c
	}
	return []behaviour{
		{name: "single active consumer: the first gets all", play: func(s *scene) {
			c := start(s)
			f, g := c.consume("q", "a", "noack", nil), c.consume("q", "b", "noack", nil)
			c.numbers("q", 4)
			f.take(4)
			g.quiet()
			c.look("q")
		}},
		{name: "single active consumer: the next one at a cancel", play: func(s *scene) {
			c := start(s)
			f, g := c.consume("q", "a", "noack", nil), c.consume("q", "b", "noack", nil)
			h := c.consume("q", "c", "noack", nil)
			c.numbers("q", 1)
			f.take(1)
			c.did(c.Cancel("a", false), "", "cancel a")
			c.numbers("q", 2)
			g.take(2)
			c.did(c.Cancel("b", false), "", "cancel b")
			c.numbers("q", 1)
			h.take(1)
		}},
		{name: "single active consumer: the next one gets what the lost one had", play: func(s *scene) {
			c, lost := start(s), s.channel()
			f := lost.consume("q", "a", "", nil)
			g := c.consume("q", "b", "", nil)
			c.numbers("q", 3)
			f.take(3)
			lost.ack(1, false)
			lost.did(lost.Close(), "", "close")
			g.take(2)
			g.quiet()
		}},
		{name: "single active consumer: with a window", play: func(s *scene) {
			c := start(s)
			c.did(c.Qos(1, 0, false), "", "qos 1")
			f, g := c.consume("q", "a", "", nil), c.consume("q", "b", "", nil)
			c.numbers("q", 3)
			f.take(1)
			g.quiet()
			c.ack(1, false)
			f.take(1)
		}},
		{name: "single active consumer: a cancel with messages out", play: func(s *scene) {
			c := start(s)
			f, g := c.consume("q", "a", "", nil), c.consume("q", "b", "", nil)
			c.numbers("q", 2)
			f.take(2)
			c.did(c.Cancel("a", false), "", "cancel a")
			c.numbers("q", 1)
			g.take(1)
			c.nack(1, false, true)
			g.take(1)
		}},
		{name: "single active consumer: not exclusive", play: func(s *scene) {
			c := start(s)
			c.consume("q", "a", "exclusive", nil)
		}},
		{name: "single active consumer: get stays out", play: func(s *scene) {
			c := start(s)
			c.consume("q", "a", "", nil).c.numbers("q", 0)
			c.get("q", "noack")
		}},
		{name: "single active consumer: a higher x-priority later", play: func(s *scene) {
			c := start(s)
			f := c.consume("q", "a", "noack", nil)
			g := c.consume("q", "b", "noack", amqp.Table{"x-priority": int32(10)})
			c.numbers("q", 2)
			f.take(2)
			g.quiet()
			c.did(c.Cancel("a", false), "", "cancel a")
			c.numbers("q", 1)
			g.take(1)
		}},
	}
}
