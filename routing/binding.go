package routing

import "errors"

// What a [Router] refuses.
var (
	// ErrNoExchange says that there is no exchange of that name.
	ErrNoExchange = errors.New("no such exchange")
	// ErrConflict says that the exchange is there with another kind or alternate.
	ErrConflict = errors.New("exchange declared otherwise")
	// ErrKind says that a kind is none of the four.
	ErrKind = errors.New("no such exchange kind")
	// ErrBinding says that a binding is not one that its source exchange can use.
	ErrBinding = errors.New("binding refused")
)

// Binding is a rule of the exchange Source: what it lets through goes to a queue, or to another exchange. Its identity is
// (Source, target, Filter, Args); the order of Args with different names does not count.
type Binding[Q comparable] struct {
	Source   string
	Queue    Q      // the target, when Exchange is ""
	Exchange string // the target exchange, when not ""
	// Filter is what a topic exchange matches with; for a direct exchange it has no wildcard (the filter of a topic, so
	// a '*' in a key is a literal). For other kinds it is part of the identity only.
	Filter Filter
	// Args of a headers exchange are what it matches with: x-match is all (also when absent), any, all-with-x or
	// any-with-x. For other kinds they are part of the identity only.
	Args Headers
	// Value is the adapter's own, given back by [Router.Route].
	Value any
}
