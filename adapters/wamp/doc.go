// Package wamp is the WAMP front-end: a broker and dealer of WAMP version 2 over
// WebSocket, in JSON, MessagePack and CBOR, on core.Session.
//
// A connection (conn) is fed bytes by adapters.Conn. frame reads WebSocket frames
// in place, message cuts a WAMP message into its elements, which stay encoded until
// somebody needs them, and value with its three formats (json, msgpack, cbor)
// checks, reads and writes them. Each kind of message has a file that turns it into
// verbs of the session: hello, publish, subscribe, call, register. What comes back
// is written in event and invocation, on the goroutine of whoever caused it.
//
// payload says what arguments are to other protocols and payloads to WAMP. A realm
// knows its sessions and subscriptions, and answers the meta procedures.
// README.md is the manual page.
package wamp
