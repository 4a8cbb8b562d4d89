package local

import (
	"strconv"
	"strings"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// The history of a dead letter, in the headers that RabbitMQ's users know:
// x-death is a list of tables, the newest death first, one for each queue and
// reason; x-first-death-… and x-last-death-… say where it began and what was
// last.
const (
	headerDeath     = "x-death"
	headerCC        = "CC"
	firstDeath      = "x-first-death-"
	lastDeath       = "x-last-death-"
	reasonRejected  = "rejected"
	deathCount      = "count"
	deathReason     = "reason"
	deathQueue      = "queue"
	deathTime       = "time"
	deathExchange   = "exchange"
	deathKeys       = "routing-keys"
	deathExpiration = "original-expiration"
)

// deathOf is the name of a reason in x-death; not ok for drops that nobody
// gets as a dead letter.
func deathOf(why core.DropReason) (string, bool) {
	switch why {
	case core.DropOverflow:
		return "maxlen", true
	case core.DropExpired:
		return "expired", true
	case core.DropRejected, core.DropTooLarge:
		return reasonRejected, true
	case core.DropDeliveryLimit:
		return "delivery_limit", true
	}
	return "", false
}

// label is a queue's name in a history.
func label(k core.QueueKey) string { return strings.ReplaceAll(k.Name, "\x00", " ") }

// deaths are the tables of a message's x-death, newest first.
func deaths(m *core.Message) []routing.Headers {
	if m.Props == nil {
		return nil
	}
	v, _ := m.Props.Headers.Get(headerDeath)
	list, _ := v.([]any)
	var all []routing.Headers
	for _, e := range list {
		if t, ok := e.(routing.Headers); ok {
			all = append(all, t)
		}
	}
	return all
}

func textOf(t routing.Headers, name string) string {
	v, _ := t.Get(name)
	s, _ := v.(string)
	return s
}

func diedIn(t routing.Headers, queue string) bool { return textOf(t, deathQueue) == queue }

// inCycle tells whether a message that goes to the queue of that name comes
// back there without anybody having rejected it since (RabbitMQ's rule for what
// it calls automatic cycles).
func inCycle(history []routing.Headers, queue string) bool {
	for _, t := range history {
		if textOf(t, deathReason) == reasonRejected {
			return false
		}
		if diedIn(t, queue) {
			return true
		}
	}
	return false
}

// bury is the message as it goes to the dead-letter exchange: addressed to
// that, without its TTL, with its history.
func bury(m *core.Message, k core.QueueKey, d *core.DeadLetter, why string, now time.Time) (*core.Message, error) {
	dead := *m
	dead.Retain = false
	p := core.Properties{}
	if m.Props != nil {
		p = *m.Props
	}
	history := died(m, label(k), why, now)
	var hs routing.Headers
	for _, h := range p.Headers {
		if h.Name == headerDeath || strings.HasPrefix(h.Name, lastDeath) || h.Name == headerCC && d.HasKey {
			continue
		}
		hs = append(hs, h)
	}
	if _, ok := hs.Get(firstDeath + deathReason); !ok {
		hs = append(hs, latest(firstDeath, label(k), why, m.Exchange)...)
	}
	hs = append(hs, latest(lastDeath, label(k), why, m.Exchange)...)
	p.Headers = append(hs, routing.Header{Name: headerDeath, Value: history})
	p.TTL, p.HasTTL, p.Expires = 0, false, time.Time{}
	p.BCC = nil
	if d.HasKey {
		p.CC = nil
	}
	dead.Props = &p
	err := readdress(&dead, d)
	return &dead, err
}

func latest(prefix, queue, why, exchange string) routing.Headers {
	return routing.Headers{{Name: prefix + deathQueue, Value: queue}, {Name: prefix + deathReason, Value: why},
		{Name: prefix + deathExchange, Value: exchange}}
}

// died is the history with one death more. The same queue and reason again
// counts up and comes to the front.
func died(m *core.Message, queue, why string, now time.Time) []any {
	var front routing.Headers
	var others []any
	for _, t := range deaths(m) {
		if front == nil && diedIn(t, queue) && textOf(t, deathReason) == why {
			front = again(t)
		} else {
			others = append(others, t)
		}
	}
	if front == nil {
		front = routing.Headers{{Name: deathCount, Value: int64(1)}, {Name: deathReason, Value: why},
			{Name: deathQueue, Value: queue}, {Name: deathTime, Value: now.Truncate(time.Second)},
			{Name: deathExchange, Value: m.Exchange}, {Name: deathKeys, Value: keysOf(m)}}
		if m.Props != nil && m.Props.HasTTL {
			front = append(front, routing.Header{Name: deathExpiration,
				Value: strconv.FormatInt(m.Props.TTL.Milliseconds(), 10)})
		}
	}
	return append([]any{front}, others...)
}

// again is the table of a death that happens once more.
func again(t routing.Headers) routing.Headers {
	up := append(routing.Headers{}, t...)
	for i, h := range up {
		if n, ok := h.Value.(int64); ok && h.Name == deathCount {
			up[i].Value = n + 1
		}
	}
	return up
}

// keyOf is a topic as the routing key that it is in AMQP.
func keyOf(exchange string, t routing.Topic) string {
	if name, ok := (core.Address{Exchange: exchange, Topic: t}).QueueName(); ok {
		return name
	}
	key, err := routing.Dotted.PrintTopic(t)
	if err != nil { // that spelling writes every topic
		return t.String()
	}
	return key
}

func keysOf(m *core.Message) []any {
	keys := []any{keyOf(m.Exchange, m.Topic)}
	if m.Props != nil {
		for _, t := range m.Props.CC {
			keys = append(keys, keyOf(m.Exchange, t))
		}
	}
	return keys
}

// readdress sends a dead letter to the exchange, under the key that the queue
// says or its own.
func readdress(m *core.Message, d *core.DeadLetter) (err error) {
	from := m.Exchange
	m.Exchange = d.Exchange
	if d.HasKey {
		m.Topic, err = core.RoutingTopic(d.Exchange, d.Key)
		return err
	}
	if (from == core.DefaultExchange) == (d.Exchange == core.DefaultExchange) {
		return nil
	}
	if m.Topic, err = core.RoutingTopic(d.Exchange, keyOf(from, m.Topic)); err != nil {
		return err
	}
	cc := m.Props.CC
	m.Props.CC = nil
	for _, t := range cc {
		if t, err := core.RoutingTopic(d.Exchange, keyOf(from, t)); err == nil {
			m.Props.CC = append(m.Props.CC, t)
		}
	}
	return nil
}
