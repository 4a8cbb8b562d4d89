package stomp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"entrepot/core"
)

// durableProtocol names the sessions of durable subscriptions. Each is a session of its
// own, found again by user, client-id and name, so that it outlives the connection; the
// queue is the session's and ends with it.
const durableProtocol = "stomp-durable"

// durableState is what a durable subscription was made with. With another the old one
// ends, as it does in ActiveMQ.
type durableState struct {
	Exchange, Filter, Selector string
}

// durableNote is the key under which it is noted for the next start of the broker.
const durableNote = "stomp"

// stateOf is what a session that was found again was made with.
func stateOf(s *core.Session) (durableState, bool, error) {
	if have, ok := s.State().(durableState); ok {
		return have, true, nil
	}
	var have durableState
	found := false
	err := s.Notes([]byte(durableNote), func(_, value []byte) {
		found = json.Unmarshal(value, &have) == nil
	})
	return have, found, err
}

// note keeps it.
func (d durableState) note(c *conn, s *core.Session) error {
	s.SetState(d)
	value, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("durable subscription: %w", err)
	}
	s.Apply(c.lane, []core.Op{{Note: &core.Note{Key: []byte(durableNote), Value: value}}}, c.sent)
	return nil
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
		Principal: c.session.Principal(),
		ClientID:  name,
		Remote:    c.conn.RemoteAddr(),
		Resumable: true,
		Expiry:    core.Forever,
		Kick:      c.kicked,
		Withdrawn: c.withdrawn,
	}
}

// durableSource finds the durable subscription again, or begins it.
func (c *conn) durableSource(f *frame, src source) (source, error) {
	name := c.durableName(f)
	if !f.has.holds(idHeader) {
		return src, malformed("a durable subscription needs an id header")
	}
	want := durableState{src.binding.Source, src.binding.Filter.String(), f.text(selectorHeader)}
	session, err := c.durableSession(name, want)
	if err != nil {
		return src, err
	}
	src.session, src.durable = session, name
	src.spec.Key = core.Key(core.TopicQueue, "durable", name)
	src.spec.Durable, src.spec.Exclusive, src.lenient = true, true, true
	src.spec.Drops = c.session.Drops()
	c.bound(&src.spec.Args)
	src.binding.Queue = src.spec.Key
	return src, nil
}

// durableSession finds the session of a durable subscription, or begins it.
func (c *conn) durableSession(name string, want durableState) (*core.Session, error) {
	hello := c.durableHello(name)
	session, resumed, err := c.session.Broker().Connect(context.Background(), hello)
	if err != nil {
		return nil, err
	}
	if resumed {
		have, known, err := stateOf(session)
		if err != nil {
			session.Close(core.CloseNormal)
			return nil, err
		}
		if known && have == want {
			return session, nil
		}
		session.Close(core.CloseNormal)
		hello.Clean = true
		if session, _, err = c.session.Broker().Connect(context.Background(), hello); err != nil {
			return nil, err
		}
	}
	return session, want.note(c, session)
}

// durableSessions yields the sessions of the durable subscriptions that are open.
func (c *conn) durableSessions(yield func(*core.Session) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subs {
		if s.source.durable != "" && !yield(s.source.session) {
			return
		}
	}
}

// leave lets go of a durable subscription; it goes on unless it ends here.
func (s *source) leave(end bool, reason core.CloseReason) {
	if end {
		s.session.SetExpiry(0)
	}
	s.session.Close(reason)
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
