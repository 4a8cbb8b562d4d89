package e2e

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// connectionBehaviours are about the connection, its frames and its channels.
func connectionBehaviours() []behaviour {
	return []behaviour{
		{name: "connection: what is announced", play: func(s *scene) {
			l := s.link()
			capabilities, _ := l.Properties["capabilities"].(amqp.Table)
			s.say("%d.%d%s", l.Major, l.Minor, table(" capabilities", capabilities))
			s.say("frame-max %d, channel-max %d", l.Config.FrameSize, l.Config.ChannelMax)
		}},
		{name: "connection: a wrong password", users: true, play: func(s *scene) {
			_, err := s.dial(func(cfg *amqp.Config) {
				cfg.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "wrong"}}
			})
			s.say("%v", err)
		}},
		{name: "connection: AMQPLAIN", users: true, play: func(s *scene) {
			l := s.link(func(cfg *amqp.Config) {
				cfg.SASL = []amqp.Authentication{&amqp.AMQPlainAuth{Username: "guest", Password: "guest"}}
			})
			s.on(l).queue("q", "", nil)
		}},
		{name: "connection: a virtual host that is not there", play: func(s *scene) {
			l, err := s.dial(func(cfg *amqp.Config) { cfg.Vhost = "no-such" })
			s.say("failed: %v, %s", err != nil, l.tap.close())
		}},
		{name: "connection: a new secret", users: true, play: func(s *scene) {
			l := s.link()
			s.say("update-secret: %v", l.UpdateSecret("guest", "test"))
			s.on(l).queue("q", "", nil)
		}},
		{name: "channel: flow", play: func(s *scene) {
			c := s.channel()
			c.did(c.Flow(true), "", "flow on")
			c.did(c.Flow(false), "", "flow off")
		}},
		{name: "heartbeat: who falls silent is cut", play: func(s *scene) {
			c := s.on(s.link(func(cfg *amqp.Config) { cfg.Heartbeat = time.Second }))
			c.queue("q", "exclusive", nil)
			c.link.tap.mute()
			begin := time.Now()
			s.gone("q")
			s.say("in time: %v", time.Since(begin) > time.Second && time.Since(begin) < 6*time.Second)
		}},
		{name: "heartbeat: who sends only heartbeats stays", play: func(s *scene) {
			c := s.on(s.link(func(cfg *amqp.Config) { cfg.Heartbeat = time.Second }))
			c.declare("q", nil)
			select {
			case err := <-c.link.ended:
				s.say("ended: %v", err)
			case <-time.After(4 * time.Second):
			}
			c.look("q")
		}},
	}
}

// frameBehaviours are about frames that no client should send.
func frameBehaviours() []behaviour {
	// publish is a basic.publish to queue "q": ticket, exchange, key, bits.
	publish := func(c *channel) []byte {
		queue := c.s.name("q")
		return append(append([]byte{0, 60, 0, 40, 0, 0, 0, byte(len(queue))}, queue...), 0)
	}
	raw := func(name string, send func(c *channel) error) behaviour {
		return behaviour{name: "frame: " + name, play: func(s *scene) {
			c := s.channel()
			if err := send(c); err != nil {
				s.cut("%v", err)
			}
			c.link.end(s)
		}}
	}
	return []behaviour{
		raw("a method on a channel that is not open", func(c *channel) error {
			return c.link.tap.frame(methodFrame, 9, 0, 60, 0, 10, 0, 0, 0, 0, 0, 1, 0)
		}),
		differs(raw("a method that is none", func(c *channel) error { return c.link.tap.frame(methodFrame, 1, 0, 60, 0, 99) }),
			"then connection closed with 503 for 60.99"),
		differs(raw("a class that is none", func(c *channel) error { return c.link.tap.frame(methodFrame, 1, 0, 66, 0, 10) }),
			"then connection closed with 503 for 66.10"),
		raw("a method of the connection on a channel", func(c *channel) error { return c.link.tap.frame(methodFrame, 1, 0, 10, 0, 40, 1, '/', 0, 0) }),
		raw("a method of a channel on the connection", func(c *channel) error { return c.link.tap.frame(methodFrame, 0, 0, 60, 0, 10, 0, 0, 0, 0, 0, 1, 0) }),
		differs(raw("a channel beyond the agreed number", func(c *channel) error { return c.link.tap.frame(methodFrame, 2048, 0, 20, 0, 10, 0) }),
			"then connection closed with 530 for 20.10"),
		raw("a table that is longer than its frame", func(c *channel) error {
			return c.link.tap.frame(methodFrame, 1, 0, 50, 0, 10, 0, 0, 1, 'q', 0, 0, 0, 1, 0)
		}),
		differs(raw("a table with a type that is none", func(c *channel) error {
			return c.link.tap.frame(methodFrame, 1, 0, 50, 0, 10, 0, 0, 1, 'q', 0, 0, 0, 0, 4, 1, 'a', '!', 0)
		}), "then connection closed with 501 for 50.10"),
		raw("a content header of another class", func(c *channel) error {
			c.declare("q", nil)
			t := c.link.tap
			if err := t.frame(methodFrame, 1, publish(c)...); err != nil {
				return err
			}
			return t.frame(2, 1, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0)
		}),
		raw("a method in the middle of a content", func(c *channel) error {
			c.declare("q", nil)
			t := c.link.tap
			if err := t.frame(methodFrame, 1, publish(c)...); err != nil {
				return err
			}
			return t.frame(methodFrame, 1, publish(c)...)
		}),
		raw("the channel is opened twice", func(c *channel) error { return c.link.tap.frame(methodFrame, 1, 0, 20, 0, 10, 0) }),
		raw("a method cut short", func(c *channel) error { return c.link.tap.frame(methodFrame, 1, 0, 60, 0, 10, 0, 0) }),
		raw("a body that nobody announced", func(c *channel) error { return c.link.tap.frame(3, 1, 'x') }),
		raw("a content header that nobody announced", func(c *channel) error {
			return c.link.tap.frame(2, 1, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		}),
		raw("a type that is none", func(c *channel) error { return c.link.tap.frame(77, 1, 'x') }),
		raw("one that is too long", func(c *channel) error { return c.link.tap.frame(3, 1, make([]byte, 200_000)...) }),
		raw("the wrong last byte", func(c *channel) error {
			_, err := c.link.tap.Conn.Write([]byte{8, 0, 0, 0, 0, 0, 0, 0x11})
			return err
		}),
		raw("a heartbeat on a channel", func(c *channel) error { return c.link.tap.frame(8, 1) }),
	}
}
