// Package frame is the wire format of AMQP 0-9-1, with RabbitMQ's extensions:
// frames, the fields of methods and content headers, and tables.
//
// Next takes a frame off a buffer. Reader takes the fields of its payload, in
// their order, and remembers what did not fit. Begin, the Append functions and
// End write a method frame; AppendHeader and AppendBody write a message after
// it. Nothing is allocated on a peer's word: a length counts for what has come.
//
// Method and its catalogue name everything that can be called; testdata/amqp
// has the published table that they are checked against.
package frame
