// Package adapters holds what the front-ends share: the accept loop with its
// limits, a connection's reader, the outbox that its client's bytes leave by,
// and the wheel that keeps time-outs.
//
// A front-end implements Protocol. Server accepts a connection, makes a
// Protocol for it and drives it from one reader goroutine: bytes come in by
// Feed, Idle is called when the input is used up. Bytes go out by the
// connection's Outbox, which never makes a caller wait.
package adapters
