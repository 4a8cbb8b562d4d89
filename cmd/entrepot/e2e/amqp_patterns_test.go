package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// patternsOf are the programs that everybody writes first, by RabbitMQ's
// tutorials: each takes a broker's URL.
func patternsOf(t *testing.T, url string) {
	for _, p := range []struct {
		name string
		play func(*desk)
	}{
		{"hello", hello}, {"work queues", workQueues}, {"publish and subscribe", publishSubscribe}, {"routing", routing},
		{"topics", topics}, {"remote procedure call", procedureCall}, {"publisher confirms", publisherConfirms},
	} {
		t.Run(p.name, func(t *testing.T) { p.play(&desk{t, url}) })
	}
}

// desk makes clients for a pattern.
type desk struct {
	*testing.T
	url string
}

// open connects and opens a channel, until the test ends.
func (d *desk) open() *amqp.Channel {
	d.Helper()
	c, err := amqp.Dial(d.url)
	d.must(err)
	d.Cleanup(func() { _ = c.Close() }) // some are closed
	ch, err := c.Channel()
	d.must(err)
	return ch
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// queue declares a queue and returns its name.
func (d *desk) queue(ch *amqp.Channel, name string, durable, exclusive bool) string {
	d.Helper()
	q, err := ch.QueueDeclare(name, durable, false, exclusive, false, nil)
	d.must(err)
	return q.Name
}

func (d *desk) consume(ch *amqp.Channel, queue string, autoAck bool) <-chan amqp.Delivery {
	d.Helper()
	c, err := ch.Consume(queue, "", autoAck, false, false, false, nil)
	d.must(err)
	return c
}

func (d *desk) publish(ch *amqp.Channel, exchange, key string, p amqp.Publishing) {
	d.Helper()
	d.must(ch.Publish(exchange, key, false, false, p))
}

// take returns the bodies of the next n deliveries.
func (d *desk) take(from <-chan amqp.Delivery, n int) (bodies []string) {
	d.Helper()
	for range n {
		bodies = append(bodies, string(d.one(from).Body))
	}
	return bodies
}

func (d *desk) one(from <-chan amqp.Delivery) amqp.Delivery {
	d.Helper()
	select {
	case m, ok := <-from:
		if ok {
			return m
		}
		d.Fatal("the consumer ended")
	case <-time.After(amqpPatience):
		d.Fatal("no message")
	}
	return amqp.Delivery{}
}

// expect compares bodies, in order, and that no more come.
func (d *desk) expect(from <-chan amqp.Delivery, want ...string) {
	d.Helper()
	if got := d.take(from, len(want)); !slices.Equal(got, want) {
		d.Errorf("got %q, want %q", got, want)
	}
	select {
	case m := <-from:
		d.Errorf("also got %q", m.Body)
	case <-time.After(amqpQuiet):
	}
}

func plain(s string) amqp.Publishing {
	return amqp.Publishing{ContentType: "text/plain", Body: []byte(s)}
}

func hello(d *desk) {
	sender, receiver := d.open(), d.open()
	name := d.queue(sender, "go-hello", false, false)
	d.publish(sender, "", name, plain("Hello"))
	d.queue(receiver, "go-hello", false, false)
	m := d.one(d.consume(receiver, name, true))
	if string(m.Body) != "Hello" || m.ContentType != "text/plain" || m.RoutingKey != name {
		d.Errorf("got %s", message(m))
	}
}

// workQueues: tasks are shared by workers that take one at a time; what a lost
// one had is done by another.
func workQueues(d *desk) {
	boss, quick, lost := d.open(), d.open(), d.open()
	name := d.queue(boss, "go-work", true, false)
	d.must(quick.Qos(1, 0, false))
	d.must(lost.Qos(1, 0, false))
	theirs, ours := d.consume(lost, name, false), d.consume(quick, name, false)
	for i := range 10 {
		p := plain(fmt.Sprint(i))
		p.DeliveryMode = amqp.Persistent
		d.publish(boss, "", name, p)
	}
	held := d.one(theirs)
	done := []string{}
	for range 9 {
		m := d.one(ours)
		done = append(done, string(m.Body))
		d.must(m.Ack(false))
	}
	d.must(lost.Close())
	again := d.one(ours)
	d.must(again.Ack(false))
	if string(again.Body) != string(held.Body) || !again.Redelivered {
		d.Errorf("%s comes after the loss of %q", message(again), held.Body)
	}
	slices.Sort(done)
	if all := slices.Compact(append(done, string(held.Body))); len(all) != 10 {
		d.Errorf("done: %q", all)
	}
}

func publishSubscribe(d *desk) {
	p, a, b := d.open(), d.open(), d.open()
	d.must(p.ExchangeDeclare("go-logs", "fanout", true, false, false, false, nil))
	listen := func(ch *amqp.Channel) <-chan amqp.Delivery {
		q := d.queue(ch, "", false, true)
		d.must(ch.QueueBind(q, "", "go-logs", false, nil))
		return d.consume(ch, q, true)
	}
	first, second := listen(a), listen(b)
	for _, s := range []string{"1", "2", "3"} {
		d.publish(p, "go-logs", "", plain(s))
	}
	d.expect(first, "1", "2", "3")
	d.expect(second, "1", "2", "3")
}

func routing(d *desk) {
	p, errs, all := d.open(), d.open(), d.open()
	d.must(p.ExchangeDeclare("go-logs-direct", "direct", true, false, false, false, nil))
	listen := func(ch *amqp.Channel, keys ...string) <-chan amqp.Delivery {
		q := d.queue(ch, "", false, true)
		for _, k := range keys {
			d.must(ch.QueueBind(q, k, "go-logs-direct", false, nil))
		}
		return d.consume(ch, q, true)
	}
	one, three := listen(errs, "error"), listen(all, "info", "warning", "error")
	for _, k := range []string{"info", "error", "debug", "warning"} {
		d.publish(p, "go-logs-direct", k, plain(k))
	}
	d.expect(one, "error")
	d.expect(three, "info", "error", "warning")
}

func topics(d *desk) {
	p := d.open()
	d.must(p.ExchangeDeclare("go-logs-topic", "topic", true, false, false, false, nil))
	keys := []string{"kern.critical", "kern.info", "cron.critical", "cron.info", "kern", "a.b.c"}
	for _, c := range []struct{ bindings, want []string }{
		{[]string{"#"}, keys},
		{[]string{"kern.*"}, []string{"kern.critical", "kern.info"}},
		{[]string{"*.critical"}, []string{"kern.critical", "cron.critical"}},
		{[]string{"kern.*", "*.critical"}, []string{"kern.critical", "kern.info", "cron.critical"}},
		{[]string{"kern.#", "*.*.c"}, []string{"kern.critical", "kern.info", "kern", "a.b.c"}},
	} {
		ch := d.open()
		q := d.queue(ch, "", false, true)
		for _, b := range c.bindings {
			d.must(ch.QueueBind(q, b, "go-logs-topic", false, nil))
		}
		from := d.consume(ch, q, true)
		for _, k := range keys {
			d.publish(p, "go-logs-topic", k, plain(k))
		}
		d.expect(from, c.want...)
		d.must(ch.Close())
	}
}

func procedureCall(d *desk) {
	server, caller := d.open(), d.open()
	calls := d.queue(server, "go-rpc", false, false)
	d.must(server.Qos(1, 0, false))
	requests := d.consume(server, calls, false)
	go func() {
		for m := range requests {
			n, _ := strconv.Atoi(string(m.Body)) // what is no number is answered like 0
			a, b := 0, 1
			for range n {
				a, b = b, a+b
			}
			// Who cannot be answered is waited for in vain, which the test sees.
			_ = server.Publish("", m.ReplyTo, false, false, amqp.Publishing{CorrelationId: m.CorrelationId, Body: []byte(fmt.Sprint(a))})
			_ = m.Ack(false)
		}
	}()
	for _, address := range []string{d.queue(caller, "", false, true), "amq.rabbitmq.reply-to"} {
		answers := d.consume(caller, address, true)
		for n, want := range map[string]string{"30": "832040", "10": "55"} {
			d.publish(caller, "", calls, amqp.Publishing{Body: []byte(n), ReplyTo: address, CorrelationId: "of " + n})
			if m := d.one(answers); string(m.Body) != want || m.CorrelationId != "of "+n {
				d.Errorf("%s: %s is answered by %s", address, n, message(m))
			}
		}
	}
}

// publisherConfirms: one by one, in batches, and as they come.
func publisherConfirms(d *desk) {
	ch := d.open()
	name := d.queue(ch, "go-confirms", true, false)
	d.must(ch.Confirm(false))
	p := plain("kept")
	p.DeliveryMode = amqp.Persistent
	send := func() *amqp.DeferredConfirmation {
		c, err := ch.PublishWithDeferredConfirm("", name, false, false, p)
		d.must(err)
		return c
	}
	wait := func(c *amqp.DeferredConfirmation) {
		select {
		case <-c.Done():
			if !c.Acked() {
				d.Errorf("message %d is not taken", c.DeliveryTag)
			}
		case <-time.After(amqpPatience):
			d.Fatalf("message %d is not confirmed", c.DeliveryTag)
		}
	}
	for range 10 {
		wait(send())
	}
	for range 3 {
		var batch []*amqp.DeferredConfirmation
		for range 50 {
			batch = append(batch, send())
		}
		for _, c := range batch {
			wait(c)
		}
	}
	outstanding := make(chan *amqp.DeferredConfirmation, 500)
	go func() {
		defer close(outstanding)
		for range 500 {
			c, err := ch.PublishWithDeferredConfirm("", name, false, false, p)
			if err != nil {
				return // the count at the end shows it
			}
			outstanding <- c
		}
	}()
	for c := range outstanding {
		wait(c)
	}
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	d.must(err)
	if q.Messages != 660 {
		d.Errorf("%d messages, want 660", q.Messages)
	}
}
