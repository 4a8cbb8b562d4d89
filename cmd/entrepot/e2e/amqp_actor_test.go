package e2e

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// amqpActor is an AMQP client of a scenario, on one channel. An exchange "-" is
// the default one.
type amqpActor struct {
	name string
	dial func() net.Conn
	box  *inbox

	pipe       net.Conn
	connection *amqp.Connection
	channel    *amqp.Channel
	confirms   bool

	mu   sync.Mutex
	tags map[int]uint64 // of deliveries, by number
}

func (a *amqpActor) inbox() *inbox { return a.box }

// do carries out a verb.
func (a *amqpActor) do(verb string, words []word) error {
	if verb == "connect" {
		return a.connect(words)
	}
	if a.channel == nil {
		return fmt.Errorf("%s is not connected", a.name)
	}
	o := readOptions(words, "=")
	switch verb {
	case "declare": // QUEUE [durable]
		durable := o.flag("durable")
		return a.plain(o, 1, func(w []string) error {
			_, err := a.channel.QueueDeclare(w[0], durable, false, false, false, nil)
			return err
		})
	case "sub": // EXCHANGE KEY [ack]: a queue of its own, by its name
		ack := o.flag("ack")
		return a.plain(o, 2, func(w []string) error { return a.subscribe(w[0], w[1], ack) })
	case "consume": // QUEUE [ack]
		ack := o.flag("ack")
		return a.plain(o, 1, func(w []string) error { return a.consume(w[0], ack) })
	case "pub": // EXCHANGE KEY "payload" [mandatory] name=value…
		return a.publish(o)
	case "ack", "nack", "reject": // #N
		return a.plain(o, 1, func(w []string) error { return a.settle(verb, w[0]) })
	case "disconnect":
		return a.connection.Close()
	case "drop":
		return a.pipe.Close()
	}
	return a.arrange(verb, o)
}

// plain wants so many words and nothing else.
func (a *amqpActor) plain(o options, n int, f func([]string) error) error {
	if len(o.plain) != n || len(o.pairs) > 0 {
		return fmt.Errorf("%d words: %q %q", n, o.plain, o.pairs)
	}
	return a.told(f(o.plain))
}

// told leaves what the broker refused to watch.
func (a *amqpActor) told(err error) error {
	if _, refused := err.(*amqp.Error); refused {
		return nil
	}
	return err
}

// watch makes events of what the broker closes.
func (a *amqpActor) watch(what string, closed <-chan *amqp.Error) {
	for e := range closed {
		if e.Server {
			a.box.add(event{end: fmt.Sprintf("%s CLOSED %d %s", what, e.Code, strconv.Quote(e.Reason))})
		}
	}
}

// connect opens a connection with a channel; "confirms" turns them on.
func (a *amqpActor) connect(words []word) error {
	o := readOptions(words, "=")
	a.confirms = o.flag("confirms")
	login := &amqp.PlainAuth{Username: o.pop("login", "guest"), Password: o.pop("password", "guest")}
	if err := o.done(); err != nil {
		return err
	}
	a.pipe, a.tags = a.dial(), map[int]uint64{}
	c, err := amqp.Open(a.pipe, amqp.Config{SASL: []amqp.Authentication{login}, Vhost: "/",
		Properties: amqp.Table{"connection_name": a.name}})
	if err != nil {
		return err
	}
	a.connection = c
	if a.channel, err = c.Channel(); err != nil {
		return err
	}
	go a.watch("CHANNEL", a.channel.NotifyClose(make(chan *amqp.Error, 1)))
	cancelled := a.channel.NotifyCancel(make(chan string, 100))
	go func() {
		for range cancelled {
			a.box.add(event{end: "CONSUMER CANCELLED"})
		}
	}()
	go a.watch("CONNECTION", c.NotifyClose(make(chan *amqp.Error, 1)))
	returned := a.channel.NotifyReturn(make(chan amqp.Return, 100))
	go func() {
		for r := range returned {
			a.box.add(event{end: fmt.Sprintf("RETURN %d exchange=%s key=%s payload=%s", r.ReplyCode, r.Exchange, r.RoutingKey, strconv.Quote(string(r.Body)))})
		}
	}()
	if !a.confirms {
		return nil
	}
	confirmed := a.channel.NotifyPublish(make(chan amqp.Confirmation, 100))
	go func() {
		for c := range confirmed {
			a.box.add(event{end: fmt.Sprintf("CONFIRM %d ack=%v", c.DeliveryTag, c.Ack)})
		}
	}()
	return a.channel.Confirm(false)
}

func exchangeOf(word string) string { return strings.TrimSuffix(word, "-") }

func (a *amqpActor) subscribe(exchange, key string, ack bool) error {
	if _, err := a.channel.QueueDeclare(a.name, false, false, true, false, nil); err != nil {
		return err
	}
	if err := a.channel.QueueBind(a.name, key, exchange, false, nil); err != nil {
		return err
	}
	return a.consume(a.name, ack)
}

func (a *amqpActor) consume(queue string, ack bool) error {
	arriving, err := a.channel.Consume(queue, queue, !ack, false, false, false, nil)
	if err != nil {
		return err
	}
	go func() {
		for d := range arriving {
			a.mu.Lock()
			a.tags[len(a.tags)+1] = d.DeliveryTag
			a.mu.Unlock()
			a.box.add(event{delivery: &d})
		}
	}()
	return nil
}

// publish sends a message; its pairs are properties, "header:NAME" headers.
func (a *amqpActor) publish(o options) error {
	m := amqp.Publishing{Body: []byte(o.payload), ContentType: o.pop("content-type", ""), ContentEncoding: o.pop("content-encoding", ""),
		CorrelationId: o.pop("correlation-id", ""), ReplyTo: o.pop("reply-to", ""), Expiration: o.pop("expiration", ""),
		MessageId: o.pop("message-id", ""), Type: o.pop("type", ""), AppId: o.pop("app-id", ""), UserId: o.pop("user-id", "")}
	for name, set := range map[string]func(int){"mode": func(n int) { m.DeliveryMode = uint8(n) }, "priority": func(n int) { m.Priority = uint8(n) },
		"timestamp": func(n int) { m.Timestamp = time.Unix(int64(n), 0) }} {
		n, err := o.number(name, 0)
		if err != nil {
			return err
		}
		if n != 0 {
			set(n)
		}
	}
	mandatory := o.flag("mandatory")
	if len(o.plain) != 2 {
		return fmt.Errorf("an exchange and a key: %q", o.plain)
	}
	for _, p := range o.pairs {
		name, ok := strings.CutPrefix(p[0], "header:")
		if !ok {
			return fmt.Errorf("no property %q", p[0])
		}
		if m.Headers == nil {
			m.Headers = amqp.Table{}
		}
		m.Headers[name] = p[1]
		switch {
		case p[1] == "true":
			m.Headers[name] = true
		case name == "CC" || name == "BCC":
			m.Headers[name] = []any{p[1]}
		}
	}
	return a.told(a.channel.Publish(exchangeOf(o.plain[0]), o.plain[1], mandatory, false, m))
}

// settle acknowledges message #N, puts it back, or gives it up.
func (a *amqpActor) settle(verb, which string) error {
	n, err := strconv.Atoi(strings.TrimPrefix(which, "#"))
	if err != nil {
		return err
	}
	a.mu.Lock()
	tag := a.tags[n]
	a.mu.Unlock()
	switch verb {
	case "ack":
		return a.channel.Ack(tag, false)
	case "nack":
		return a.channel.Nack(tag, false, true)
	}
	return a.channel.Reject(tag, false)
}

// plainSuccess: the library reports faults only.
func (a *amqpActor) plainSuccess(string, event) bool { return false }

func (a *amqpActor) answered(string) bool { return false }

// leave closes the connection, which may be closed.
func (a *amqpActor) leave() {
	if a.connection != nil {
		_ = a.connection.Close()
		closePipe(a.pipe)
	}
}

// shownDelivery is a delivery as scripts show it.
func shownDelivery(d *amqp.Delivery) string {
	var w []string
	add := func(name, value string) {
		if value != "" {
			w = append(w, name+"="+shown(value))
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			add(name, strconv.FormatInt(n, 10))
		}
	}
	add("tag", d.ConsumerTag)
	add("exchange", d.Exchange)
	add("key", d.RoutingKey)
	if d.Redelivered {
		w = append(w, "redelivered")
	}
	number("mode", int64(d.DeliveryMode))
	number("priority", int64(d.Priority))
	add("content-type", d.ContentType)
	add("content-encoding", d.ContentEncoding)
	add("correlation-id", d.CorrelationId)
	add("reply-to", d.ReplyTo)
	add("expiration", d.Expiration)
	add("message-id", d.MessageId)
	if !d.Timestamp.IsZero() {
		number("timestamp", d.Timestamp.Unix())
	}
	add("type", d.Type)
	add("user-id", d.UserId)
	add("app-id", d.AppId)
	var names []string
	for name := range d.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add("header:"+shown(name), fmt.Sprint(d.Headers[name]))
	}
	return "DELIVER " + strings.Join(append(w, "payload="+strconv.Quote(string(d.Body))), " ")
}
