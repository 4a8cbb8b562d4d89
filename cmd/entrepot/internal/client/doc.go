// Package client is what `entrepot pub` and `entrepot sub` speak with: one
// connection to any MQTT (3.1.1, 5) or STOMP (1.0 to 1.2) broker, named by a
// URL, behind the same three verbs.
//
// It is a tool's client: one goroutine reads, one keeps the connection alive,
// and a publish waits for the broker's word before the next begins. Rates are
// measured by the bench package, which has a client of its own.
package client
