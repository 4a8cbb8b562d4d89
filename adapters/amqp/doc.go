// Package amqp is the AMQP 0-9-1 front-end, with RabbitMQ's extensions, on
// core.Session.
//
// A connection (conn) is fed bytes by adapters.Conn and takes frames off them by
// package frame. connect opens the session; a channel has a file for each thing
// that its methods are about: exchange, queue, publish, consume, ack, get,
// confirm, transaction. What comes back goes the other way in deliver, on the
// publisher's goroutine: a basic.deliver with its content is appended to the
// connection's outbox.
//
// Names are translated in address, message fields in properties, refusals in
// error. README.md is the manual page, with a row and a test for each method and
// rule.
package amqp
