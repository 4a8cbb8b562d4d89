package stomp

import (
	"strings"

	"entrepot/core"
	"entrepot/routing"
)

// placeKind is the first part of a destination.
type placeKind uint8

const (
	topicPlace placeKind = iota
	queuePlace
	exchangePlace
	amqQueuePlace
	replyQueuePlace
	tempQueuePlace
	tempTopicPlace
	procedurePlace
)

// prefixes of destinations, by kind.
var prefixes = [...]string{"/topic/", "/queue/", "/exchange/", "/amq/queue/", "/reply-queue/", "/temp-queue/", "/temp-topic/", "/rpc/"}

// place is a destination taken apart, not yet looked up.
type place struct {
	kind placeKind
	name string // of the queue or exchange; the client's own for a temporary one
	key  string // of a topic, exchange or procedure, as written
}

// parsePlace takes a destination apart. Errors are *fault.
func parsePlace(text string) (place, error) {
	for k, prefix := range prefixes {
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		p := place{kind: placeKind(k)}
		switch {
		case rest == "":
			return place{}, bad("destination %.60q has no name", text)
		case p.kind == topicPlace, p.kind == procedurePlace:
			p.key = rest
		case p.kind == exchangePlace:
			name, key, _ := strings.Cut(rest, "/")
			p.name, p.key = decodeName(name), key
			if p.name == core.DefaultExchange {
				return place{}, bad("destination %.60q has no exchange", text)
			}
		default:
			p.name = decodeName(rest)
		}
		return p, nil
	}
	return place{}, bad("destination %.60q is unknown: it must begin with one of %s", text, strings.Join(prefixes[:], " "))
}

// decodeName reads a name in which '/' is %2F and a literal "%2F" is kept apart by 25
// after the percent sign. Anything else, also a '/', stands for itself.
func decodeName(text string) string {
	return rewriteSlashes(text, func(n int) string {
		if n == 0 {
			return "/"
		}
		return "%" + strings.Repeat("25", n-1) + "2F"
	})
}

// encodeName writes a name so that decodeName reads it back and no '/' is in it.
func encodeName(name string) string {
	name = rewriteSlashes(name, func(n int) string { return "%" + strings.Repeat("25", n+1) + "2F" })
	return strings.ReplaceAll(name, "/", "%2F")
}

// rewriteSlashes replaces every "%", n times "25", "2F" by what f says.
func rewriteSlashes(text string, f func(n int) string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		if text[i] == '%' {
			j, n := i+1, 0
			for strings.HasPrefix(text[j:], "25") {
				j, n = j+2, n+1
			}
			if strings.HasPrefix(text[j:], "2F") {
				out.WriteString(f(n))
				i = j + 2
				continue
			}
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

// spelling is how /topic destinations are written: with dots, or with slashes.
type spelling struct{ slash bool }

// topic reads what follows /topic/ in a SEND.
func (s spelling) topic(text string) (routing.Topic, error) {
	if s.slash {
		return routing.MQTT.ParseTopic(text)
	}
	return routing.Dotted.ParseTopic(text)
}

// filter reads what follows /topic/ in a SUBSCRIBE: '*' is one level, '#' any, and so
// is '>' at the end.
func (s spelling) filter(text string) (routing.Filter, error) {
	if !s.slash {
		return routing.Dotted.ParseAngle(text)
	}
	levels := strings.Split(text, "/")
	for i, l := range levels {
		if l == "*" {
			levels[i] = "+"
		} else if l == ">" && i == len(levels)-1 {
			levels[i] = "#"
		}
	}
	return routing.ParseFilter(strings.Join(levels, "/"))
}

// print writes the destination that reaches an address.
func (s spelling) print(a core.Address) string {
	if name, ok := a.QueueName(); ok {
		if privateName(name) {
			return prefixes[replyQueuePlace] + encodeName(name)
		}
		return prefixes[queuePlace] + encodeName(name)
	}
	if a.Exchange == core.TopicExchange && s.slash {
		return prefixes[topicPlace] + a.Topic.String()
	}
	key, err := routing.Dotted.PrintTopic(a.Topic)
	if err != nil {
		key = a.Topic.String() // no topic: there is none in a published message
	}
	switch a.Exchange {
	case core.TopicExchange:
		return prefixes[topicPlace] + key
	case core.RPCExchange:
		return prefixes[procedurePlace] + key
	}
	return prefixes[exchangePlace] + encodeName(a.Exchange) + "/" + key
}

// replyPrefix begins the names of temporary queues.
const replyPrefix = "stomp-reply-"

// privateName tells queues that a client cannot declare by writing their name:
// temporary ones, and the broker's own.
func privateName(name string) bool {
	return strings.HasPrefix(name, replyPrefix) || strings.HasPrefix(name, "amq.") || strings.HasPrefix(name, "$")
}

// address is where a place is reached. Temporary ones have none of their own.
func (s spelling) address(p place) (core.Address, error) {
	switch p.kind {
	case topicPlace:
		t, err := s.topic(p.key)
		return core.Address{Exchange: core.TopicExchange, Topic: t}, badName(err)
	case exchangePlace:
		t, err := routing.Dotted.ParseTopic(p.key)
		return core.Address{Exchange: p.name, Topic: t}, badName(err)
	case procedurePlace:
		t, err := routing.Dotted.ParseTopic(p.key)
		return core.Address{Exchange: core.RPCExchange, Topic: t}, badName(err)
	default:
		a, err := core.QueueAddress(p.name)
		return a, badName(err)
	}
}

// badName is the fault for a name that cannot be.
func badName(err error) error {
	if err == nil {
		return nil
	}
	return &fault{message: "invalid destination", detail: err.Error(), cause: err}
}
