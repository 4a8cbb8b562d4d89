// Package admin is the HTTP front-end for those who run the broker: /healthz
// says that the process answers, /readyz that clients can connect, /metrics
// what the broker counts, in Prometheus' text form, /api/v1 does work on queues,
// and / is a live page.
//
// Others may hang their paths beside these (Handle): WebSockets come in so. What
// changes something is a command (HandleCommand).
//
// It reads the broker through core.Broker.Stats like any other adapter and has
// no private door. door.go finds out who asks: with users, that takes a password,
// a token, a certificate or the page's cookie (visits.go), and the admin right;
// without, it answers this machine's programs. It answers GET and HEAD only but
// for commands, names no client in a label, and, where nobody has to log in, refuses requests
// whose Host is not this machine, so that a page in a browser cannot reach it through
// a name of its own (DNS rebinding).
package admin
