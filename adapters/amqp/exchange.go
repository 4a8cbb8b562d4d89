package amqp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/routing"
)

func (ch *channel) exchangeMethod(m frame.Method, r *frame.Reader) error {
	switch m {
	case frame.ExchangeDeclare:
		return ch.declareExchange(r)
	case frame.ExchangeDelete:
		return ch.deleteExchange(r)
	case frame.ExchangeBind:
		return ch.bindExchange(r)
	case frame.ExchangeUnbind:
		return ch.unbindExchange(r)
	}
	return ch.unknown()
}

// defaultRefused is what RabbitMQ says of the default exchange.
func defaultRefused() error {
	return refuse(frame.AccessRefused, "operation not permitted on the default exchange")
}

// declareExchange (AMQP 0-9-1, 1.6.2.1).
func (ch *channel) declareExchange(r *frame.Reader) error {
	r.Short()
	name, kind, flags, args := string(r.ShortText()), string(r.ShortText()), r.Bits(), r.Table()
	if err := ended(r); err != nil {
		return err
	}
	if name == core.DefaultExchange {
		return defaultRefused()
	}
	c := ch.conn
	x := core.ExchangeSpec{Name: name, Passive: flags&1 != 0, Durable: flags&2 != 0, AutoDelete: flags&4 != 0, Internal: flags&8 != 0}
	about := c.exchangeNoun(name)
	if !x.Passive {
		if err := readExchange(&x, kind, args, about); err != nil {
			return err
		}
	}
	c.wait()
	err := c.session.DeclareExchange(context.Background(), x)
	if e, ok := errors.AsType[*core.ExchangeError](err); ok && e.Reserved {
		return refuse(frame.AccessRefused, "exchange name '%s' contains reserved prefix 'amq.*'", name)
	}
	if err != nil {
		return c.faultOf(err, about)
	}
	if flags&16 == 0 {
		c.reply(ch, frame.ExchangeDeclareOK, nil)
	}
	return nil
}

// The type of RabbitMQ's plug-in for delayed messages, and the argument that
// says how it routes. The header x-delay is read by the core, for any exchange.
const (
	delayedType     = "x-delayed-message"
	delayedArgument = "x-delayed-type"
)

// readExchange reads type and arguments.
func readExchange(x *core.ExchangeSpec, kind string, args routing.Headers, about noun) error {
	if kind == delayedType {
		inner, _ := args.Get(delayedArgument)
		if kind, x.Delayed = fmt.Sprint(inner), true; kind == delayedType {
			kind = ""
		}
		if _, err := routing.ParseKind(kind); err != nil {
			return refuse(frame.PreconditionFailed, "Invalid argument, 'x-delayed-type' must be an existing exchange type")
		}
	}
	var err error
	if x.Kind, err = routing.ParseKind(kind); err != nil {
		return refuse(frame.CommandInvalid, "unknown exchange type '%s'", kind)
	}
	for _, a := range args {
		switch {
		case a.Name == delayedArgument && x.Delayed:
		case a.Name == "alternate-exchange":
			name, ok := a.Value.(string)
			if !ok || len(name) > 255 {
				return refuse(frame.PreconditionFailed, "invalid arg 'alternate-exchange' for %v: a name", about)
			}
			x.Alternate = name
		case strings.HasPrefix(a.Name, "x-"):
			return refuse(frame.PreconditionFailed, "invalid arg '%s' for %v: not supported", a.Name, about)
		}
	}
	return nil
}

// deleteExchange (AMQP 0-9-1, 1.6.2.3). One that is not there is as good as
// deleted.
func (ch *channel) deleteExchange(r *frame.Reader) error {
	r.Short()
	name, flags := string(r.ShortText()), r.Bits()
	if err := ended(r); err != nil {
		return err
	}
	c := ch.conn
	switch {
	case name == core.DefaultExchange:
		return defaultRefused()
	case strings.HasPrefix(name, "amq."):
		return refuse(frame.AccessRefused, "deletion of system %v not allowed", c.exchangeNoun(name))
	}
	c.wait()
	err := c.session.DeleteExchange(context.Background(), name, flags&1 != 0)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return c.faultOf(err, c.exchangeNoun(name))
	}
	if flags&2 == 0 {
		c.reply(ch, frame.ExchangeDeleteOK, nil)
	}
	return nil
}

// readBinding reads a binding from exchange to exchange (RabbitMQ).
func (ch *channel) readBinding(r *frame.Reader) (b core.BindSpec, noWait bool, err error) {
	r.Short()
	destination, source, key := string(r.ShortText()), string(r.ShortText()), string(r.ShortText())
	flags, args := r.Bits(), r.Table()
	if err := ended(r); err != nil {
		return b, false, err
	}
	if destination == core.DefaultExchange || source == core.DefaultExchange {
		return b, false, defaultRefused()
	}
	b, err = bindingOf(source, key, args)
	b.Exchange = destination
	ch.conn.wait()
	return b, flags&1 != 0, err
}

func (ch *channel) bindExchange(r *frame.Reader) error {
	b, noWait, err := ch.readBinding(r)
	if err != nil {
		return err
	}
	if err := ch.conn.session.Bind(context.Background(), b); err != nil {
		return ch.bindFault(err, ch.conn.exchangeNoun(b.Exchange))
	}
	if !noWait {
		ch.conn.reply(ch, frame.ExchangeBindOK, nil)
	}
	return nil
}

func (ch *channel) unbindExchange(r *frame.Reader) error {
	b, noWait, err := ch.readBinding(r)
	if err != nil {
		return err
	}
	if err := ch.conn.session.Unbind(context.Background(), b); err != nil && !errors.Is(err, core.ErrNotFound) {
		return ch.bindFault(err, ch.conn.exchangeNoun(b.Exchange))
	}
	if !noWait {
		ch.conn.reply(ch, frame.ExchangeUnbindOK, nil)
	}
	return nil
}
