package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"entrepot/adapters"
)

// server is what a front-end gives to be run.
type server interface {
	Shutdown(context.Context) error
	Refused() map[string]uint64
}

// front is one protocol: its server and where that listens.
type front struct {
	protocol string
	server   server
	bare     adapters.Transport
	listen   []string
	bind     func(adapters.Address) (socket, error)
	bound    []socket // by open
}

// socket is an address that was bound. It is served, or else closed.
type socket struct {
	adapters.Address
	at    net.Addr
	serve func() error
	close func() error
}

// newDoor is where clients of all protocols come in.
func newDoor(cfg adapters.DoorConfig) *adapters.Door {
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = mostConnections()
	}
	return adapters.NewDoor(cfg)
}

// behind puts all that have connections behind one door.
func behind(d *adapters.Door, fronts []front) {
	for _, f := range fronts {
		if s, ok := f.server.(interface{ Behind(*adapters.Door) }); ok {
			s.Behind(d)
		}
	}
}

// streams is a protocol on connections; alpn are its names in TLS.
func streams(protocol string, s interface {
	server
	Serve(net.Listener) error
}, gate adapters.Gate, listen []string, alpn ...string) front {
	return front{protocol: protocol, server: s, bare: adapters.OverTCP, listen: listen, bind: func(a adapters.Address) (socket, error) {
		l, err := gate.Listen(a, alpn...)
		if err != nil {
			return socket{}, err
		}
		return socket{l.Address, l.Addr(), func() error { return s.Serve(l) }, l.Close}, nil
	}}
}

// open binds every address first, and only then lets anybody in. Its error
// names all addresses that cannot be had.
func open(fronts []front, log *slog.Logger) error {
	var errs []error
	bound := make([][]socket, len(fronts))
	for i, f := range fronts {
		addresses, err := adapters.ParseAddresses(f.listen, f.bare)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.protocol, err))
		}
		for _, a := range addresses {
			s, err := f.bind(a)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w (flag --%s, key %s.listen)", f.protocol, err, f.protocol, f.protocol))
				continue
			}
			bound[i] = append(bound[i], s)
		}
	}
	for i, f := range fronts {
		for _, s := range bound[i] {
			if len(errs) > 0 {
				// The first errors are what counts.
				_ = s.close()
				continue
			}
			if err := s.serve(); err != nil {
				return err
			}
			fronts[i].bound = append(fronts[i].bound, s)
			log.Info("listening", "protocol", f.protocol, "address", shown(s.at), "transport", s.Address.Transport)
		}
	}
	return errors.Join(errs...)
}

// shown is an address as settings and clients write it.
func shown(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}
