package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// errLarge means that a frame is longer than any that the tool asked for.
var errLarge = errors.New("a frame longer than 32 MiB")

const largestFrame = 32 << 20

// dialect is one protocol from a client's side. Its methods work on one link
// at a time and may be called for several links at once.
type dialect interface {
	// greet opens the session and waits for the broker's word.
	greet(l *link, id string) error
	// subscribe asks for the name's messages and waits until they will come.
	// Some may come before.
	subscribe(s *subscriber, name string) error
	// frame encodes one message of the given payload length.
	frame(name string, size int) frame
	// deliveries gives the scanner of what a subscriber is sent. It leaves
	// acknowledgements in the link's out.
	deliveries(s *subscriber) scanner
	// answers gives the scanner of what a publisher is sent.
	answers(l *link, a *answers) scanner
}

// scanner reads the whole frames at the start of b and returns how many bytes
// they took. What it keeps of b it copies.
type scanner func(b []byte) (int, error)

// link is one connection to a broker. Reading is for one goroutine; a write
// may come from another.
type link struct {
	conn     net.Conn
	raw      syscall.RawConn // nil: over TLS
	in       []byte
	held     int    // bytes of in that hold something
	out      []byte // what a scanner wants to be sent after a read
	farewell []byte // says goodbye in the link's protocol
	unacked  int    // how many messages the broker lets wait for its acknowledgement; 0: its protocol does not say
	version  string // of STOMP, as negotiated
}

// next waits for one whole frame and returns a copy of it. size tells the
// length of the frame at the start of the bytes, or 0 when more are needed.
func (l *link) next(size func([]byte) (int, error)) ([]byte, error) {
	for {
		n, err := size(l.in[:l.held])
		if err != nil {
			return nil, err
		}
		if n > 0 {
			whole := append([]byte(nil), l.in[:n]...)
			l.drop(n)
			return whole, nil
		}
		if err := l.room(); err != nil {
			return nil, err
		}
		n, err = l.conn.Read(l.in[l.held:])
		if l.held += n; n == 0 && err != nil {
			return nil, closedAs(err)
		}
	}
}

// feed lets the scanner have what is held and sends what it wants sent.
func (l *link) feed(scan scanner) error {
	n, err := scan(l.in[:l.held])
	l.drop(n)
	if err != nil {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	return l.room()
}

// flush sends what a scanner wants sent.
func (l *link) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	_, err := l.conn.Write(l.out)
	l.out = l.out[:0]
	if err != nil {
		return closedAs(err)
	}
	return nil
}

func (l *link) drop(n int) {
	copy(l.in, l.in[n:l.held])
	l.held -= n
}

// room makes place for at least one more byte.
func (l *link) room() error {
	if l.held < len(l.in) {
		return nil
	}
	if len(l.in) >= largestFrame {
		return errLarge
	}
	in := make([]byte, max(512, 2*len(l.in)))
	copy(in, l.in)
	l.in = in
	return nil
}

// pumpConn is pump for a connection that is more than a socket.
func (l *link) pumpConn(scan scanner) error {
	for {
		if err := l.feed(scan); err != nil {
			return err
		}
		n, err := l.conn.Read(l.in[l.held:])
		if l.held += n; err != nil {
			return closedAs(err)
		}
	}
}

// interrupt ends a pump and any waiting write.
func (l *link) interrupt() { l.conn.SetDeadline(time.Unix(1, 0)) }

// close says goodbye and closes. It does not wait for long.
func (l *link) close() {
	l.conn.SetDeadline(time.Now().Add(time.Second))
	l.conn.Write(l.farewell)
	l.conn.Close()
}

func closedAs(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("connection closed by the broker")
	}
	return fmt.Errorf("connection: %w", err)
}
