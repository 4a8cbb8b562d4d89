package adapters

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// wire is a socket as it came to a Listener, and what is known of who is at its
// other end. Under TLS it can be direct: then it never waits, and what is to be
// written is kept until flush.
type wire struct {
	net.Conn // the socket
	from     *Listener
	remote   net.Addr // of who came through a proxy; nil: the socket's

	stay *stay // on a porch; nil: on none

	exact  bool    // nothing is read beyond the record of TLS that is asked for
	header [5]byte // of a record, with exact
	begun  int     // bytes of it
	left   int     // bytes of the record behind it

	raw syscall.RawConn // nil: not direct
	fd  uintptr         // the reader's, while that reads

	mu     sync.Mutex
	bufs   *buffers
	out    *buffer // nil: nothing to be written
	sent   int     // bytes of out
	closed bool
}

// mostUnsent is how many bytes a direct wire keeps: what is sealed at a time, and
// the answers to a client that changes its keys and reads none of them.
const mostUnsent = 256 << 10

var errUnsent = errors.New("tls: answers are not read")

// again is what a direct wire says when there is no more to read now. crypto/tls
// can go on later after it.
type again struct{}

func (again) Error() string   { return "nothing to read now" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// readProxy reads the header that a proxy has to send first.
func (w *wire) readProxy() error {
	if !w.from.proxies.trust(w.Conn.RemoteAddr()) {
		return errNoProxy
	}
	client, err := readProxyHeader(w.Conn)
	if err != nil {
		return err
	}
	w.remote = remoteOf(w.Conn.RemoteAddr(), client)
	return nil
}

// RemoteAddr implements net.Conn.
func (w *wire) RemoteAddr() net.Addr {
	if w.remote != nil {
		return w.remote
	}
	return w.Conn.RemoteAddr()
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	if w.raw == nil {
		if w.exact {
			return w.readRecord(p)
		}
		return w.Conn.Read(p)
	}
	for {
		n, err := readNow(w.fd, p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return 0, again{}
		case err == nil && n == 0:
			return 0, io.EOF
		}
		return n, err
	}
}

// readRecord reads a part of a record, so that after a handshake what follows it
// is still in the socket, and wakes who waits for that.
func (w *wire) readRecord(p []byte) (int, error) {
	if w.left > 0 {
		n, err := w.Conn.Read(p[:min(len(p), w.left)])
		w.left -= n
		return n, err
	}
	n, err := w.Conn.Read(p[:min(len(p), len(w.header)-w.begun)])
	copy(w.header[w.begun:], p[:n])
	if w.begun += n; w.begun == len(w.header) {
		w.begun, w.left = 0, int(binary.BigEndian.Uint16(w.header[3:]))
	}
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if w.raw == nil {
		return w.Conn.Write(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return 0, net.ErrClosed
	case w.out == nil:
		w.out = w.bufs.getWrite()
	case len(w.out.b)-w.sent > mostUnsent:
		return 0, errUnsent
	}
	w.out.b = append(w.out.b, p...)
	return len(p), nil
}

// flush writes what is kept until nothing is left, or the socket takes no more.
func (w *wire) flush(fd uintptr) (done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.out != nil {
		n, err := writeNow(fd, w.out.b[w.sent:])
		switch err {
		case nil:
			if w.sent += n; w.sent == len(w.out.b) {
				w.drop()
			}
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false, nil
		default:
			return false, err
		}
	}
	return true, nil
}

// drop gives the buffer back. With mu held.
func (w *wire) drop() {
	if w.out != nil {
		w.bufs.putWrite(w.out)
		w.out, w.sent = nil, 0
	}
}

// lastWords sends what is kept, as far as the socket takes it now.
func (w *wire) lastWords() {
	if w.raw != nil {
		// On a closed socket there is nobody to hear them.
		_ = w.raw.Control(func(fd uintptr) { _, _ = w.flush(fd) })
	}
}

// CloseWrite ends what the client hears.
func (w *wire) CloseWrite() error {
	w.lastWords()
	half, ok := w.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.lastWords()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.drop()
	return w.Conn.Close()
}

// SyscallConn implements syscall.Conn.
func (w *wire) SyscallConn() (syscall.RawConn, error) {
	if c, ok := w.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// secure is TLS on a wire, after the handshake.
type secure struct {
	*tls.Conn
	wire *wire
	told bool // CloseWrite was called: what comes is of no interest
	// drained: nothing is held that was read off the socket.
	drained bool
}

// direct lets reads and writes go as the socket is ready.
func (s *secure) direct(raw syscall.RawConn, bufs *buffers) {
	s.wire.raw, s.wire.bufs = raw, bufs
}

// readNow reads what has come; syscall.EAGAIN when that is nothing.
func (s *secure) readNow(fd uintptr, b []byte) (int, error) {
	s.wire.fd = fd
	n, err := s.Conn.Read(b)
	s.drained = false
	switch {
	case n > 0: // the error comes again
		return n, nil
	case errors.Is(err, again{}):
		s.drained = true
		return 0, syscall.EAGAIN
	case err == io.EOF:
		return 0, nil
	}
	return 0, err
}

// mostSealed is what is sealed at a time: two records that fit in a buffer.
const mostSealed = 31 << 10

// seal encrypts bytes from the front of runs, which flush then sends, and returns
// how many. They leave in few records, however short the runs are.
func (s *secure) seal(runs []chunk) (int, error) {
	plain := runs[0].b
	if len(runs) > 1 && len(plain) < mostSealed {
		lent := s.wire.bufs.getWrite()
		defer s.wire.bufs.putWrite(lent)
		for _, r := range runs {
			room := mostSealed - len(lent.b)
			lent.b = append(lent.b, r.b[:min(room, len(r.b))]...)
		}
		plain = lent.b
	}
	return s.Conn.Write(plain[:min(mostSealed, len(plain))])
}

// Read implements net.Conn.
func (s *secure) Read(p []byte) (int, error) {
	if s.told {
		return s.wire.Conn.Read(p)
	}
	return s.Conn.Read(p)
}

// CloseWrite says good-bye. Read then returns what is of no use but to be taken
// off the socket. The reader's to call.
func (s *secure) CloseWrite() error {
	s.told = true
	return errors.Join(s.Conn.CloseWrite(), s.wire.CloseWrite())
}

// SyscallConn implements syscall.Conn.
func (s *secure) SyscallConn() (syscall.RawConn, error) { return s.wire.SyscallConn() }

// lifted is a connection as a Server serves it best.
func lifted(nc net.Conn) net.Conn {
	if t, ok := nc.(*tls.Conn); ok {
		if w, ok := t.NetConn().(*wire); ok {
			return &secure{Conn: t, wire: w, drained: w.exact}
		}
	}
	return nc
}

// wireOf is what a connection came by; nil: not by a Listener that opens.
func wireOf(nc net.Conn) *wire {
	switch c := nc.(type) {
	case *wire:
		return c
	case *secure:
		return c.wire
	case *tls.Conn:
		return wireOf(c.NetConn())
	case *websocketConn:
		return wireOf(c.websocketSocket.Conn)
	}
	return nil
}

// certificateOf is a client's, verified; nil: none.
func certificateOf(nc net.Conn) *x509.Certificate {
	switch c := nc.(type) {
	case *websocketConn:
		return certificateOf(c.websocketSocket.Conn)
	case *secure:
		return certificateOf(c.Conn)
	case *tls.Conn:
		if chains := c.ConnectionState().VerifiedChains; len(chains) > 0 {
			return chains[0][0]
		}
	}
	return nil
}
