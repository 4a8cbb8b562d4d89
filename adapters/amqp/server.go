package amqp

import (
	"context"
	"log/slog"
	"net"

	"entrepot/adapters"
	"entrepot/core"
)

// protocol is this front-end's name in logs, figures and origins.
const protocol = "amqp"

// Server accepts AMQP clients on any number of listeners.
type Server struct {
	cfg    Config
	realms *core.Realms
	log    *slog.Logger
	server *adapters.Server
}

// New returns a server whose clients live in realms: connection.open names one
// as virtual host. cfg must be valid.
func New(cfg Config, realms *core.Realms, log *slog.Logger) *Server {
	s := &Server{cfg: cfg, realms: realms, log: log.With("protocol", protocol)}
	s.server = adapters.NewServer(cfg.Limits, protocol, log, func(c *adapters.Conn) adapters.Protocol {
		return newConn(s, c)
	})
	return s
}

// Serve accepts from l until Shutdown, which closes l. It returns at once.
func (s *Server) Serve(l net.Listener) error { return s.server.Serve(l) }

// ServeConn takes over a connection from elsewhere: a pipe, a WebSocket.
func (s *Server) ServeConn(c net.Conn) { s.server.ServeConn(c) }

// Behind makes clients come in by a door that other servers have, too. Called
// before the first connection.
func (s *Server) Behind(d *adapters.Door) { s.server.Behind(d) }

// Unopened counts the connections that ended before the protocol began, by reason.
func (s *Server) Unopened() map[string]uint64 { return s.server.Unopened() }

// Refused counts the connections that a limit turned away, by the limit's name.
func (s *Server) Refused() map[string]uint64 { return s.server.Refused() }

// Shutdown stops accepting, sends every client connection.close, closes the
// connections and waits for them, or for ctx.
func (s *Server) Shutdown(ctx context.Context) error { return s.server.Shutdown(ctx) }
