package e2e

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	amqpPatience = 10 * time.Second       // until something that should come counts as lost
	amqpQuiet    = 250 * time.Millisecond // in which something that should not come would have come
)

// scene is a broker as one behaviour of the comparison sees it. Whatever its
// clients see becomes a line; two brokers behave alike when the lines are the
// same.
type scene struct {
	url    string
	prefix string // of the names of this behaviour, which the lines do not show
	// durable: what the behaviour declares by the way is durable, and its
	// messages are persistent, which the lines do not show.
	durable bool

	mu    sync.Mutex
	lines []string
	links []*amqpLink
}

// cut ends a behaviour that cannot go on.
type cut struct{ why string }

// playOn plays a behaviour on one broker and returns what was seen.
func playOn(addr, prefix string, durable bool, play func(*scene)) (lines []string) {
	s := &scene{url: "amqp://guest:guest@" + addr + "/", prefix: prefix, durable: durable}
	defer func() {
		if r := recover(); r != nil {
			c, ok := r.(cut)
			if !ok {
				panic(r)
			}
			s.say("CUT: %s", c.why)
		}
		for _, l := range s.links {
			_ = l.CloseDeadline(time.Now().Add(time.Second)) // some are closed
		}
		lines = s.lines
	}()
	play(s)
	return nil
}

// say notes a line.
func (s *scene) say(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), s.prefix, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *scene) cut(format string, args ...any) {
	panic(cut{fmt.Sprintf(format, args...)})
}

// name is a queue's or exchange's name as the broker knows it: those of a
// behaviour are its own, except the ones that every broker has.
func (s *scene) name(n string) string {
	if n == "" || strings.HasPrefix(n, "amq.") {
		return n
	}
	return s.prefix + n
}

// args are arguments whose names of queues and exchanges are the broker's.
func (s *scene) args(t amqp.Table) amqp.Table {
	if t == nil {
		return nil
	}
	a := amqp.Table{}
	for k, v := range t {
		name, ok := v.(string)
		direct := t["x-dead-letter-exchange"] == ""
		if ok && (k == "x-dead-letter-exchange" || k == "alternate-exchange" || k == "x-dead-letter-routing-key" && direct) {
			v = s.name(name)
		}
		a[k] = v
	}
	return a
}

// amqpLink is one connection.
type amqpLink struct {
	*amqp.Connection
	tap   *tap
	ended chan *amqp.Error
}

// link connects; change, if any, has a look at the settings.
func (s *scene) link(change ...func(*amqp.Config)) *amqpLink {
	l, err := s.dial(change...)
	if err != nil {
		s.cut("connecting: %v", err)
	}
	return l
}

func (s *scene) dial(change ...func(*amqp.Config)) (*amqpLink, error) {
	l := &amqpLink{}
	cfg := amqp.Config{Locale: "en_US", Heartbeat: 30 * time.Second, Dial: func(network, addr string) (net.Conn, error) {
		c, err := net.DialTimeout(network, addr, amqpPatience)
		l.tap = &tap{Conn: c}
		return l.tap, err
	}}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if l.Connection, err = amqp.DialConfig(s.url, cfg); err != nil {
		return l, err
	}
	l.ended = l.NotifyClose(make(chan *amqp.Error, 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
	return l, nil
}

// channel is one channel of a connection.
type channel struct {
	*amqp.Channel
	s        *scene
	link     *amqpLink
	returns  chan amqp.Return
	confirms chan amqp.Confirmation
	cancels  chan string
	ended    chan *amqp.Error
}

// channel opens a connection with one channel.
func (s *scene) channel() *channel { return s.on(s.link()) }

// on opens a channel of a connection.
func (s *scene) on(l *amqpLink) *channel {
	ch, err := l.Channel()
	if err != nil {
		s.cut("opening a channel: %v", err)
	}
	const room = 4096 // nobody reads until there is something to say
	return &channel{
		Channel: ch, s: s, link: l,
		returns:  ch.NotifyReturn(make(chan amqp.Return, room)),
		confirms: ch.NotifyPublish(make(chan amqp.Confirmation, room)),
		cancels:  ch.NotifyCancel(make(chan string, room)),
		ended:    ch.NotifyClose(make(chan *amqp.Error, 1)),
	}
}

// result is how a call ended.
func (c *channel) result(err error) string {
	var told *amqp.Error
	switch {
	case err == nil:
		return "ok"
	case !errors.As(err, &told):
		return err.Error()
	case !told.Server:
		return "closed already"
	}
	how := ""
	if !eventually(amqpPatience, func() bool { how = c.link.tap.close(); return how != "" }) {
		return told.Error()
	}
	return how
}

// did notes how a call ended, with more when it went well.
func (c *channel) did(err error, more string, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if err == nil {
		c.s.say("%s: ok%s", what, more)
		return
	}
	c.s.say("%s: %s", what, c.result(err))
}

// end waits until the broker closes the channel.
func (c *channel) end() {
	select {
	case err := <-c.ended:
		if err == nil {
			c.s.say("the channel ended without an error")
			return
		}
		c.s.say("then %s", c.result(err))
	case <-time.After(amqpPatience):
		c.s.say("the channel stays open")
	}
}

// end waits until the broker closes the connection.
func (l *amqpLink) end(s *scene) {
	how := "the connection stays open"
	if eventually(amqpPatience, func() bool { return l.IsClosed() }) {
		if how = l.tap.close(); how == "" {
			how = "the connection is cut"
		}
	}
	s.say("then %s", how)
}

// has tells whether a word is among flags.
func has(flags, word string) bool { return slices.Contains(strings.Fields(flags), word) }

// queue declares a queue: durable, autodelete, exclusive.
func (c *channel) queue(name, flags string, args amqp.Table) string {
	q, err := c.QueueDeclare(c.s.name(name), has(flags, "durable"), has(flags, "autodelete"), has(flags, "exclusive"), false, c.s.args(args))
	c.did(err, fmt.Sprintf(", %d messages, %d consumers", q.Messages, q.Consumers), "queue %q %s", name, flags)
	return q.Name
}

// declare declares a queue that is not what the behaviour is about.
func (c *channel) declare(name string, args amqp.Table) {
	if _, err := c.QueueDeclare(c.s.name(name), c.s.durable, false, false, false, c.s.args(args)); err != nil {
		c.s.cut("queue %s: %v", name, err)
	}
}

// look declares a queue passively.
func (c *channel) look(name string) {
	q, err := c.QueueDeclarePassive(c.s.name(name), false, false, false, false, nil)
	c.did(err, fmt.Sprintf(", %d messages, %d consumers", q.Messages, q.Consumers), "look at queue %q", name)
}

// until waits until a queue has so many messages and consumers.
func (c *channel) until(name string, messages, consumers int) {
	var q amqp.Queue
	var err error
	yes := eventually(amqpPatience, func() bool {
		q, err = c.QueueDeclarePassive(c.s.name(name), false, false, false, false, nil)
		return err != nil || q.Messages == messages && q.Consumers == consumers
	})
	if err != nil || !yes {
		c.s.say("queue %q does not come to %d messages, %d consumers: %d, %d, %v", name, messages, consumers, q.Messages, q.Consumers, err)
		return
	}
	c.s.say("queue %q comes to %d messages, %d consumers", name, messages, consumers)
}

// gone waits until a queue is not there; each look costs a channel.
func (s *scene) gone(name string) {
	l := s.link()
	yes := eventually(amqpPatience, func() bool {
		c := s.on(l)
		_, err := c.QueueDeclarePassive(s.name(name), false, false, false, false, nil)
		_ = c.Close()
		var told *amqp.Error
		return errors.As(err, &told) && told.Code == amqp.NotFound
	})
	s.say("queue %q goes away: %v", name, yes)
}

// vanish waits until a queue is not there, without using it: a message that
// has to reach it comes back.
func (c *channel) vanish(name string) {
	yes := eventually(amqpPatience, func() bool {
		_ = c.Publish("", c.s.name(name), true, false, amqp.Publishing{})
		select {
		case <-c.returns:
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	})
	c.s.say("queue %q vanishes: %v", name, yes)
}

// tick lets time pass by the broker's clock: until a message has expired.
func (c *channel) tick(ms string) {
	d := c.s.channel()
	d.declare("clock", nil)
	if err := d.Confirm(false); err != nil {
		c.s.cut("%v", err)
	}
	d.publish("", "clock", "tick", ttl(ms))
	select {
	case <-d.confirms:
	case <-time.After(amqpPatience):
		c.s.cut("the clock does not tick")
	}
	d.until("clock", 0, 0)
}

// exchange declares an exchange: durable, autodelete, internal.
func (c *channel) exchange(name, kind, flags string, args amqp.Table) {
	err := c.ExchangeDeclare(c.s.name(name), kind, has(flags, "durable"), has(flags, "autodelete"), has(flags, "internal"), false, c.s.args(args))
	c.did(err, "", "exchange %q %s %s", name, kind, flags)
}

func (c *channel) lookExchange(name string) {
	err := c.ExchangeDeclarePassive(c.s.name(name), "direct", false, false, false, false, nil)
	c.did(err, "", "look at exchange %q", name)
}

func (c *channel) bind(queue, key, exchange string, args amqp.Table) {
	c.did(c.QueueBind(c.s.name(queue), key, c.s.name(exchange), false, args), "", "bind %q to %q key %q", queue, exchange, key)
}

func (c *channel) unbind(queue, key, exchange string, args amqp.Table) {
	c.did(c.QueueUnbind(c.s.name(queue), key, c.s.name(exchange), args), "", "unbind %q from %q key %q", queue, exchange, key)
}
