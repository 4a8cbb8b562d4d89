package amqp

import (
	"context"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// consumeReplies starts the consumer of a direct reply-to (RabbitMQ). Behind it
// is an exclusive queue under a name that cannot be guessed, which goes with the
// consumer.
func (ch *channel) consumeReplies(tag string, noAck, exclusive, noWait bool) error {
	switch {
	case !noAck:
		return refuse(frame.PreconditionFailed, "reply consumer cannot acknowledge")
	case ch.reply != nil:
		return refuse(frame.PreconditionFailed, "reply consumer already set")
	}
	c := ch.conn
	s, err := ch.newConsumer(tag, "", true)
	if err != nil {
		return err
	}
	c.wait()
	info, err := c.session.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(""), Prefix: replyPrefix, Exclusive: true,
		Args: core.QueueArgs{MaxLength: c.cfg.ReplyLength, HasMaxLength: true}})
	if err != nil {
		return c.faultOf(err, c.queueNoun(replyTo))
	}
	s.key = info.Key
	if err := ch.consume(s, core.ConsumeOptions{NoAck: true, Exclusive: exclusive}, noWait); err != nil {
		ch.endReply(s)
		return err
	}
	ch.reply = s
	return nil
}

// endReply deletes the queue of a direct reply-to.
func (ch *channel) endReply(s *consumer) {
	// With the session it goes as well, and gone already is as good.
	_, _ = ch.conn.session.DeleteQueue(context.Background(), s.key, core.DeleteOptions{})
}

// declareReply answers a declare of amq.rabbitmq.reply-to, which is always
// there.
func (ch *channel) declareReply(noWait bool) error {
	if !noWait {
		ch.replyDeclared(core.QueueInfo{Key: core.Named(replyTo), Consumers: 1})
	}
	ch.lastQueue = replyTo
	return nil
}
