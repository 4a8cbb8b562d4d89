package adapters

import (
	"net"
	"net/netip"

	"entrepot/core/auth"
)

// Credentials are what is known of the client before it says anything: where it
// came in, from where, and its certificate. Called from Feed.
func (c *Conn) Credentials(protocol string) auth.Credentials {
	return auth.Credentials{Protocol: protocol, Listener: c.Listener(), Remote: ipOf(c.conn.RemoteAddr()), Certificate: c.Certificate()}
}

// ipOf is the zero Addr for a unix socket and a pipe.
func ipOf(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr().Unmap()
}
