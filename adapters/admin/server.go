package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

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
	limit    int
	open     atomic.Int64
	refused  atomic.Uint64

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
	s := &Server{log: log, limit: cfg.MaxConnections, paths: http.NewServeMux(), commands: map[string]bool{}, names: map[net.Listener]string{},
		door: &door{broker: broker, visits: newVisits(broker, cfg), log: audit}}
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
	if bare, ok := l.(*adapters.Listener); ok {
		l = bare.Ready(s.http.ReadHeaderTimeout)
		s.names[l] = bare.Address.Name
	}
	s.wg.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("listener failed", "listener", l.Addr().String(), "error", err)
		}
	})
	return nil
}

// Refused counts the connections over the limit, by its name.
func (s *Server) Refused() map[string]uint64 {
	return map[string]uint64{"max_connections": s.refused.Load()}
}

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

// count closes a connection over the limit before it is read.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if n := s.open.Add(1); s.limit > 0 && n > int64(s.limit) {
			s.refused.Add(1)
			// The next read of it fails, and that is all that shall happen.
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
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
