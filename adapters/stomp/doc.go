// Package stomp is the STOMP front-end, versions 1.0, 1.1 and 1.2, on core.Session.
//
// A connection (conn) is fed bytes by adapters.Conn. frame parses in place, each
// command has a file that turns the frame into verbs of the session: connect, send,
// subscribe, ack, transaction. What comes back goes the other way in deliver, on the
// publisher's goroutine: a MESSAGE is appended to the connection's outbox.
//
// Names are translated in destination, message fields in headers, refusals in error.
// README.md is the manual page, with a row and a test for each rule of the
// specifications.
package stomp
