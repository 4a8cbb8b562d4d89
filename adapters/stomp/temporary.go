package stomp

import (
	"context"

	"entrepot/core"
)

// temporary is the name of the queue behind the client's own name for it; it is made
// when first named. Others can send to it, by a name that cannot be guessed, and only
// this session can consume from it.
func (c *conn) temporary(p place) (string, error) {
	key := prefixes[p.kind] + p.name
	if name, ok := c.temporaries[key]; ok {
		return name, nil
	}
	if len(p.name) > maxRemembered {
		return "", bad("the name of a temporary queue is longer than %d bytes", maxRemembered)
	}
	if len(c.temporaries) >= c.cfg.MaxSubscriptions {
		return "", bad("more than %d temporary queues", c.cfg.MaxSubscriptions)
	}
	c.batch.Flush() // the disk may have to be waited for
	info, err := c.session.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(""), Prefix: replyPrefix, Exclusive: true,
		Args: core.QueueArgs{MaxLength: c.cfg.SubscriptionLength, HasMaxLength: true,
			MaxBytes: c.cfg.SubscriptionBytes, HasMaxBytes: true}})
	if err != nil {
		return "", err
	}
	if c.temporaries == nil {
		c.temporaries = map[string]string{}
	}
	c.temporaries[key] = info.Key.Name
	return info.Key.Name, nil
}

// awaitReply subscribes to the temporary queue that a reply-to names, as RabbitMQ does,
// unless the client did: the replies come with the destination's text as subscription.
func (c *conn) awaitReply(text string, p place) error {
	name, err := c.temporary(p)
	if err != nil {
		return err
	}
	key := core.Named(name)
	id := string(c.frame.version.appendValue(nil, text))
	c.mu.Lock()
	known := c.subs[id] != nil
	for _, s := range c.subs {
		known = known || s.source.spec.Key == key
	}
	c.mu.Unlock()
	if known {
		return nil
	}
	s := &subscription{conn: c, id: id, implicit: true,
		source: source{session: c.session, spec: core.QueueSpec{Key: key, Passive: true}}}
	s.writeHead([]byte(id), true)
	s.fixed = c.destinationHeader(text)
	if err := c.attach(s); err != nil {
		return err
	}
	s.consumer.Resume(&c.batch)
	return nil
}
