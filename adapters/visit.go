package adapters

import "entrepot/core/auth"

// Visit is the log-in of a web page that opened a WebSocket: the page's cookie
// proved it.
type Visit struct {
	Principal auth.Principal
	// Hold has end called once, on any goroutine, when the log-in ends; at once
	// if it has. release is called when the connection is gone.
	Hold func(end func()) (release func())
}
