package stomp

import (
	"context"
	"strings"

	"entrepot/core"
	"entrepot/core/auth"
)

// durableProtocol names the sessions of durable subscriptions. Each is a session of its
// own, found again by user, client-id and name, so that it outlives the connection; the
// queue is the session's and ends with it.
const durableProtocol = "stomp-durable"

// durableState is what a durable subscription was made with. With another the old one
// ends, as it does in ActiveMQ.
type durableState struct {
	exchange, filter, selector string
}

// wantsDurable: durable:true as RabbitMQ's users write it, or a subscription name as
// ActiveMQ's do.
func wantsDurable(f *frame) bool {
	if f.has.holds(amqSubscriptionHeader) || f.has.holds(durableNameHeader) {
		return true
	}
	return f.isTrue(durableHeader) && !f.isTrue(autoDeleteHeader)
}

// durableName is what a durable subscription is found by.
func (c *conn) durableName(f *frame) string {
	name := f.text(idHeader)
	switch {
	case f.has.holds(amqSubscriptionHeader):
		name = f.text(amqSubscriptionHeader)
	case f.has.holds(durableNameHeader):
		name = f.text(durableNameHeader)
	}
	parts := []string{c.user, c.clientID, name}
	if c.clientID == "" {
		// Two programs without client-id may well use the same id.
		parts = append(parts, f.text(destinationHeader))
	}
	return strings.Join(parts, "\x00")
}

func (c *conn) durableHello(name string) core.Hello {
	return core.Hello{
		Protocol:  durableProtocol,
		Principal: auth.Principal{User: c.user, ClientID: c.clientID},
		ClientID:  name,
		Remote:    c.conn.RemoteAddr(),
		Resumable: true,
		Expiry:    core.Forever,
		Kick:      c.kicked,
	}
}

// durableSource finds the durable subscription again, or begins it.
func (c *conn) durableSource(f *frame, src source) (source, error) {
	name := c.durableName(f)
	if !f.has.holds(idHeader) {
		return src, malformed("a durable subscription needs an id header")
	}
	want := durableState{src.binding.Source, src.binding.Filter.String(), f.text(selectorHeader)}
	hello := c.durableHello(name)
	session, resumed, err := c.session.Broker().Connect(context.Background(), hello)
	if err != nil {
		return src, err
	}
	if have, ok := session.State().(durableState); resumed && ok && have != want {
		session.Close(core.CloseNormal)
		hello.Clean = true
		if session, _, err = c.session.Broker().Connect(context.Background(), hello); err != nil {
			return src, err
		}
	}
	session.SetState(want)
	src.session, src.durable = session, name
	src.spec.Key = core.Key(core.TopicQueue, "durable", name)
	src.spec.Durable, src.spec.Exclusive, src.lenient = true, true, true
	src.spec.Drops = c.session.Drops()
	c.bound(&src.spec.Args)
	src.binding.Queue = src.spec.Key
	return src, nil
}

// leave lets go of a durable subscription; it goes on unless it ends here.
func (s *source) leave(end bool) {
	if end {
		s.session.SetExpiry(0)
	}
	s.session.Close(core.CloseNormal)
}

// endDurable ends a durable subscription that is not attached.
func (c *conn) endDurable(f *frame) error {
	session, resumed, err := c.session.Broker().Connect(context.Background(), c.durableHello(c.durableName(f)))
	if err != nil {
		return err
	}
	session.SetExpiry(0)
	session.Close(core.CloseNormal)
	if !resumed {
		return bad("no such subscription")
	}
	return nil
}
