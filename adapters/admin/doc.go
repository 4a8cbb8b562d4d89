// Package admin is the HTTP front-end for those who run the broker: /healthz
// says that the process answers, /readyz that clients can connect, /metrics
// what the broker counts, in Prometheus' text form.
//
// Others may hang their paths beside these (Handle): WebSockets come in so. What
// changes something is a command (HandleCommand), for this machine's own
// programs.
//
// It reads the broker through core.Broker.Stats like any other adapter and has
// no private door. It answers GET and HEAD only but for commands, names no client in a label,
// and refuses requests whose Host is not this machine, so that a page in a
// browser cannot reach it through a name of its own (DNS rebinding).
package admin
