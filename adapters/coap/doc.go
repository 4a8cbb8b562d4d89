// Package coap is the CoAP front-end (RFC 7252, 7641, 7959, 7967, 8132, 8323, 9175)
// on core.Session.
//
// A link is a way to clients: a socket (UDP, all clients that proved nothing), an
// association (DTLS, one client, wherever it is) or a conn (TCP and TLS, one
// client; a stream, where nothing is lost). A route is a client on a link. A
// dtlsSocket keeps strangers out until they returned a cookie.
//
// A packet comes in by a link, is decoded (message), looked up among those
// that were answered (ids), checked (request) and handed to a resource: topic
// for /t, queue for /q, exchange for /x, procedure for /rpc, links for
// /.well-known/core, collection for /ps. A resource answers through its
// exchange, at once or later from another goroutine. Bodies larger than a
// block come and go by blockwise.
//
// Observers of one filter share a watch, which is one queue and one consumer of
// the core and keeps the newest value of each topic. A peer is a client that the
// broker sends something to by itself: it holds the confirmable message that is
// under way (one at a time) and says how fast notifications may follow.
//
// Messages and their options are go-coap's, the socket is ours: README.md says
// why. It is also the manual page, with a row and a test for each rule.
package coap
