package adapters

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// What frames may cost beside their payload: headers, pings, empty frames.
	// Each byte of payload pays for overheadShare bytes; beyond that there are
	// overheadRate bytes a second, and overheadBurst at once.
	overheadShare = 16
	overheadRate  = 16 << 10
	overheadBurst = 128 << 10
)

// websocketSocket is the socket under a WebSocket. It watches what goes through
// it, and keeps the write deadline that control frames would else undo.
type websocketSocket struct {
	net.Conn
	in    *bufio.Reader // reads from this socket
	heard atomic.Bool   // since the last ping

	// The reader's own.
	failed   error // what Read returned
	overhead int
	paidAt   time.Time

	ending atomic.Pointer[error] // why the broker's side gave it up

	mu      sync.Mutex
	limit   time.Time // for every write
	current time.Time // what the socket has
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, errNotOurs
	}
	h.socket = &websocketSocket{Conn: c, in: rw.Reader, paidAt: time.Now()}
	return h.socket, rw, nil
}

// Read implements net.Conn for the reader of frames.
func (s *websocketSocket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.heard.Store(true)
		if s.overhead += n; s.overhead > overheadBurst && !s.affordable() {
			err = &websocketFault{websocket.ClosePolicyViolation, "too many frames for what is in them"}
		}
	}
	s.failed = err
	return n, err
}

// paid takes note of n bytes of payload.
func (s *websocketSocket) paid(n int) { s.overhead = max(0, s.overhead-(overheadShare+1)*n) }

// affordable takes off what time pays for.
func (s *websocketSocket) affordable() bool {
	now := time.Now()
	s.overhead -= int(min(now.Sub(s.paidAt).Seconds()*overheadRate, overheadBurst))
	s.paidAt = now
	return s.overhead <= overheadBurst
}

// SetWriteDeadline is called before each frame, with no time for data.
func (s *websocketSocket) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.IsZero() || !s.limit.IsZero() && s.limit.Before(t) {
		t = s.limit
	}
	return s.set(t)
}

// limitWrites sets the deadline for the write under way and all after it.
func (s *websocketSocket) limitWrites(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = t
	return s.set(t)
}

// set spares the runtime what it knows. With mu held.
func (s *websocketSocket) set(t time.Time) error {
	if t.Equal(s.current) {
		return nil
	}
	s.current = t
	return s.Conn.SetWriteDeadline(t)
}

// end makes reads and writes return, now and from now on. The first err counts.
func (s *websocketSocket) end(err error) {
	if s.ending.CompareAndSwap(nil, &err) {
		past := time.Unix(1, 0)
		// A closed socket needs no waking.
		_ = s.Conn.SetReadDeadline(past)
		_ = s.limitWrites(past)
	}
}
