package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publish sends a message; how says more about it. Over the default exchange
// the key is a queue's name.
func (c *channel) publish(exchange, key, body string, how ...func(*amqp.Publishing)) {
	c.send(exchange, key, false, false, body, how...)
}

// mandatory sends a message that has to reach a queue.
func (c *channel) mandatory(exchange, key, body string, how ...func(*amqp.Publishing)) {
	c.send(exchange, key, true, false, body, how...)
}

func (c *channel) send(exchange, key string, mandatory, immediate bool, body string, how ...func(*amqp.Publishing)) {
	if exchange == "" {
		key = c.s.name(key)
	}
	p := amqp.Publishing{Body: []byte(body)}
	for _, f := range how {
		f(&p)
	}
	if c.s.durable {
		p.DeliveryMode = amqp.Persistent
	}
	if err := c.Publish(c.s.name(exchange), key, mandatory, immediate, p); err != nil && !errors.Is(err, amqp.ErrClosed) {
		c.s.say("publish %q: %v", body, err)
	}
}

// numbers publishes bodies "1" to "n" to a queue.
func (c *channel) numbers(queue string, n int) {
	for i := range n {
		c.publish("", queue, fmt.Sprint(i+1))
	}
}

// headers, priority and ttl say more about a message.
func headers(t amqp.Table) func(*amqp.Publishing) { return func(p *amqp.Publishing) { p.Headers = t } }
func priority(n uint8) func(*amqp.Publishing)     { return func(p *amqp.Publishing) { p.Priority = n } }
func ttl(ms string) func(*amqp.Publishing)        { return func(p *amqp.Publishing) { p.Expiration = ms } }
func persistent(p *amqp.Publishing)               { p.DeliveryMode = amqp.Persistent }

// returned notes a message that came back.
func (c *channel) returned() {
	select {
	case r := <-c.returns:
		c.s.say("returned %d %s: %q of %q key %q%s", r.ReplyCode, r.ReplyText, r.Body, r.Exchange, r.RoutingKey, table(" headers", r.Headers))
	case <-time.After(amqpPatience):
		c.s.say("nothing is returned")
	}
}

// confirmMode begins confirms.
func (c *channel) confirmMode() { c.did(c.Confirm(false), "", "confirm.select") }

// confirmed notes the next n confirms.
func (c *channel) confirmed(n int) {
	for range n {
		select {
		case r, ok := <-c.confirms:
			if !ok {
				c.s.say("no confirm: the channel ended")
				return
			}
			c.s.say("confirm %d: %v", r.DeliveryTag, r.Ack)
		case <-time.After(amqpPatience):
			c.s.say("no confirm")
			return
		}
	}
}

// feed is what a consumer gets.
type feed struct {
	c          *channel
	tag        string
	deliveries <-chan amqp.Delivery
}

// consume begins to consume: noack, exclusive, nolocal.
func (c *channel) consume(queue, tag, flags string, args amqp.Table) *feed {
	d, err := c.Consume(c.s.name(queue), tag, has(flags, "noack"), has(flags, "exclusive"), has(flags, "nolocal"), false, args)
	c.did(err, "", "consume %q as %q %s", queue, tag, flags)
	return &feed{c, tag, d}
}

// next notes the next delivery.
func (f *feed) next() amqp.Delivery {
	select {
	case d, ok := <-f.deliveries:
		if !ok {
			f.c.s.cut("consumer %s ended", f.tag)
		}
		f.c.s.say("%s gets %s", f.tag, message(d))
		return d
	case <-time.After(amqpPatience):
		f.c.s.cut("consumer %s gets nothing", f.tag)
	}
	return amqp.Delivery{}
}

// take notes the next n deliveries and returns the last one.
func (f *feed) take(n int) (last amqp.Delivery) {
	for range n {
		last = f.next()
	}
	return last
}

// quiet notes that nothing more comes.
func (f *feed) quiet() {
	select {
	case d, ok := <-f.deliveries:
		if ok {
			f.c.s.say("%s also gets %s", f.tag, message(d))
		} else {
			f.c.s.say("%s has ended", f.tag)
		}
	case <-time.After(amqpQuiet):
		f.c.s.say("%s gets no more", f.tag)
	}
}

// ack, nack and reject settle; what is wrong with them comes later.
func (c *channel) ack(tag uint64, multiple bool)           { _ = c.Ack(tag, multiple) }
func (c *channel) nack(tag uint64, multiple, requeue bool) { _ = c.Nack(tag, multiple, requeue) }
func (c *channel) reject(tag uint64, requeue bool)         { _ = c.Reject(tag, requeue) }

// recovers is basic.recover.
func (c *channel) recovers(requeue bool) error {
	//lint:ignore SA1019 clients that call it have to be answered
	return c.Recover(requeue)
}

// get takes one message: noack, or to be settled.
func (c *channel) get(queue, flags string) amqp.Delivery {
	d, ok, err := c.Get(c.s.name(queue), has(flags, "noack"))
	switch {
	case err != nil:
		c.did(err, "", "get %q", queue)
	case !ok:
		c.s.say("get %q: empty", queue)
	default:
		c.s.say("get %q: %s, %d left", queue, message(d), d.MessageCount)
	}
	return d
}

// drain takes all that waits, without settling one by one.
func (c *channel) drain(queue string) {
	for {
		d, ok, err := c.Get(c.s.name(queue), true)
		if err != nil || !ok {
			c.did(err, ", empty", "drain %q", queue)
			return
		}
		c.s.say("drain %q: %s", queue, message(d))
	}
}

// arrive waits for a message in a queue, and gets it.
func (c *channel) arrive(queue string) (d amqp.Delivery) {
	var ok bool
	var err error
	eventually(amqpPatience, func() bool {
		d, ok, err = c.Get(c.s.name(queue), true)
		return ok || err != nil
	})
	if !ok {
		c.s.cut("nothing arrives in %s: %v", queue, err)
	}
	c.s.say("in %q arrives %s", queue, message(d))
	return d
}

// message is a delivery in words.
func message(d amqp.Delivery) string {
	var b strings.Builder
	body := fmt.Sprintf("%q", d.Body)
	if len(d.Body) > 80 {
		body = fmt.Sprintf("%d bytes %x", len(d.Body), sha256.Sum256(d.Body))
	}
	fmt.Fprintf(&b, "#%d %s of %q key %q", d.DeliveryTag, body, d.Exchange, d.RoutingKey)
	if d.Redelivered {
		b.WriteString(" redelivered")
	}
	for _, p := range []struct{ name, value string }{
		{"content-type", d.ContentType}, {"encoding", d.ContentEncoding}, {"correlation", d.CorrelationId},
		{"reply-to", d.ReplyTo}, {"expiration", d.Expiration}, {"id", d.MessageId}, {"type", d.Type},
		{"user", d.UserId}, {"app", d.AppId},
	} {
		if p.value != "" {
			fmt.Fprintf(&b, " %s=%q", p.name, p.value)
		}
	}
	if d.DeliveryMode != 0 {
		fmt.Fprintf(&b, " mode=%d", d.DeliveryMode)
	}
	if d.Priority != 0 {
		fmt.Fprintf(&b, " priority=%d", d.Priority)
	}
	if !d.Timestamp.IsZero() {
		fmt.Fprintf(&b, " time=%d", d.Timestamp.Unix())
	}
	b.WriteString(table(" headers", d.Headers))
	return b.String()
}

// lastDeath begins headers that RabbitMQ has had since 3.13, and Entrepot has;
// Debian's does not. Only the behaviour that is about them shows them.
const lastDeath = "x-last-death-"

// table is a table in words, sorted.
func table(name string, t amqp.Table) string {
	if len(t) == 0 {
		return ""
	}
	var fields []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		if strings.HasPrefix(k, lastDeath) {
			continue
		}
		fields = append(fields, k+"="+value(t[k]))
	}
	if all := strings.Join(fields, " "); len(all) < 2000 {
		return name + "={" + all + "}"
	}
	return fmt.Sprintf("%s of %d fields %x", name, len(t), sha256.Sum256([]byte(strings.Join(fields, " "))))
}

func value(v any) string {
	switch v := v.(type) {
	case nil:
		return "void"
	case amqp.Table:
		return table("", v)
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, value(one))
		}
		return "[" + strings.Join(all, " ") + "]"
	case time.Time:
		if time.Since(v) < time.Hour {
			return "now"
		}
		return fmt.Sprintf("time(%d)", v.Unix())
	case string:
		return fmt.Sprintf("%q", v)
	case []byte:
		return fmt.Sprintf("bytes(%x)", v)
	}
	return fmt.Sprintf("%T(%v)", v, v)
}
