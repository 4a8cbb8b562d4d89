package core

import (
	"time"

	"entrepot/routing"
)

// Guarantee is what the publisher asked for.
type Guarantee uint8

const (
	// AtMostOnce: a subscription queue takes the message only while a consumer
	// is attached and forgets it when the last one leaves; a named queue keeps
	// it in memory. Never a disk write.
	AtMostOnce Guarantee = iota
	// AtLeastOnce: kept in memory until settled; Done is called when the
	// message is in every queue that it matches.
	AtLeastOnce
	// Durable: kept across crashes in durable queues; Done is called after it
	// is synced to disk in every durable queue that it matches.
	Durable
	// Once: as Durable, and the publisher saw to it that it comes once (MQTT
	// QoS 2), which receivers that can pass on.
	Once
)

// String names the guarantee for logs.
func (g Guarantee) String() string {
	switch g {
	case AtMostOnce:
		return "at most once"
	case AtLeastOnce:
		return "at least once"
	case Durable:
		return "durable"
	default:
		return "once"
	}
}

// Names of the exchanges that every realm has.
const (
	DefaultExchange = ""
	TopicExchange   = "amq.topic"
)

// Message is what travels, in no protocol's terms. The publisher fills it;
// after Publish or Apply nobody may change it or its payload.
type Message struct {
	// Exchange and Topic say where it goes. On the default exchange the topic
	// has one level, the queue's name.
	Exchange string
	Topic    routing.Topic
	Payload  []byte
	// Props holds the rare fields; nil when there are none.
	Props *Properties
	// Origin is stamped by Session.Publish; clients cannot set it.
	Origin    *Origin
	Guarantee Guarantee
	// Transient: the publisher said that AtLeastOnce is what it wants, rather
	// than nothing (AMQP 0-9-1, delivery mode 1). Nothing depends on it.
	Transient bool
	// Retain asks to keep the message as its topic's last value; only on
	// TopicExchange. An empty payload clears the value.
	Retain bool
}

// Properties are the fields that few messages carry. Zero values mean absent.
type Properties struct {
	ContentType     string
	ContentEncoding string
	// Text: the publisher vouches that the payload is UTF-8 (MQTT payload format 1).
	Text    bool
	Headers routing.Headers
	// CC and BCC are more topics to route by, on the same exchange; each queue
	// gets the message once. BCC is nothing that a receiver may see.
	CC, BCC     []routing.Topic
	Correlation []byte
	ReplyTo     Address
	// TTL counts from Publish and is a whole number of milliseconds; HasTTL
	// tells zero ("only if it can be handed over at once") from none.
	TTL    time.Duration
	HasTTL bool
	// Expires is stamped by Publish from TTL, on the monotonic clock.
	Expires time.Time
	// Delay asks for delivery so long after Publish, which stamps Due from it;
	// a publisher that knows the time sets Due alone. A message with a Due is
	// routed when that has come, at once when it is over; its TTL counts from
	// then. Both are zero in a delivery.
	Delay       time.Duration
	Due         time.Time
	Priority    uint8
	HasPriority bool
	MessageID   string
	Type        string
	AppID       string
	Timestamp   time.Time
	// Native is the publisher's adapter's own form of the message, for receivers
	// that speak the same protocol. It does not outlive the process, and like
	// the message it does not change.
	Native any
}

// Remaining is how long a message may still wait at now, never negative;
// ok is false when it does not expire.
func (m *Message) Remaining(now time.Time) (d time.Duration, ok bool) {
	if m.Props == nil || !m.Props.HasTTL {
		return 0, false
	}
	return max(m.Props.Expires.Sub(now), 0), true
}

// Expired tells whether the message has outlived its TTL at now.
func (m *Message) Expired(now time.Time) bool {
	return m.Props != nil && m.Props.HasTTL && !now.Before(m.Props.Expires)
}

// Address is a place to publish to: an exchange and a topic, a queue being the
// default exchange with its name as the one level. The zero value is none.
type Address struct {
	Exchange string
	Topic    routing.Topic
}

// IsZero tells whether there is no address.
func (a Address) IsZero() bool { return a.Topic.IsZero() }

// brokersOwn tells whether nobody but the broker publishes there.
func (a Address) brokersOwn() bool { return a.Exchange == TopicExchange && a.Topic.Dollar() }

// QueueAddress is the address of the named queue. The error wraps ErrInvalid.
func QueueAddress(name string) (Address, error) {
	if err := checkName("queue", name); err != nil {
		return Address{}, err
	}
	t, err := routing.NewTopic(name)
	if err != nil {
		return Address{}, invalid("queue %q: %v", name, err)
	}
	return Address{Topic: t}, nil
}

// QueueName is the queue that an address on the default exchange names.
func (a Address) QueueName() (string, bool) {
	if a.Exchange != DefaultExchange || a.Topic.Len() != 1 {
		return "", false
	}
	return a.Topic.Levels()[0], true
}

// Origin says who published. One value serves all messages of a session.
type Origin struct {
	Protocol string
	ClientID string
	User     string
	Session  SessionID
}

// The payload classes of NewMessage: header and payload in one allocation.
type (
	message64 struct {
		Message
		body [64]byte
	}
	message160 struct {
		Message
		body [160]byte
	}
	message400 struct {
		Message
		body [400]byte
	}
	message1024 struct {
		Message
		body [1024]byte
	}
)

// NewMessage returns a message with a payload of n bytes for the caller to
// fill, in one allocation up to 1 KiB.
func NewMessage(n int) *Message {
	switch {
	case n == 0:
		return &Message{}
	case n <= 64:
		b := &message64{}
		b.Payload = b.body[:n:n]
		return &b.Message
	case n <= 160:
		b := &message160{}
		b.Payload = b.body[:n:n]
		return &b.Message
	case n <= 400:
		b := &message400{}
		b.Payload = b.body[:n:n]
		return &b.Message
	case n <= 1024:
		b := &message1024{}
		b.Payload = b.body[:n:n]
		return &b.Message
	}
	return &Message{Payload: make([]byte, n)}
}
