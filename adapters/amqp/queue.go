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

func (ch *channel) queueMethod(m frame.Method, r *frame.Reader) error {
	switch m {
	case frame.QueueDeclare:
		return ch.declareQueue(r)
	case frame.QueueBind:
		return ch.bindQueue(r)
	case frame.QueueUnbind:
		return ch.unbindQueue(r)
	case frame.QueuePurge:
		return ch.purgeQueue(r)
	case frame.QueueDelete:
		return ch.deleteQueue(r)
	}
	return ch.unknown()
}

// queueOr is the name of a queue, where the empty one is the queue declared
// last on the channel (AMQP 0-9-1, 1.7).
func (ch *channel) queueOr(name string) (string, error) {
	if name != "" {
		return name, nil
	}
	if ch.lastQueue == "" {
		return "", refuse(frame.NotFound, "no previously declared queue")
	}
	return ch.lastQueue, nil
}

// declareQueue (AMQP 0-9-1, 1.7.2.1).
func (ch *channel) declareQueue(r *frame.Reader) error {
	r.Short()
	name, flags, args := string(r.ShortText()), r.Bits(), r.Table()
	if err := ended(r); err != nil {
		return err
	}
	spec := core.QueueSpec{Passive: flags&1 != 0, Durable: flags&2 != 0, Exclusive: flags&4 != 0, AutoDelete: flags&8 != 0}
	noWait := flags&16 != 0
	if name == replyTo {
		return ch.declareReply(noWait)
	}
	c := ch.conn
	spec.Key = core.Named(name)
	about := c.queueNoun(name)
	if !spec.Passive {
		if strings.HasPrefix(name, "amq.") {
			return refuse(frame.AccessRefused, "queue name '%s' contains reserved prefix 'amq.*'", name)
		}
		var err error
		if spec.Args, err = parseArgs(args); err != nil {
			return argumentFault(err, about)
		}
	} else if name == "" {
		return refuse(frame.NotFound, "no %v", about)
	}
	c.wait()
	info, err := c.session.DeclareQueue(context.Background(), spec)
	switch {
	case spec.Passive && strings.HasPrefix(name, replyPrefix) && errors.Is(err, core.ErrLocked):
		// The requester is still there, which is what the question is.
		info = core.QueueInfo{Key: spec.Key, Consumers: 1}
	case errors.Is(err, core.ErrUnsupported):
		return argumentFault(err, about)
	case err != nil:
		return c.faultOf(err, about)
	}
	ch.lastQueue = info.Key.Name
	if !noWait {
		ch.replyDeclared(info)
	}
	return nil
}

func (ch *channel) replyDeclared(info core.QueueInfo) {
	ch.conn.reply(ch, frame.QueueDeclareOK, func(b []byte) []byte {
		b = frame.AppendShortText(b, info.Key.Name)
		return frame.AppendLong(frame.AppendLong(b, uint32(info.Messages)), uint32(info.Consumers))
	})
}

// parseArgs reads the arguments of a queue. Numbers and truth values as text,
// which protocols of text use, are not for clients that can write them.
func parseArgs(args routing.Headers) (core.QueueArgs, error) {
	for _, a := range args {
		switch a.Name {
		case "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-delivery-limit",
			"x-redelivery-delay", "x-single-active-consumer":
			if _, text := a.Value.(string); text {
				return core.QueueArgs{}, fmt.Errorf("%w: argument %s: it is a text", core.ErrInvalid, a.Name)
			}
		}
	}
	return core.ParseQueueArgs(args)
}

// argumentFault refuses arguments, by name.
func argumentFault(err error, about noun) error {
	return &fault{code: frame.PreconditionFailed, text: "invalid argument for " + about.String() + ": " + err.Error(), cause: err}
}

// bindingOf makes a binding of a routing key, for every kind of exchange.
func bindingOf(source, key string, args routing.Headers) (core.BindSpec, error) {
	b := core.BindSpec{Source: source, Args: args}
	topic, err := routing.Dotted.ParseTopic(key)
	if err != nil {
		return b, badKey(err)
	}
	b.Literal = topic.Filter()
	if filter, err := routing.Dotted.ParseFilter(key); err == nil {
		b.Filter = filter.WithDollars()
	}
	return b, nil
}

// bindQueue (AMQP 0-9-1, 1.7.2.3).
func (ch *channel) bindQueue(r *frame.Reader) error {
	r.Short()
	name, exchange, key := string(r.ShortText()), string(r.ShortText()), string(r.ShortText())
	noWait, args := r.Bits()&1 != 0, r.Table()
	if err := ended(r); err != nil {
		return err
	}
	b, name, err := ch.queueBinding(name, exchange, key, args)
	if err != nil {
		return err
	}
	if err := ch.conn.session.Bind(context.Background(), b); err != nil {
		return ch.bindFault(err, ch.conn.queueNoun(name))
	}
	if !noWait {
		ch.conn.reply(ch, frame.QueueBindOK, nil)
	}
	return nil
}

// queueBinding is the binding that bind and unbind speak of.
func (ch *channel) queueBinding(name, exchange, key string, args routing.Headers) (core.BindSpec, string, error) {
	if name == "" && key == "" {
		key = ch.lastQueue
	}
	name, err := ch.queueOr(name)
	if err != nil {
		return core.BindSpec{}, "", err
	}
	if exchange == core.DefaultExchange {
		return core.BindSpec{}, "", refuse(frame.AccessRefused, "operation not permitted on the default exchange")
	}
	b, err := bindingOf(exchange, key, args)
	b.Queue = core.Named(name)
	ch.conn.wait()
	return b, name, err
}

// bindFault tells which end of a binding is not there.
func (ch *channel) bindFault(err error, target noun) *fault {
	about := target
	if x, ok := errors.AsType[*core.ExchangeError](err); ok && errors.Is(err, core.ErrNotFound) {
		about = ch.conn.exchangeNoun(x.Exchange)
	}
	return ch.conn.faultOf(err, about)
}

// unbindQueue (AMQP 0-9-1, 1.7.2.5). What is not there is as good as gone.
func (ch *channel) unbindQueue(r *frame.Reader) error {
	r.Short()
	name, exchange, key := string(r.ShortText()), string(r.ShortText()), string(r.ShortText())
	args := r.Table()
	if err := ended(r); err != nil {
		return err
	}
	b, name, err := ch.queueBinding(name, exchange, key, args)
	if err != nil {
		return err
	}
	if err := ch.conn.session.Unbind(context.Background(), b); err != nil && !errors.Is(err, core.ErrNotFound) {
		return ch.bindFault(err, ch.conn.queueNoun(name))
	}
	ch.conn.reply(ch, frame.QueueUnbindOK, nil)
	return nil
}

// purgeQueue (AMQP 0-9-1, 1.7.2.7).
func (ch *channel) purgeQueue(r *frame.Reader) error {
	r.Short()
	name, noWait := string(r.ShortText()), r.Bits()&1 != 0
	if err := ended(r); err != nil {
		return err
	}
	name, err := ch.queueOr(name)
	if err != nil {
		return err
	}
	c := ch.conn
	c.wait()
	n, err := c.session.PurgeQueue(context.Background(), core.Named(name))
	if err != nil {
		return c.faultOf(err, c.queueNoun(name))
	}
	if !noWait {
		c.reply(ch, frame.QueuePurgeOK, func(b []byte) []byte { return frame.AppendLong(b, uint32(n)) })
	}
	return nil
}

// deleteQueue (AMQP 0-9-1, 1.7.2.9). A queue that is not there is as good as
// deleted.
func (ch *channel) deleteQueue(r *frame.Reader) error {
	r.Short()
	name, flags := string(r.ShortText()), r.Bits()
	if err := ended(r); err != nil {
		return err
	}
	name, err := ch.queueOr(name)
	if err != nil {
		return err
	}
	c := ch.conn
	c.wait()
	o := core.DeleteOptions{IfUnused: flags&1 != 0, IfEmpty: flags&2 != 0}
	n, err := c.session.DeleteQueue(context.Background(), core.Named(name), o)
	_, full := errors.AsType[core.NotEmpty](err)
	switch {
	case full:
		return refuse(frame.PreconditionFailed, "%v is not empty", c.queueNoun(name))
	case err != nil && !errors.Is(err, core.ErrNotFound):
		return c.faultOf(err, c.queueNoun(name))
	}
	if flags&4 == 0 {
		c.reply(ch, frame.QueueDeleteOK, func(b []byte) []byte { return frame.AppendLong(b, uint32(n)) })
	}
	return nil
}
