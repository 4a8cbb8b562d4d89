package amqp

import (
	"strings"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/routing"
)

// Direct reply-to, as RabbitMQ has it: a client consumes from replyTo, and its
// requests bear a name that begins with replyPrefix. It is that of an exclusive
// queue, so that the other protocols reach it as they reach any.
const (
	replyTo     = "amq.rabbitmq.reply-to"
	replyPrefix = replyTo + "."
)

// exchangePrefix begins a reply address that is no queue: /exchange/NAME/KEY.
// Clients send answers to the default exchange, with the address as key.
const exchangePrefix = "/exchange/"

// parseAddress reads an exchange and a routing key. Errors are *fault.
func parseAddress(exchange, key string) (core.Address, error) {
	if exchange == core.DefaultExchange {
		return parseQueueKey(key)
	}
	t, err := routing.Dotted.ParseTopic(key)
	if err != nil {
		return core.Address{}, badKey(err)
	}
	return core.Address{Exchange: exchange, Topic: t}, nil
}

// parseQueueKey reads a routing key of the default exchange, or a reply-to. No
// queue has the empty name; its address is one that nothing matches.
func parseQueueKey(key string) (core.Address, error) {
	if rest, ok := strings.CutPrefix(key, exchangePrefix); ok {
		if name, key, ok := strings.Cut(rest, "/"); ok && name != "" {
			return parseAddress(decodeName(name), key)
		}
	}
	t, err := routing.NewTopic(key)
	if err != nil {
		return core.Address{}, badKey(err)
	}
	return core.Address{Topic: t}, nil
}

// badKey refuses a key that no topic can have (names.md, section 3).
func badKey(err error) error {
	return &fault{code: frame.PreconditionFailed, text: "routing key refused: " + err.Error(), cause: err}
}

// printReply writes a reply address as a reply-to; false for one that does not
// fit in there.
func printReply(a core.Address) (string, bool) {
	if name, ok := a.QueueName(); ok {
		return name, len(name) <= frame.MaxShortText
	}
	key, err := routing.Dotted.PrintTopic(a.Topic)
	text := exchangePrefix + encodeName(a.Exchange) + "/" + key
	return text, err == nil && len(text) <= frame.MaxShortText
}

// encodeName writes an exchange's name so that it holds no slash.
func encodeName(name string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
}

func decodeName(name string) string {
	return strings.NewReplacer("%25", "%", "%2F", "/").Replace(name)
}

// target is where publishes with one exchange and routing key go.
type target struct {
	text     string // exchange and key as they stand in the frame
	exchange string
	key      string
	address  core.Address
	err      error // *fault, of a key that cannot be
}

// targets remembers a connection's targets by what basic.publish says of them;
// the last one is found without a look-up.
type targets struct {
	last *target
	all  map[string]*target
}

const (
	maxTargets    = 256 // beyond it all are forgotten
	maxRemembered = 300 // bytes; of longer ones only the last is kept
)

// find looks a target up by exchange and key as they stand in the frame, with
// their lengths.
func (t *targets) find(text, exchange, key []byte) *target {
	if t.last != nil && string(text) == t.last.text {
		return t.last
	}
	to := t.all[string(text)]
	if to == nil {
		to = &target{text: string(text), exchange: string(exchange), key: string(key)}
		to.address, to.err = parseAddress(to.exchange, to.key)
		t.add(to)
	}
	t.last = to
	return to
}

func (t *targets) add(to *target) {
	if len(to.text) > maxRemembered {
		return
	}
	if t.all == nil || len(t.all) >= maxTargets {
		t.all = map[string]*target{}
	}
	t.all[to.text] = to
}

// printed remembers how addresses are written in deliveries. Under the outbox's
// lock.
type printed struct {
	last core.Address
	name place
	all  map[core.Address]place
}

// place is an address in a delivery: exchange and routing key as they stand
// there, with their lengths.
type place struct {
	wire []byte
	// long: the key does not fit there and is empty; the header x-topic has it.
	long bool
}

func (p *printed) find(a core.Address) place {
	if a == p.last && p.name.wire != nil {
		return p.name
	}
	at, ok := p.all[a]
	if !ok {
		at = printPlace(a)
		if len(p.all) >= maxTargets || p.all == nil {
			p.all = map[core.Address]place{}
		}
		if len(at.wire) <= maxRemembered && !at.long {
			p.all[a] = at
		}
	}
	p.last, p.name = a, at
	return at
}

func printPlace(a core.Address) place {
	key := printKey(a)
	at := place{long: len(key) > frame.MaxShortText}
	at.wire = frame.AppendShortText(frame.AppendShortText(nil, a.Exchange), key)
	return at
}

// printKey is the routing key of an address.
func printKey(a core.Address) string {
	if name, ok := a.QueueName(); ok {
		return name
	}
	key, err := routing.Dotted.PrintTopic(a.Topic)
	if err != nil {
		key = a.Topic.String() // no topic: there is none in a published message
	}
	return key
}
