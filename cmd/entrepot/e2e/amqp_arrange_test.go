package e2e

import (
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// arrange makes, binds and ends queues and exchanges.
func (a *amqpActor) arrange(verb string, o options) error {
	passive := o.flag("passive")
	args := o.arguments()
	switch verb {
	case "queue": // QUEUE [passive] x-ARGUMENT=VALUE…
		return a.plain(o, 1, func(w []string) error { return a.queue(w[0], passive, args) })
	case "exchange": // EXCHANGE KIND [passive] ARGUMENT=VALUE…
		return a.plain(o, 2, func(w []string) error { return a.exchange(w[0], w[1], passive, args) })
	case "bind": // QUEUE KEY EXCHANGE
		return a.plain(o, 3, func(w []string) error { return a.channel.QueueBind(w[0], w[1], w[2], false, nil) })
	case "unbind": // QUEUE KEY EXCHANGE
		return a.plain(o, 3, func(w []string) error { return a.channel.QueueUnbind(w[0], w[1], w[2], nil) })
	case "chain": // DESTINATION KEY SOURCE: exchanges
		return a.plain(o, 3, func(w []string) error { return a.channel.ExchangeBind(w[0], w[1], w[2], false, nil) })
	case "get": // QUEUE
		return a.plain(o, 1, func(w []string) error { return a.get(w[0]) })
	case "purge": // QUEUE
		return a.plain(o, 1, func(w []string) error {
			_, err := a.channel.QueuePurge(w[0], false)
			return err
		})
	case "delete": // QUEUE
		return a.plain(o, 1, func(w []string) error {
			_, err := a.channel.QueueDelete(w[0], false, false, false)
			return err
		})
	case "exchange-delete": // EXCHANGE
		return a.plain(o, 1, func(w []string) error { return a.channel.ExchangeDelete(w[0], false, false) })
	case "tx":
		return a.plain(o, 0, func([]string) error { return a.channel.Tx() })
	case "commit":
		return a.plain(o, 0, func([]string) error { return a.channel.TxCommit() })
	}
	return fmt.Errorf("no verb %q for AMQP", verb)
}

// arguments takes all pairs out of the options.
func (o *options) arguments() amqp.Table {
	t := amqp.Table{}
	for _, p := range o.pairs {
		if n, err := strconv.Atoi(p[1]); err == nil {
			t[p[0]] = n
		} else {
			t[p[0]] = p[1]
		}
	}
	o.pairs = nil
	return t
}

func (a *amqpActor) queue(name string, passive bool, args amqp.Table) error {
	declare := a.channel.QueueDeclare
	if passive {
		declare = a.channel.QueueDeclarePassive
	}
	q, err := declare(name, false, false, false, false, args)
	if err == nil {
		a.box.add(event{end: fmt.Sprintf("QUEUE %s messages=%d", q.Name, q.Messages)})
	}
	return err
}

func (a *amqpActor) exchange(name, kind string, passive bool, args amqp.Table) error {
	declare := a.channel.ExchangeDeclare
	if passive {
		declare = a.channel.ExchangeDeclarePassive
	}
	err := declare(name, kind, false, false, false, false, args)
	if err == nil {
		a.box.add(event{end: "EXCHANGE " + strings.TrimSpace(name)})
	}
	return err
}

func (a *amqpActor) get(queue string) error {
	d, ok, err := a.channel.Get(queue, true)
	switch {
	case ok:
		a.box.add(event{delivery: &d})
	case err == nil:
		a.box.add(event{end: "EMPTY " + queue})
	}
	return err
}
