package e2e

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publishBehaviours are about what becomes of a message.
func publishBehaviours() []behaviour {
	return []behaviour{
		{name: "mandatory: no queue", play: func(s *scene) {
			c := s.channel()
			c.mandatory("", "missing", "1", headers(amqp.Table{"a": "b"}))
			c.returned()
			c.mandatory("amq.topic", "no.such.binding", "2")
			c.returned()
			c.declare("q", nil)
			c.mandatory("", "q", "3")
			c.drain("q")
		}},
		{name: "mandatory: the return comes before the confirm", play: func(s *scene) {
			c := s.channel()
			c.confirmMode()
			c.mandatory("", "missing", "1")
			c.confirmed(1)
			s.say("%d returned", len(c.returns))
			c.returned()
		}},
		{name: "immediate", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.send("", "q", false, true, "1")
			c.end()
			c.link.end(s)
		}},
		{name: "user-id: none given", here: []string{`drain "q": #1 "1" of "" key "q" user="guest"`}, users: true, play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1")
			c.drain("q")
		}},
		{name: "user-id: the connection's own", users: true, play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", func(p *amqp.Publishing) { p.UserId = "guest" })
			c.drain("q")
		}},
		{name: "user-id: another's", users: true, play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", func(p *amqp.Publishing) { p.UserId = "somebody" })
			c.end()
			s.channel().drain("q")
		}},
		{name: "expiration: no number", play: func(s *scene) {
			for _, text := range []string{"soon", "-1", "1.5", " 5", "5 ", "99999999999999999999"} {
				c := s.channel()
				c.declare("q", nil)
				c.publish("", "q", text, ttl(text))
				c.end()
			}
			s.channel().drain("q")
		}},
		{name: "CC and BCC: copies, and only CC is shown", play: func(s *scene) {
			c := s.channel()
			for _, q := range []string{"q", "cc", "bcc"} {
				c.declare(q, nil)
			}
			c.publish("", "q", "1", headers(amqp.Table{"CC": []any{s.name("cc"), s.name("q")}, "BCC": []any{s.name("bcc")}, "other": "kept"}))
			for _, q := range []string{"q", "cc", "bcc"} {
				c.drain(q)
			}
		}},
		{name: "CC: on a topic exchange, mandatory", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "topic", "", nil)
			c.declare("q", nil)
			c.bind("q", "copy.*", "x", nil)
			c.mandatory("x", "no.route", "1", headers(amqp.Table{"CC": []any{"copy.a", "copy.b"}}))
			c.drain("q")
			c.mandatory("x", "no.route", "2", headers(amqp.Table{"CC": []any{"none"}}))
			c.returned()
		}},
		{name: "CC: no list", play: func(s *scene) {
			c := s.channel()
			c.publish("", "q", "1", headers(amqp.Table{"CC": "q"}))
			c.end()
		}},
		{name: "BCC: a list of other things than names", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", headers(amqp.Table{"BCC": []any{int32(1)}}))
			c.drain("q")
		}},
		{name: "closed channel: its number serves again", play: func(s *scene) {
			l := s.link()
			for range 3 {
				c := s.on(l)
				c.look("missing")
				c.did(c.Publish("", "q", false, false, amqp.Publishing{}), "", "publish on it")
			}
			c := s.on(l)
			c.queue("q", "", nil)
		}},
		{name: "closed channel: what was on its way is dropped", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.confirmMode()
			c.numbers("q", 1)
			c.confirmed(1)
			c.publish("missing", "k", "breaks it")
			c.numbers("q", 20)
			c.end()
			d := s.channel()
			d.get("q", "noack")
			d.look("q")
		}},
	}
}

// confirmBehaviours are about publisher confirms.
func confirmBehaviours() []behaviour {
	return []behaviour{
		{name: "confirms: in order, routed or not, kept or not", play: func(s *scene) {
			c := s.channel()
			c.confirmMode()
			c.queue("q", "durable", nil)
			for i := range 10 {
				switch i % 3 {
				case 0:
					c.publish("", "q", "kept", persistent)
				case 1:
					c.publish("", "q", "not kept")
				default:
					c.publish("", "nowhere", "lost")
				}
			}
			c.confirmed(10)
			c.look("q")
		}},
		{name: "confirms: counted from confirm.select", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.numbers("q", 2)
			c.confirmMode()
			c.confirmMode()
			c.numbers("q", 2)
			c.confirmed(2)
			c.look("q")
		}},
		{name: "confirms: a full queue that rejects", play: func(s *scene) {
			c := s.channel()
			c.declare("q", amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"})
			c.confirmMode()
			for i := range 4 {
				c.publish("", "q", fmt.Sprint(i))
				c.confirmed(1)
			}
			c.get("q", "noack")
			c.publish("", "q", "fits again")
			c.confirmed(1)
			c.drain("q")
		}},
		{name: "confirms: one of two queues is full", play: func(s *scene) {
			c := s.channel()
			c.exchange("x", "fanout", "", nil)
			c.declare("full", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
			c.declare("free", nil)
			c.bind("full", "", "x", nil)
			c.bind("free", "", "x", nil)
			c.confirmMode()
			c.publish("x", "", "1")
			c.confirmed(1)
			c.publish("x", "", "2")
			c.confirmed(1)
			c.drain("full")
		}},
		{name: "confirms: many at once", play: func(s *scene) {
			c := s.channel()
			c.queue("q", "durable", nil)
			c.confirmMode()
			for range 500 {
				c.publish("", "q", "x", persistent)
			}
			acks := 0
			for i := range uint64(500) {
				select {
				case r := <-c.confirms:
					if r.Ack && r.DeliveryTag == i+1 {
						acks++
					}
				case <-time.After(amqpPatience):
				}
			}
			s.say("%d acks in order", acks)
			c.look("q")
		}},
		{name: "confirms: not with transactions", play: func(s *scene) {
			c := s.channel()
			c.confirmMode()
			c.did(c.Tx(), "", "tx.select")
			c = s.channel()
			c.did(c.Tx(), "", "tx.select")
			c.confirmMode()
		}},
	}
}

// transactionBehaviours are about the tx class.
func transactionBehaviours() []behaviour {
	begin := func(s *scene) *channel {
		c := s.channel()
		c.declare("q", nil)
		c.did(c.Tx(), "", "tx.select")
		return c
	}
	return []behaviour{
		{name: "tx: nothing is seen before the commit", play: func(s *scene) {
			c, d := begin(s), s.channel()
			c.numbers("q", 3)
			d.look("q")
			c.look("q")
			c.did(c.TxCommit(), "", "commit")
			d.drain("q")
			c.numbers("q", 1)
			c.did(c.TxRollback(), "", "roll back")
			c.did(c.TxCommit(), "", "commit")
			d.drain("q")
		}},
		{name: "tx: acks count at the commit", play: func(s *scene) {
			c := begin(s)
			d := s.channel()
			d.numbers("q", 3)
			d.until("q", 3, 0)
			for range 3 {
				c.get("q", "")
			}
			c.ack(1, false)
			c.did(c.TxCommit(), "", "commit")
			c.ack(2, false)
			c.did(c.TxRollback(), "", "roll back")
			c.ack(2, false)
			c.did(c.TxCommit(), "", "commit")
			c.did(c.Close(), "", "close")
			d.until("q", 1, 0)
			d.drain("q")
		}},
		{name: "tx: acks and publishes that the channel's end rolls back", play: func(s *scene) {
			c := begin(s)
			d := s.channel()
			d.numbers("q", 1)
			d.until("q", 1, 0)
			c.get("q", "")
			c.publish("", "q", "never")
			c.ack(1, false)
			c.did(c.Close(), "", "close")
			d.until("q", 1, 0)
			d.drain("q")
		}},
		{name: "tx: a nack with requeue", play: func(s *scene) {
			c := begin(s)
			d := s.channel()
			d.numbers("q", 2)
			d.until("q", 2, 0)
			c.get("q", "")
			c.nack(1, false, true)
			d.look("q")
			c.did(c.TxCommit(), "", "commit")
			d.drain("q")
		}},
		{name: "tx: mandatory returns at the commit", play: func(s *scene) {
			c := begin(s)
			c.mandatory("", "missing", "1")
			c.look("q")
			s.say("%d returned", len(c.returns))
			c.did(c.TxCommit(), "", "commit")
			c.returned()
		}},
		{name: "tx: a publish to a missing exchange", play: func(s *scene) {
			c := begin(s)
			c.publish("missing", "k", "1")
			c.end()
		}},
		{name: "tx: an ack of an unknown tag", play: func(s *scene) {
			c := begin(s)
			c.ack(5, false)
			c.end()
		}},
		{name: "tx: commit without select", play: func(s *scene) { c := s.channel(); c.did(c.TxCommit(), "", "commit") }},
		{name: "tx: rollback without select", play: func(s *scene) { c := s.channel(); c.did(c.TxRollback(), "", "roll back") }},
	}
}

// replyBehaviours are about amq.rabbitmq.reply-to.
func replyBehaviours() []behaviour {
	const direct = "amq.rabbitmq.reply-to"
	replyTo := func(p *amqp.Publishing) { p.ReplyTo, p.CorrelationId = direct, "7" }
	return []behaviour{
		{name: "direct reply-to: a call", play: func(s *scene) {
			caller, server := s.channel(), s.channel()
			server.declare("rpc", nil)
			answers := caller.consume(direct, "answers", "noack", nil)
			calls, err := server.Consume(s.name("rpc"), "calls", true, false, false, false, nil)
			server.did(err, "", "serve")
			var last amqp.Delivery
			for range 2 {
				caller.publish("", "rpc", "question", replyTo)
				q := <-calls
				last = q
				s.say("reply-to begins as it should: %v", strings.HasPrefix(q.ReplyTo, direct+"."))
				err = server.Publish("", q.ReplyTo, true, false, amqp.Publishing{Body: []byte("answer"), CorrelationId: q.CorrelationId})
				server.did(err, "", "answer")
				select {
				case a := <-answers.deliveries:
					s.say("answer %q of %q, correlation %q, mine: %v, redelivered %v", a.Body, a.Exchange, a.CorrelationId, a.RoutingKey == q.ReplyTo, a.Redelivered)
				case <-time.After(amqpPatience):
					s.cut("no answer")
				}
			}
			caller.did(caller.Close(), "", "the caller goes")
			server.mandatory("", "rpc", "fence")
			<-calls
			server.did(server.Publish("", last.ReplyTo, true, false, amqp.Publishing{Body: []byte("late")}), "", "answer nobody")
			select {
			case r := <-server.returns:
				s.say("returned %d %s", r.ReplyCode, r.ReplyText)
			case <-time.After(amqpPatience):
			}
		}},
		{name: "direct reply-to: needs no ack", play: func(s *scene) { s.channel().consume(direct, "a", "", nil) }},
		{name: "direct reply-to: a second consumer", play: func(s *scene) {
			c := s.channel()
			c.consume(direct, "a", "noack", nil)
			c.consume(direct, "b", "noack", nil)
		}},
		{name: "direct reply-to: a call without a consumer", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", replyTo)
			c.end()
		}},
		{name: "direct reply-to: declared passively", play: func(s *scene) {
			c := s.channel()
			q, err := c.QueueDeclarePassive(direct, false, false, false, false, nil)
			c.did(err, fmt.Sprint(" ", q.Messages, q.Consumers), "look")
		}},
		{name: "direct reply-to: cancelled, and begun again", play: func(s *scene) {
			c := s.channel()
			c.consume(direct, "a", "noack", nil)
			c.did(c.Cancel("a", false), "", "cancel")
			c.consume(direct, "b", "noack", nil)
		}},
		{name: "direct reply-to: is not declared, got, bound or deleted", play: func(s *scene) {
			c := s.channel()
			c.queue(direct, "", nil)
			c = s.channel()
			c.get(direct, "noack")
			c = s.channel()
			c.bind(direct, "k", "amq.direct", nil)
			c = s.channel()
			_, err := c.QueueDelete(direct, false, false, false)
			c.did(err, "", "delete")
		}},
	}
}

// contentBehaviours are about what a message holds.
func contentBehaviours() []behaviour {
	return []behaviour{
		{name: "content: every property", users: true, play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			c.publish("", "q", "1", func(p *amqp.Publishing) {
				*p = amqp.Publishing{
					ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 200, CorrelationId: "c\x01ä",
					ReplyTo: "somewhere", Expiration: "600000", MessageId: "m", Timestamp: time.Unix(1700000000, 0), Type: "t", UserId: "guest", AppId: "app",
					Headers: amqp.Table{"h": "v"}, Body: []byte("1"),
				}
			})
			c.drain("q")
		}},
		{name: "content: every type of table", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			inner := amqp.Table{"s": "text", "deep": amqp.Table{"deeper": []any{"a", int32(1), []any{true}, amqp.Table{}}}}
			c.publish("", "q", "1", headers(amqp.Table{
				"bool": true, "no": false, "byte": byte(200), "int8": int8(-7), "int16": int16(-300), "int32": int32(-70000), "int64": int64(-5_000_000_000),
				"float32": float32(1.5), "float64": -2.25, "decimal": amqp.Decimal{Scale: 2, Value: 12345}, "text": "ä\x00ö", "bytes": []byte{0, 255, 1},
				"array": []any{int32(1), "two", 3.0, nil, inner}, "time": time.Unix(1600000000, 0), "table": inner, "void": nil, "empty": amqp.Table{}, "": "no name",
			}))
			c.drain("q")
		}},
		{name: "content: a long header table", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			h := amqp.Table{}
			for i := range 300 {
				h[fmt.Sprintf("h%d", i)] = strings.Repeat("v", 100)
			}
			c.publish("", "q", "1", headers(h))
			c.drain("q")
		}},
		{name: "content: bodies of every size", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			for _, n := range []int{0, 1, 4087, 4088, 4089, 131064, 131065, 1 << 20} {
				c.publish("", "q", strings.Repeat("x", n))
			}
			c.drain("q")
		}},
		{name: "content: small frames", play: func(s *scene) {
			c := s.on(s.link(func(cfg *amqp.Config) { cfg.FrameSize = 4096 }))
			c.declare("q", nil)
			for _, n := range []int{0, 4088, 4089, 50_000, 1 << 20} {
				c.publish("", "q", strings.Repeat("y", n))
			}
			c.drain("q")
			s.say("the longest frame has %d bytes", c.link.tap.longestFrame())
		}},
		{name: "content: bytes of every value", play: func(s *scene) {
			c := s.channel()
			c.declare("q", nil)
			var all []byte
			for b := range 256 {
				all = append(all, byte(b))
			}
			c.publish("", "q", string(all))
			c.drain("q")
		}},
	}
}
