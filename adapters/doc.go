// Package adapters holds what the front-ends share: listeners and the accept
// loop with its limits, a connection's reader, the outbox that its client's
// bytes leave by, and the wheel that keeps time-outs.
//
// A front-end implements Protocol. Server accepts a connection, makes a
// Protocol for it and drives it from one reader: bytes come in by Feed, Idle is
// called when they are used up. Bytes go out by the connection's Outbox, which
// never makes a caller wait.
//
// A connection has one goroutine, and while it is idle no buffer, timer or
// writer. Its frames are handled on a stack on loan unless it is busy, so that
// its own stays small (stacks). A busy one does without the read that finds
// nothing (probe). Buffers are on loan too; each is given back once, by whoever
// has it then (buffers).
//
// WebSocket makes HTTP handlers whose connections a Server takes like any other
// (Carried). Such a one keeps buffers and a timer while it is idle.
package adapters
