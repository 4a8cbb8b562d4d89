package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"entrepot/adapters"
	"entrepot/core"
)

const (
	maxHeader = 16 << 10
	maxBody   = 4 << 10 // of a request
)

// Server answers HTTP on any number of listeners.
type Server struct {
	http     http.Server
	paths    *http.ServeMux
	commands map[string]bool // paths that take POST
	page     *livePage       // nil: none
	door     *door
	log      *slog.Logger
	porch    *adapters.Porch

	mu      sync.Mutex
	closing bool
	names   map[net.Listener]string // as the settings have them
	wg      sync.WaitGroup
}

// New returns a server over the brokers of realms. ready tells whether clients
// can connect; refused counts, by protocol and limit, the connections that a limit
// turned away; own are figures of the front-ends. All may be called from any
// goroutine. Users and rights are those of the first broker.
func New(cfg Config, realms *core.Realms, ready func() bool, refused func() map[string]map[string]uint64, log *slog.Logger, own ...Counts) *Server {
	audit := log
	log = log.With("protocol", "http")
	broker, _ := realms.Broker("")
	s := &Server{log: log, paths: http.NewServeMux(), commands: map[string]bool{}, names: map[net.Listener]string{},
		porch: adapters.NewPorch(cfg.MaxConnections, cfg.HeaderTimeout, plainExcuse, log),
		door:  &door{broker: broker, visits: newVisits(broker, cfg), log: audit}}
	s.routes(realms, ready)
	s.paths.Handle("GET /metrics", s.mayRead("metrics", metrics(realms, refused, own, log)))
	s.http = http.Server{
		Handler:           s.guard(s.paths),
		ReadHeaderTimeout: cfg.HeaderTimeout,
		ReadTimeout:       2 * cfg.HeaderTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         s.count,
		BaseContext:       s.base,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// SetToken says what the operator's own programs on this machine prove themselves
// with. Called before Serve.
func (s *Server) SetToken(token string) { s.door.token = token }

// Handle lets h answer GET and HEAD requests for path, which pass the same guard
// as all. A connection that h takes over is not counted or watched here any
// more. Called before Serve.
func (s *Server) Handle(path string, h http.Handler) { s.paths.Handle("GET "+path, h) }

// Serve answers on l until Shutdown, which closes l. It returns at once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return fmt.Errorf("http server: %w", net.ErrClosed)
	}
	bare, named := l.(*adapters.Listener)
	l = s.porch.Listen(l)
	if named {
		s.names[l] = bare.Address.Name
	}
	s.wg.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("listener failed", "listener", l.Addr().String(), "error", err)
		}
	})
	return nil
}

// Behind makes clients come in by the door that the protocols have. Called before
// the first Serve.
func (s *Server) Behind(d *adapters.Door) { s.porch.Behind(d) }

// Refused counts the connections that a limit turned away, by its name.
func (s *Server) Refused() map[string]uint64 { return s.porch.Refused() }

// Unopened counts the connections that ended before a request began, by reason.
func (s *Server) Unopened() map[string]uint64 { return s.porch.Unopened() }

// Shutdown stops accepting, lets requests under way end, and waits for them or
// for ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	err := s.http.Shutdown(ctx)
	if err != nil {
		// Whoever still waits for an answer does not get one.
		_ = s.http.Close()
		err = fmt.Errorf("http requests: %w", err)
	}
	s.wg.Wait()
	return err
}

// count makes room when a connection ends, or is a WebSocket from now on.
func (s *Server) count(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		s.porch.Leave(c)
	}
}

// plainExcuse is for clients that send a request where TLS is spoken.
func plainExcuse(head [5]byte) string {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO"} {
		if string(head[:]) == method {
			return "HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nhttps is spoken here, not http\n"
		}
	}
	return ""
}

// listenerKey finds in a request's context the name of the listener that it came to.
type listenerKey struct{}

func (s *Server) base(l net.Listener) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return context.WithValue(context.Background(), listenerKey{}, s.names[l])
}

// listenerOf is that name, "" if it has none.
func listenerOf(r *http.Request) string {
	name, _ := r.Context().Value(listenerKey{}).(string)
	return name
}
