package mqtt

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"entrepot/adapters"
	"entrepot/core"
)

// protocolName is the protocol in origins, figures and logs.
const protocolName = "mqtt"

// Server is the MQTT front-end of a broker, on any number of listeners.
type Server struct {
	cfg    Config
	realms *core.Realms
	log    *slog.Logger
	net    *adapters.Server
	sys    *figures

	told [256]atomic.Uint64 // by reason code
}

// New returns a server with valid settings. Clients get the first realm.
func New(cfg Config, realms *core.Realms, log *slog.Logger) *Server {
	s := &Server{cfg: cfg, realms: realms, log: log.With("protocol", protocolName)}
	s.net = adapters.NewServer(cfg.Limits, protocolName, log, s.open)
	s.sys = newFigures(realms, cfg.SysInterval)
	return s
}

// Serve accepts from l until Shutdown, which closes l. It returns at once.
func (s *Server) Serve(l net.Listener) error {
	s.sys.start()
	return s.net.Serve(l)
}

// ServeConn takes over a connection from elsewhere: a WebSocket, a pipe. It
// returns at once.
func (s *Server) ServeConn(c net.Conn) { s.net.ServeConn(c) }

// Shutdown tells every client that the broker stops, closes the connections
// and waits for them, or for ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.sys.stop()
	return s.net.Shutdown(ctx)
}

// Told counts the refusals and errors that clients were told of, by MQTT 5
// reason code ("0x97"); for versions without a code, those that they would have
// been told of.
func (s *Server) Told() map[string]uint64 {
	counts := map[string]uint64{}
	for code := range s.told {
		if n := s.told[code].Load(); n > 0 {
			counts[fmt.Sprintf("0x%02X", code)] = n
		}
	}
	return counts
}

func (s *Server) tell(code reason) { s.told[code].Add(1) }

// Behind makes clients come in by a door that other servers have, too. Called
// before the first connection.
func (s *Server) Behind(d *adapters.Door) { s.net.Behind(d) }

// Unopened counts the connections that ended before the protocol began, by reason.
func (s *Server) Unopened() map[string]uint64 { return s.net.Unopened() }

// Refused counts the connections that a limit turned away, by the limit's name.
func (s *Server) Refused() map[string]uint64 { return s.net.Refused() }
