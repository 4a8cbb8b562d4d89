package core

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"entrepot/core/auth"
	"entrepot/routing"
)

// QueueKind separates the name spaces of queues. Clients name only NamedQueue;
// the others are made by adapters and cannot be reached by any address.
type QueueKind uint8

const (
	NamedQueue   QueueKind = iota
	SessionQueue           // one a client session: (client id)
	GroupQueue             // a shared subscription: (group, filter)
	TopicQueue             // one subscription: (session, subscription)
)

// QueueKey names a queue in its realm.
type QueueKey struct {
	Kind QueueKind
	Name string
}

// Named is the key of a queue that clients call by name.
func Named(name string) QueueKey { return QueueKey{NamedQueue, name} }

// Key is the key of an internal queue; parts hold no NUL.
func Key(kind QueueKind, parts ...string) QueueKey {
	return QueueKey{kind, strings.Join(parts, "\x00")}
}

// String is for logs and errors.
func (k QueueKey) String() string {
	kind := [...]string{"queue", "session queue", "group queue", "subscription queue"}[k.Kind&3]
	return fmt.Sprintf("%s %q", kind, strings.ReplaceAll(k.Name, "\x00", " "))
}

// Overflow is what a queue at its limit does with a new message.
type Overflow uint8

const (
	DropHead Overflow = iota
	RejectPublish
	RejectPublishDLX
)

// QueueArgs are a queue's typed arguments; zero means not set, except where
// a Has field says so.
type QueueArgs struct {
	MessageTTL    time.Duration
	HasMessageTTL bool
	Expires       time.Duration // the queue goes after so long without use
	MaxLength     int
	HasMaxLength  bool
	MaxBytes      int64 // payload bytes
	HasMaxBytes   bool
	Overflow      Overflow
	DeadLetter    *DeadLetter
	MaxPriority   int
	MaxOvertakes  int // how many in a row may pass messages of lower priority; 0: any number
	SingleActive  bool
	DeliveryLimit int // how often a message may be given back; negative: no limit
	HasLimit      bool
	RedeliverWait time.Duration
	LastValueKey  string
	// Shown holds what is kept and shown without effect.
	Shown routing.Headers
}

// DeadLetter is where a queue sends what it gives up.
type DeadLetter struct {
	Exchange string
	Key      string // routing key in dotted spelling; "" keeps the message's own
	HasKey   bool
}

// QueueSpec describes a queue to declare. Declaring again with the same
// properties is no error; with others it is ErrConflict.
type QueueSpec struct {
	Key     QueueKey
	Durable bool
	// Exclusive: only the session By may touch it, and it goes when that
	// session ends.
	Exclusive  bool
	AutoDelete bool // goes when its last consumer leaves
	Args       QueueArgs
	// Passive: only tell whether it exists.
	Passive bool
	// Prefix begins the name where the broker makes one; "" is amq.gen-. Clients
	// need no right to an exclusive queue that got its name so.
	Prefix string
	// Drops counts what the queue drops; nil counts for the broker.
	Drops *Drops
	By    SessionID
	// User is whose queues it counts among; "" is nobody's. Stamped by Session.
	User string
}

// QueueInfo is what declare tells.
type QueueInfo struct {
	Key       QueueKey
	Messages  int // ready, not counting those out for settlement
	Unsettled int
	Bytes     int64
	Consumers int
	// DeadLetters were given up and wait for a queue that takes them; they
	// count in Bytes, not in Messages.
	DeadLetters int
	Policy      string // the name of the one that it has; "": none
}

// DeleteOptions restrict a delete.
type DeleteOptions struct {
	IfUnused bool
	IfEmpty  bool
	IfOwned  bool // only an exclusive queue of By, else ErrLocked
	By       SessionID
}

// ConsumeOptions describe a consumer.
type ConsumeOptions struct {
	// NoAck: every delivery is settled by handing it over, whatever the
	// receiver answers but Full.
	NoAck     bool
	Exclusive bool // nobody else may consume meanwhile, but with Pull
	// Pull: no deliveries, only Consumer.Get; not counted as a consumer.
	Pull bool
	// Paused: nothing is delivered before the first Resume.
	Paused   bool
	Priority int
	By       SessionID
	// Accepts, where it is set, tells which messages the consumer takes. The
	// others wait in their places for somebody else, and those behind them are
	// delivered meanwhile; each consumer gets what it accepts in the queue's
	// order. An engine may bound how many are passed over: beyond that the
	// queue waits. Called under the queue's lock, about once a message and once
	// more when that comes back, never twice at once nor beside Deliver: it is
	// pure and quick, and calls nothing back. ErrUnsupported with Pull, on a
	// SessionQueue, and from engines that cannot.
	Accepts func(m *Message) bool
}

// maxName is the longest queue or exchange name in bytes.
const maxName = 255

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// checkName holds the rule for queue and exchange names: 1 to 255 bytes of
// UTF-8 without NUL and U+FFFF.
func checkName(noun, name string) error {
	switch {
	case name == "":
		return invalid("%s name is empty", noun)
	case len(name) > maxName:
		return invalid("%s name is longer than %d bytes", noun, maxName)
	case !plainText(name):
		return invalid("%s name is not UTF-8 without NUL and U+FFFF", noun)
	}
	return nil
}

// plainText tells whether every protocol can carry a text as a name.
func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\uffff")
}

// generatedPrefix begins the names of queues that the broker named.
const generatedPrefix = "amq.gen-"

// reservedName tells names that clients cannot declare.
func reservedName(name string) bool {
	return strings.HasPrefix(name, "amq.") || strings.HasPrefix(name, "$")
}

// Reserved says why nobody but the broker may do something, whatever the policy;
// "" for all else. The text is a line.
func Reserved(a auth.Action, o auth.Object) string {
	switch {
	case a == auth.Publish && o.Kind == auth.Topic && strings.HasPrefix(o.Name, "$"):
		return "by the broker: topics that begin with $ are its own\n"
	case a == auth.Declare && (o.Kind == auth.Queue || o.Kind == auth.Exchange) && reservedName(o.Name):
		return "by the broker: names that begin with amq. or $ are its own\n"
	}
	return ""
}
