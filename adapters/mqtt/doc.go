// Package mqtt is the MQTT front-end: 3.1, 3.1.1 and 5.0 over any carrier that
// gives a net.Conn.
//
// A conn is one client's connection. Its reader parses packets and calls the
// core; what the core delivers comes to a source, one for each queue that the
// client consumes, on other connections' goroutines, and goes as bytes into
// the connection's outbox. A session is what outlives the connection:
// subscriptions and packet ids, kept with core.Session.SetState, and, where it
// outlives a restart of the broker too, as notes on the disk (notes.go). Then
// QoS 2 waits for the disk at three places: a PUBLISH to the client at the gate,
// for its identifier; PUBREL for the end of the message; PUBREC and PUBCOMP to
// the client for its own identifier's coming and going.
//
// PUBLISH and its acknowledgements are read and written by hand on bytes; the
// other packets by mochi's codec, behind checks of our own (check.go,
// properties.go), because that codec trusts what it reads.
//
// Locks, in this order: gate.mu, acks.mu or an outbox, then session.mu. No lock
// is held over a call into the core but Session.Keep.
package mqtt
