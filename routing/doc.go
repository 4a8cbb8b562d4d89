// Package routing says what the broker's names mean and who gets a message. It is pure: no goroutine, clock, I/O, log
// or lock, and it knows no protocol's wire.
//
// Names. A [Topic] is a list of levels, a [Filter] a list of segments: a literal level, one-level, or any-levels. Both
// are held as one string, their canonical text, which is the MQTT spelling; so they are compared and hashed as strings.
// The other protocols write the same lists otherwise: [MQTT], [Dotted], [URI] and [Path] parse and print. A spelling
// never changes the list: parse(print(levels)) is levels, and print(parse(text)) is text.
//
// Tables. [Table] holds filters and is asked with a topic (subscriptions); [Tree] holds topics and is asked with a
// filter (retained messages). Both visit each of their nodes at most twice in one match, whatever the filters are.
//
// Exchanges. [Router] holds the exchanges of one realm and their bindings, and tells the queues that a message goes to.
//
// Nothing here may be written and read at once: the caller locks. Reads may run beside each other.
package routing
