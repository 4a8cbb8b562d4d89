package adapters

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	handshakeTime = 5 * time.Second // for the socket to take the answer to an upgrade
	shownOrigin   = 200             // bytes of a refused origin in the log
)

// WebSocketConfig holds the settings of what WebSockets carry.
type WebSocketConfig struct {
	// Origins are the web pages' origins that may connect beside the broker's
	// own, as a browser sends them: "https://app.example" or with a port.
	// "*" is every one but null. Clients that send no origin are not browsers
	// and not asked for one.
	Origins []string `toml:"origins"`
	// MaxMessage is how many bytes one message may have, however many frames
	// it comes in. Packets may be split over messages.
	MaxMessage int64 `toml:"max_message"`
	// Ping is the time between two pings; 0 is none, and no PongTimeout.
	Ping time.Duration `toml:"ping"`
	// Unnamed is the protocol, mqtt or stomp, of clients that name no
	// sub-protocol at a path that serves several; "" refuses them.
	Unnamed string `toml:"unnamed"`
	// PongTimeout is how long nothing, not even a pong, may come from a client.
	// A browser lets a page in the background sleep for a minute.
	PongTimeout time.Duration `toml:"pong_timeout"`
}

// DefaultWebSocketConfig is what runs when nothing is set.
func DefaultWebSocketConfig() WebSocketConfig {
	return WebSocketConfig{
		Origins:     []string{},
		MaxMessage:  32 << 20,
		Ping:        30 * time.Second,
		PongTimeout: 3 * time.Minute,
	}
}

// Validate returns an error for a setting that makes no sense.
func (c WebSocketConfig) Validate() error {
	if _, err := parseOrigins(c.Origins); err != nil {
		return err
	}
	switch {
	case c.MaxMessage < 1024:
		return fmt.Errorf("max_message %d: at least 1024", c.MaxMessage)
	case c.Unnamed != "" && c.Unnamed != "mqtt" && c.Unnamed != "stomp":
		return fmt.Errorf("unnamed %q: mqtt, stomp or nothing", c.Unnamed)
	case c.Ping != 0 && c.Ping < time.Second:
		return fmt.Errorf("ping %v: at least 1s, or 0s", c.Ping)
	case c.Ping != 0 && c.PongTimeout < 2*c.Ping:
		return fmt.Errorf("pong_timeout %v: at least twice the ping of %v", c.PongTimeout, c.Ping)
	}
	return nil
}

// Carried is a protocol whose connections come by WebSocket.
type Carried struct {
	// Names are the sub-protocols that mean it.
	Names []string
	// Serve takes over a connection and returns at once.
	Serve func(net.Conn)
	// Text says that the protocol's frames may come in text messages, and
	// leave in them where they are UTF-8. Without it all messages are binary.
	Text bool
	// ServeFrames, where it is set, is called instead of Serve: it gets the bare
	// connection after the opening handshake, and the sub-protocol agreed on.
	// Frames, pings and limits are its own business. The visit is nil unless one
	// of the broker's own pages opened the connection, after a log-in.
	ServeFrames func(c net.Conn, name string, v *Visit)
}

// WebSocket makes HTTP handlers that turn a request into a connection of a
// protocol (RFC 6455), on which that one's code runs as over TCP: the messages
// are one stream of bytes, packets may be split and joined over them. An
// answer holds whole packets, one write's worth. There is no compression.
//
// A connection counts among those of its protocol, with their limits; the HTTP
// server and its time-outs have no part in it any more.
type WebSocket struct {
	cfg     WebSocketConfig
	origins origins
	log     *slog.Logger
	upgrade websocket.Upgrader
	pages   reports // of foreign origins
	// Visit finds the log-in that a request belongs to, nil if none; nil when
	// pages do not log in. Set before the handlers are used.
	Visit func(*http.Request) *Visit
}

// NewWebSocket returns a maker of handlers. cfg must be valid.
func NewWebSocket(cfg WebSocketConfig, log *slog.Logger) *WebSocket {
	w := &WebSocket{cfg: cfg, log: log.With("protocol", "websocket")}
	w.origins, _ = parseOrigins(cfg.Origins)
	w.upgrade = websocket.Upgrader{
		HandshakeTimeout: handshakeTime,
		WriteBufferSize:  writeSize,
		WriteBufferPool:  &sync.Pool{},
		CheckOrigin:      func(*http.Request) bool { return true }, // checked before
	}
	return w
}

// Any returns a handler for clients that name the sub-protocol of one of all;
// of several, the first that is known. Others are answered with 400.
func (w *WebSocket) Any(all ...Carried) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		offered := subProtocols(r)
		for _, name := range offered {
			for _, c := range all {
				if slices.Contains(c.Names, name) {
					w.serve(rw, r, c, name)
					return
				}
			}
		}
		w.refuseProtocol(rw, r, offered, all)
	})
}

// AnyOr is Any, and serves clients that name no sub-protocol with c.
func (w *WebSocket) AnyOr(c Carried, all ...Carried) http.Handler {
	return w.unnamed(c, w.Any(all...))
}

// Only returns a handler for one protocol, which serves clients that name no
// sub-protocol, too.
func (w *WebSocket) Only(c Carried) http.Handler {
	return w.unnamed(c, w.Any(c))
}

// unnamed serves clients that name no sub-protocol with c, others with named.
func (w *WebSocket) unnamed(c Carried, named http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if len(subProtocols(r)) == 0 {
			w.serve(rw, r, c, "")
			return
		}
		named.ServeHTTP(rw, r)
	})
}

// subProtocols are those that the client offers, the one that it likes best
// first.
func subProtocols(r *http.Request) []string {
	var names []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

func (w *WebSocket) refuseProtocol(rw http.ResponseWriter, r *http.Request, offered []string, all []Carried) {
	if !w.acceptable(rw, r) {
		return
	}
	var known []string
	for _, c := range all {
		known = append(known, c.Names...)
	}
	what := "no Sec-WebSocket-Protocol"
	if len(offered) > 0 {
		what = "unknown Sec-WebSocket-Protocol"
	}
	http.Error(rw, what+": offer one of "+strings.Join(known, ", "), http.StatusBadRequest)
}

// acceptable answers requests that are no upgrades, and those of foreign pages.
func (w *WebSocket) acceptable(rw http.ResponseWriter, r *http.Request) bool {
	if !websocket.IsWebSocketUpgrade(r) {
		rw.Header().Set("Connection", "Upgrade")
		rw.Header().Set("Upgrade", "websocket")
		http.Error(rw, "a WebSocket is opened here", http.StatusUpgradeRequired)
		return false
	}
	if err := w.origins.check(r); err != nil {
		origin := r.Header.Get("Origin")
		w.pages.tell(w.log, "page refused", "origin", origin[:min(len(origin), shownOrigin)], "remote", r.RemoteAddr, "reason", err)
		http.Error(rw, err.Error()+" (setting websocket.origins)", http.StatusForbidden)
		return false
	}
	return true
}

func (w *WebSocket) serve(rw http.ResponseWriter, r *http.Request, c Carried, name string) {
	if !w.acceptable(rw, r) {
		return
	}
	header := http.Header{}
	if name != "" {
		header.Set("Sec-WebSocket-Protocol", name)
	}
	h := &hijacker{ResponseWriter: rw}
	ws, err := w.upgrade.Upgrade(h, r, header)
	if err != nil {
		// The client was answered, or went away.
		w.log.Debug("upgrade failed", "remote", r.RemoteAddr, "error", err)
		return
	}
	if c.ServeFrames != nil {
		// The upgrade refuses clients that sent more than the handshake.
		c.ServeFrames(h.socket.Conn, name, w.visit(r))
		return
	}
	c.Serve(newWebsocketConn(ws, h.socket, w.cfg, c.Text))
}

func (w *WebSocket) visit(r *http.Request) *Visit {
	if w.Visit == nil {
		return nil
	}
	return w.Visit(r)
}

// hijacker puts a websocketSocket under what the upgrade makes.
type hijacker struct {
	http.ResponseWriter
	socket *websocketSocket
}

// errNotOurs is what a server of HTTP/2 meets, which cannot be upgraded so.
var errNotOurs = errors.New("this connection cannot be taken over")
