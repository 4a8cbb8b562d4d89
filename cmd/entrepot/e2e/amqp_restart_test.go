package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// survival is a behaviour with a restart of the broker in its middle.
type survival struct {
	name          string
	before, after func(*scene)
}

// kept opens a channel in confirm mode, for a behaviour whose messages have to
// be safe.
func kept(s *scene) *channel {
	c := s.channel()
	c.confirmMode()
	return c
}

// safely publishes a persistent message and waits for its confirm.
func (c *channel) safely(exchange, key, body string, how ...func(*amqp.Publishing)) {
	c.publish(exchange, key, body, append(how, persistent)...)
	c.confirmed(1)
}

func survivals() []survival {
	drain := func(s *scene) { s.channel().drain("q") }
	return []survival{
		{name: "restart: persistent messages in a durable queue", before: func(s *scene) {
			c := kept(s)
			c.queue("q", "durable", nil)
			c.safely("", "q", "1")
			c.publish("", "q", "not kept")
			c.confirmed(1)
			c.safely("", "q", "2")
		}, after: drain},
		{name: "restart: what was out comes back in its place", before: func(s *scene) {
			c := kept(s)
			c.queue("q", "durable", nil)
			for i := range 4 {
				c.safely("", "q", fmt.Sprint(i))
			}
			c.get("q", "")
			c.get("q", "")
			c.ack(1, false)
			c.until("q", 2, 0)
			c.did(c.Close(), "", "close")
			s.channel().until("q", 3, 0)
		}, after: func(s *scene) { s.channel().until("q", 3, 0) }},
		{name: "restart: queues that are not durable go", before: func(s *scene) {
			c := s.channel()
			c.queue("q", "", nil)
			c.queue("x", "exclusive durable", nil)
			c.queue("auto", "durable autodelete", nil)
		}, after: func(s *scene) {
			s.channel().look("q")
			s.channel().look("x")
			s.channel().look("auto")
		}},
		{name: "restart: exchanges and bindings", before: func(s *scene) {
			c := s.channel()
			c.queue("q", "durable", nil)
			c.exchange("x", "topic", "durable", amqp.Table{"alternate-exchange": "rest"})
			c.exchange("rest", "fanout", "durable", nil)
			c.exchange("h", "headers", "durable", nil)
			c.exchange("gone", "fanout", "", nil)
			c.bind("q", "a.#", "x", nil)
			c.bind("q", "", "rest", nil)
			c.bind("q", "", "h", amqp.Table{"x-match": "any", "a": int32(1)})
			c.bind("q", "", "gone", nil)
			c.did(c.ExchangeBind(s.name("h"), "b.*", s.name("x"), false, nil), "", "bind h to x")
		}, after: func(s *scene) {
			c := s.channel()
			for _, k := range []string{"a.b", "b.c", "c"} {
				c.publish("x", k, k, headers(amqp.Table{"a": int32(1)}))
			}
			c.publish("h", "", "h", headers(amqp.Table{"a": int32(2)}))
			c.drain("q")
			c.lookExchange("gone")
		}},
		{name: "restart: arguments", before: func(s *scene) {
			s.channel().queue("q", "durable", amqp.Table{"x-max-length": int32(2), "x-message-ttl": int32(600000), "x-max-priority": int32(5),
				"x-dead-letter-exchange": "dlx", "x-overflow": "reject-publish"})
		}, after: func(s *scene) {
			c := kept(s)
			c.queue("q", "durable", amqp.Table{"x-max-length": int32(2), "x-message-ttl": int32(600000), "x-max-priority": int32(5),
				"x-dead-letter-exchange": "dlx", "x-overflow": "reject-publish"})
			for i := range 3 {
				c.safely("", "q", fmt.Sprint(i), priority(uint8(i)))
			}
			c.drain("q")
			c.queue("q", "durable", amqp.Table{"x-max-length": int32(3)})
		}},
		{name: "restart: priorities", before: func(s *scene) {
			c := kept(s)
			c.queue("q", "durable", amqp.Table{"x-max-priority": int32(9)})
			for _, p := range []uint8{1, 5, 0, 9, 5} {
				c.safely("", "q", fmt.Sprint(p), priority(p))
			}
		}, after: drain},
		{name: "restart: properties and the history of deaths", before: func(s *scene) {
			c := kept(s)
			c.queue("q", "durable", nil)
			c.queue("first", "durable", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
			c.safely("", "first", "1", func(p *amqp.Publishing) {
				p.ContentType, p.CorrelationId, p.ReplyTo, p.MessageId, p.AppId = "text/plain", "7", "r", "m", "a"
				p.Headers = amqp.Table{"t": amqp.Table{"deep": []any{int32(1), true, "x", nil, 1.5}}, "b": []byte{0, 1}}
			})
			c.reject(c.get("first", "").DeliveryTag, false)
			c.until("q", 1, 0)
		}, after: drain},
		{name: "restart: time goes on meanwhile", before: func(s *scene) {
			c := kept(s)
			c.queue("q", "durable", nil)
			c.queue("first", "durable", amqp.Table{"x-message-ttl": int32(1500), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
			c.safely("", "first", "1")
		}, after: func(s *scene) { s.channel().arrive("q") }},
	}
}

// surviveRestart plays the first halves on both brokers, and the second ones
// after restart.
func surviveRestart(t *testing.T, rabbit, entrepot string, restart func() (rabbit, entrepot string)) {
	all := survivals()
	half := func(play func(survival) func(*scene)) []view {
		vs := make([]view, len(all))
		var playing sync.WaitGroup
		for i, s := range all {
			name := fmt.Sprintf("s%d~", i)
			playing.Go(func() { vs[i].rabbit = playOn(rabbit, name, false, play(s)) })
			playing.Go(func() { vs[i].entrepot = playOn(entrepot, name, false, play(s)) })
		}
		playing.Wait()
		return vs
	}
	first := half(func(s survival) func(*scene) { return s.before })
	rabbit, entrepot = restart()
	second := half(func(s survival) func(*scene) { return s.after })
	for i, s := range all {
		t.Run(s.name, func(t *testing.T) {
			for _, v := range []view{first[i], second[i]} {
				if slices.ContainsFunc(v.rabbit, func(l string) bool { return strings.HasPrefix(l, "CUT") }) {
					t.Fatalf("RabbitMQ does not play along:\n  %s", strings.Join(v.rabbit, "\n  "))
				}
			}
			same(t, "Entrepot before", first[i].rabbit, first[i].entrepot, nil)
			same(t, "Entrepot after", second[i].rabbit, second[i].entrepot, nil)
		})
	}
}
