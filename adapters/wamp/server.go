package wamp

import (
	"context"
	"log/slog"
	"net"
	"slices"

	"entrepot/adapters"
	"entrepot/core"
)

// protocol is this front-end's name in logs, figures and origins.
const protocol = "wamp"

// Server serves WAMP clients whose WebSockets were opened elsewhere.
type Server struct {
	cfg     Config
	carrier adapters.WebSocketConfig
	realms  *core.Realms
	log     *slog.Logger
	server  *adapters.Server
	own     map[*core.Broker]*realm
}

// New returns a server whose clients live in realms. Its WebSockets are bounded
// and watched as carrier says. Both settings must be valid.
func New(cfg Config, carrier adapters.WebSocketConfig, realms *core.Realms, log *slog.Logger) *Server {
	s := &Server{cfg: cfg, carrier: carrier, realms: realms, log: log.With("protocol", protocol), own: map[*core.Broker]*realm{}}
	realms.Each(func(b *core.Broker) { s.own[b] = newRealm(&s.cfg, b) })
	s.server = adapters.NewServer(cfg.Limits, protocol, log, nil)
	return s
}

// ServeFrames takes over the bare connection of a WebSocket for which one of Names
// was agreed on. It returns at once. A client that asks for authmethod cookie is
// who v says; v may be nil.
func (s *Server) ServeFrames(c net.Conn, name string, v *adapters.Visit) {
	e, ok := encodingOf(name)
	if !ok {
		e, _ = encodingOf(Names()[0])
	}
	s.server.ServeConnAs(c, func(ac *adapters.Conn) adapters.Protocol { return newConn(s, ac, e, v) })
}

// Serve is for listeners, of which WAMP has none of its own: it closes l.
func (s *Server) Serve(l net.Listener) error { return l.Close() }

// Behind makes clients come in by a door that other servers have, too. Called
// before the first connection.
func (s *Server) Behind(d *adapters.Door) { s.server.Behind(d) }

// Refused counts the connections that a limit turned away, by the limit's name.
func (s *Server) Refused() map[string]uint64 { return s.server.Refused() }

// Shutdown sends every client a GOODBYE, closes the connections and waits for them,
// or for ctx.
func (s *Server) Shutdown(ctx context.Context) error { return s.server.Shutdown(ctx) }

// realm finds the realm that a client named; nil when there is none.
func (s *Server) realm(name string) *realm {
	if b, exact := s.realms.Broker(name); exact {
		return s.own[b]
	}
	if !slices.Contains(s.cfg.Realms, name) && !slices.Contains(s.cfg.Realms, anyRealm) {
		return nil
	}
	b, _ := s.realms.Broker(name)
	return s.own[b]
}
