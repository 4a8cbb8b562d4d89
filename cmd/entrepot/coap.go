package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"entrepot/adapters"
	"entrepot/adapters/coap"
	"entrepot/core"
)

var errNoDTLS = errors.New("DTLS needs a certificate (tls.certs) or keys (auth.users, coap.psk_file)")

// newCoAP makes CoAP's server, with the keys of its clients.
func newCoAP(cfg coap.Config, realms *core.Realms, again *reloads, log *slog.Logger) (*coap.Server, error) {
	c := coap.New(cfg, realms, log)
	apply, err := c.Read()
	if err != nil {
		return nil, settings(err)
	}
	apply()
	again.add("coap", c.Read)
	return c, nil
}

// onAll is CoAP, which is spoken on datagrams and on connections; keys tells that
// clients may share keys with the broker, which then needs no certificate for DTLS.
func onAll(c *coap.Server, cfg coap.Config, keys bool, gate adapters.Gate) front {
	return front{protocol: "coap", server: c, bare: adapters.OverUDP, listen: cfg.Listen, bind: func(a adapters.Address) (socket, error) {
		switch {
		case !a.Transport.Packets():
			l, err := gate.Listen(a, "coap")
			if err != nil {
				return socket{}, err
			}
			return socket{a, l.Addr(), func() error { return c.ServeStream(l) }, l.Close}, nil
		case a.Transport == adapters.OverDTLS && !keys && (gate.TLS == nil || len(gate.TLS.Certificates()) == 0):
			return socket{}, fmt.Errorf("listen on %s: %w", a.Name, errNoDTLS)
		}
		p, err := adapters.ListenPacket(a)
		if err != nil {
			return socket{}, err
		}
		return socket{a, p.LocalAddr(), func() error { return servePackets(c, p, a, gate) }, p.Close}, nil
	}}
}

func servePackets(c *coap.Server, p net.PacketConn, a adapters.Address, gate adapters.Gate) error {
	if a.Transport == adapters.OverDTLS {
		return c.ServeDTLS(p, a, gate.TLS)
	}
	return c.Serve(p)
}
