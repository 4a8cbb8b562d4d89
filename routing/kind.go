package routing

import "fmt"

// Kind says how an exchange picks among its bindings.
type Kind uint8

// The kinds of exchanges (AMQP 0-9-1, 3.1.3).
const (
	Direct      Kind = iota + 1 // the topic is the one of the binding
	Fanout                      // every binding
	TopicKind                   // the filter of the binding matches the topic
	HeadersKind                 // the arguments of the binding match the headers
)

// String is the name that clients use: direct, fanout, topic, headers.
func (k Kind) String() string {
	switch k {
	case Direct:
		return "direct"
	case Fanout:
		return "fanout"
	case TopicKind:
		return "topic"
	case HeadersKind:
		return "headers"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ParseKind reads what String gives. Errors wrap [ErrKind].
func ParseKind(name string) (Kind, error) {
	for k := Direct; k <= HeadersKind; k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%w: the kinds are direct, fanout, topic and headers", ErrKind)
}
