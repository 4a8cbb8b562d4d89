package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// consumeBehaviours are about consumers.
func consumeBehaviours() []behaviour {
	return []behaviour{
		{name: "consume: a missing queue", play: func(s *scene) { s.channel().consume("missing", "a", "", nil) }},
		{name: "consume: a tag twice on a channel", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.consume("q", "a", "", nil)
			other := s.on(c.link)
			other.consume("q", "a", "", nil)
			c.consume("q", "a", "", nil)
		}},
		{name: "consume: a tag again after its cancel", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.consume("q", "a", "", nil)
			c.did(c.Cancel("a", false), "", "cancel")
			c.did(c.Cancel("a", false), "", "cancel again")
			c.did(c.Cancel("never", false), "", "cancel what never was")
			f := c.consume("q", "a", "noack", nil)
			c.publish("", "q", "1")
			f.next()
		}},
		{name: "consume: the tag of who gives none", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1")
			// The library makes up a tag, so the frame is written here:
			// ticket, queue, tag, no-ack and no-wait, arguments.
			queue := s.name("q")
			frame := append([]byte{0, 60, 0, 20, 0, 0, byte(len(queue))}, queue...)
			if err := c.link.tap.frame(methodFrame, 1, append(frame, 0, 2|8, 0, 0, 0, 0)...); err != nil {
				s.cut("%v", err)
			}
			c.until("q", 0, 1)
		}},
		{name: "cancel: what is out stays out", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.numbers("q", 3)
			c.did(c.Qos(2, 0, false), "", "qos 2")
			f := c.consume("q", "a", "", nil)
			f.next()
			d := f.next()
			c.did(c.Cancel("a", false), "", "cancel")
			f.quiet()
			c.look("q")
			c.ack(d.DeliveryTag, true)
			c.drain("q")
		}},
		{name: "consume: an exclusive consumer keeps others out", play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.declare("q", nil)
			c.consume("q", "a", "exclusive", nil)
			d.consume("q", "b", "", nil)
			d = s.channel()
			d.consume("q", "b", "exclusive", nil)
			d = s.channel()
			d.publish("", "q", "1")
			d.get("q", "noack")
			c.did(c.Cancel("a", false), "", "cancel")
			d = s.channel()
			d.consume("q", "b", "", nil)
			c.consume("q", "a", "exclusive", nil)
		}},
		{name: "consume: no-local", here: []string{
			`consume "q" as "a" nolocal noack: connection closed with 540 for 60.20`, "CUT: consumer a gets nothing",
		}, play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			f := c.consume("q", "a", "nolocal noack", nil)
			c.publish("", "q", "my own")
			f.next()
		}},
		{name: "consume: in turn", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			f, g := c.consume("q", "a", "noack", nil), c.consume("q", "b", "noack", nil)
			c.numbers("q", 10)
			f.take(5)
			g.take(5)
			f.quiet()
			g.quiet()
		}},
		{name: "consume: the higher x-priority first", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.did(c.Qos(2, 0, false), "", "qos 2")
			f := c.consume("q", "low", "", nil)
			g := c.consume("q", "high", "", amqp.Table{"x-priority": int32(5)})
			c.numbers("q", 5)
			g.take(2)
			f.take(2)
			d := g.c.get("q", "")
			c.ack(d.DeliveryTag, true)
			c.numbers("q", 2)
			g.take(2)
			f.quiet()
		}},
		{name: "consume: an x-priority that is no number", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.consume("q", "a", "", amqp.Table{"x-priority": "high"})
		}},
		{name: "consume: an x-priority below 0", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			f := c.consume("q", "low", "noack", amqp.Table{"x-priority": int32(-5)})
			g := c.consume("q", "usual", "noack", nil)
			c.numbers("q", 3)
			g.take(3)
			f.quiet()
		}},
	}
}

// getBehaviours are about taking one message.
func getBehaviours() []behaviour {
	return []behaviour{
		{name: "get: empty, one, and what is left", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.get("q", "")
			c.numbers("q", 3)
			c.get("q", "noack")
			d := c.get("q", "")
			c.reject(d.DeliveryTag, true)
			d = c.get("q", "")
			c.ack(d.DeliveryTag, false)
			c.get("q", "noack")
			c.get("q", "noack")
			c.get("missing", "noack")
		}},
		{name: "get: beside a consumer whose window is full", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.did(c.Qos(1, 0, false), "", "qos 1")
			f := c.consume("q", "a", "", nil)
			c.numbers("q", 2)
			d := f.next()
			c.get("q", "noack")
			c.ack(d.DeliveryTag, false)
			f.quiet()
		}},
		{name: "delivery tags: each channel counts for itself", play: func(s *scene) {
			c := s.channel()
			other := s.on(c.link)
			c.declare("q", nil)
			c.numbers("q", 4)
			c.get("q", "")
			c.get("q", "noack")
			other.get("q", "")
			c.get("q", "")
		}},
	}
}

// settleBehaviours are about tags.
func settleBehaviours() []behaviour {
	// out has five messages out on a channel, for a behaviour to settle.
	out := func(s *scene) *channel {
		c := s.channel()
		c.declare("q", nil)
		c.numbers("q", 5)
		for range 5 {
			c.get("q", "")
		}
		return c
	}
	// left shows what is back in the queue when the channel ends, so many.
	left := func(c *channel, n int) {
		_ = c.Close()
		d := c.s.channel()
		d.until("q", n, 0)
		d.drain("q")
	}
	return []behaviour{
		{name: "ack: one in the middle", play: func(s *scene) { c := out(s); c.ack(3, false); left(c, 4) }},
		{name: "ack: up to one", play: func(s *scene) { c := out(s); c.ack(3, true); left(c, 2) }},
		{name: "ack: up to one, some of which are settled", play: func(s *scene) { c := out(s); c.ack(2, false); c.ack(4, true); left(c, 1) }},
		{name: "ack: multiple 0 is all", play: func(s *scene) { c := out(s); c.ack(0, true); left(c, 0) }},
		{name: "ack: multiple 0 with nothing out", play: func(s *scene) {
			c := s.channel()
			c.ack(0, true)
			c.declare("q", nil)
			c.look("q")
		}},
		{name: "ack: 0 alone", play: func(s *scene) { c := out(s); c.ack(0, false); c.end(); left(c, 5) }},
		{name: "ack: twice", play: func(s *scene) { c := out(s); c.ack(2, false); c.ack(2, false); c.end(); left(c, 4) }},
		{name: "ack: a tag that never was", play: func(s *scene) { c := out(s); c.ack(9, false); c.end(); left(c, 5) }},
		{name: "ack: up to a tag that never was", play: func(s *scene) { c := out(s); c.ack(9, true); c.end(); left(c, 5) }},
		{name: "ack: what needs none", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.numbers("q", 1)
			d := c.get("q", "noack")
			c.ack(d.DeliveryTag, false)
			c.end()
		}},
		{name: "ack: the tag of another channel", play: func(s *scene) {
			c := out(s)
			other := s.on(c.link)
			other.ack(1, false)
			other.end()
			left(c, 5)
		}},
		{name: "reject: to drop", play: func(s *scene) { c := out(s); c.reject(2, false); left(c, 4) }},
		{name: "reject: twice", play: func(s *scene) { c := out(s); c.reject(2, false); c.reject(2, true); c.end(); left(c, 4) }},
		{name: "nack: up to one, to drop", play: func(s *scene) { c := out(s); c.nack(3, true, false); left(c, 2) }},
		{name: "nack: multiple 0 is all", play: func(s *scene) { c := out(s); c.nack(0, true, false); left(c, 0) }},
		{name: "nack: a tag that never was", play: func(s *scene) { c := out(s); c.nack(9, false, true); c.end(); left(c, 5) }},
		{name: "ack: after its consumer's cancel", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.numbers("q", 1)
			d := c.consume("q", "a", "", nil).next()
			c.did(c.Cancel("a", false), "", "cancel")
			c.ack(d.DeliveryTag, false)
			left(c, 0)
		}},
	}
}

// requeueBehaviours show the order of what comes back, and the mark.
func requeueBehaviours() []behaviour {
	row := func(name string, back func(c *channel)) behaviour {
		return behaviour{name: "requeue order: " + name, play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.numbers("q", 6)
			for range 4 {
				c.get("q", "")
			}
			back(c)
			d := s.channel()
			d.until("q", 6, 0)
			d.drain("q")
		}}
	}
	return []behaviour{
		row("nack one by one, backwards", func(c *channel) {
			for tag := range 4 {
				c.nack(uint64(4-tag), false, true)
			}
		}),
		row("nack all", func(c *channel) { c.nack(4, true, true) }),
		row("reject, mixed", func(c *channel) {
			for _, tag := range []uint64{2, 4, 1, 3} {
				c.reject(tag, true)
			}
		}),
		row("recover", func(c *channel) { c.did(c.recovers(true), "", "recover") }),
		row("the channel closes", func(c *channel) { c.did(c.Close(), "", "close") }),
		row("the channel breaks", func(c *channel) { c.ack(77, false); c.end() }),
		row("the connection closes", func(c *channel) { c.did(c.link.Close(), "", "close") }),
		row("the connection is cut", func(c *channel) { _ = c.link.tap.Conn.Close() }),
		{name: "requeue: to another consumer, marked", play: func(s *scene) {
			c, d := s.channel(), s.channel()
			c.declare("q", nil)
			c.numbers("q", 2)
			f := c.consume("q", "a", "", nil)
			f.take(2)
			g := d.consume("q", "b", "", nil)
			c.did(c.Close(), "", "close")
			g.take(2)
		}},
		{name: "requeue: to the only consumer, again and again", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.numbers("q", 1)
			f := c.consume("q", "a", "", nil)
			for range 5 {
				c.nack(f.next().DeliveryTag, false, true)
			}
			c.ack(f.next().DeliveryTag, false)
			f.quiet()
		}},
		{name: "requeue: recover brings it to the consumer again", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.numbers("q", 2)
			f := c.consume("q", "a", "", nil)
			f.take(2)
			c.did(c.recovers(true), "", "recover")
			f.take(2)
		}},
		{name: "recover: without requeue", play: func(s *scene) {
			c := s.channel()
			c.did(c.recovers(false), "", "recover")
		}},
	}
}

// filled is a channel, and n messages in queue "q".
func filled(s *scene, n int) *channel {
	c := s.channel()
	c.declare("q", nil)
	c.numbers("q", n)
	return c
}

// windowBehaviours are about prefetch.
func windowBehaviours() []behaviour {
	return []behaviour{
		{name: "qos: each consumer has its window", play: func(s *scene) {
			c := filled(s, 10)
			c.did(c.Qos(2, 0, false), "", "qos 2")
			f := c.consume("q", "a", "", nil)
			f.take(2)
			f.quiet()
			g := c.consume("q", "b", "", nil)
			g.take(2)
			g.quiet()
			c.ack(1, false)
			f.take(1)
			f.quiet()
			c.ack(0, true)
			got := []string{}
			for range 4 {
				select {
				case d := <-f.deliveries:
					got = append(got, "a"+string(d.Body))
				case d := <-g.deliveries:
					got = append(got, "b"+string(d.Body))
				case <-time.After(amqpPatience):
				}
			}
			slices.Sort(got)
			s.say("%d more", len(got))
		}},
		{name: "qos: changed later counts for new consumers", play: func(s *scene) {
			c := filled(s, 10)
			c.did(c.Qos(1, 0, false), "", "qos 1")
			f := c.consume("q", "a", "", nil)
			f.take(1)
			c.did(c.Qos(3, 0, false), "", "qos 3")
			f.quiet()
			g := c.consume("q", "b", "", nil)
			g.take(3)
			g.quiet()
		}},
		{name: "qos: 0 is no limit", play: func(s *scene) {
			c := filled(s, 300)
			c.did(c.Qos(0, 0, false), "", "qos 0")
			f := c.consume("q", "a", "", nil)
			for range 300 {
				<-f.deliveries
			}
			f.quiet()
			c.look("q")
		}},
	}
}

// globalBehaviours are about prefetch for a whole channel, and what has none.
func globalBehaviours() []behaviour {
	return []behaviour{
		{name: "qos: global is the channel's window", play: func(s *scene) {
			c := filled(s, 10)
			c.did(c.Qos(3, 0, true), "", "qos 3 global")
			f := c.consume("q", "a", "", nil)
			f.take(3)
			g := c.consume("q", "b", "", nil)
			f.quiet()
			g.quiet()
			other := s.on(c.link)
			h := other.consume("q", "h", "", nil)
			h.take(7)
		}},
		{name: "qos: global and for each consumer", play: func(s *scene) {
			c := filled(s, 10)
			c.did(c.Qos(2, 0, false), "", "qos 2")
			c.did(c.Qos(3, 0, true), "", "qos 3 global")
			f := c.consume("q", "a", "", nil)
			f.take(2)
			f.quiet()
			g := c.consume("q", "b", "", nil)
			g.take(1)
			g.quiet()
		}},
		{name: "qos: a global window raised, and lifted", play: func(s *scene) {
			c := filled(s, 10)
			c.did(c.Qos(1, 0, true), "", "qos 1 global")
			f := c.consume("q", "a", "", nil)
			f.take(1)
			f.quiet()
			c.did(c.Qos(3, 0, true), "", "qos 3 global")
			f.take(2)
			f.quiet()
			c.did(c.Qos(0, 0, true), "", "qos 0 global")
			f.take(7)
		}},
		{name: "qos: what needs no ack has no window", play: func(s *scene) {
			c := filled(s, 5)
			c.did(c.Qos(1, 0, false), "", "qos 1")
			c.consume("q", "a", "noack", nil).take(5)
		}},
		{name: "qos: get does not count", play: func(s *scene) {
			c := filled(s, 5)
			c.did(c.Qos(1, 0, true), "", "qos 1 global")
			c.get("q", "")
			c.get("q", "")
			f := c.consume("q", "a", "", nil)
			f.take(1)
			f.quiet()
		}},
		{name: "qos: a size is refused", play: func(s *scene) { c := s.channel(); c.did(c.Qos(0, 1000, false), "", "qos of 1000 bytes") }},
		{name: "qos: a slow consumer does not hold up a quick one", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.did(c.Qos(1, 0, false), "", "qos 1")
			f, g := c.consume("q", "slow", "", nil), c.consume("q", "quick", "", nil)
			c.numbers("q", 20)
			f.next()
			var got []string
			for range 19 {
				d := <-g.deliveries
				got = append(got, string(d.Body))
				c.ack(d.DeliveryTag, false)
			}
			s.say("quick gets %s", strings.Join(got, " "))
			f.quiet()
			s.say("%s", fmt.Sprint(len(got)))
		}},
	}
}
