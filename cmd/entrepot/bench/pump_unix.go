//go:build unix

package bench

import (
	"io"
	"syscall"
)

// pump feeds the scanner with all that comes until the link fails or is
// interrupted, and returns why it ended.
//
// It stays inside one RawConn.Read, whose function is called again whenever
// the socket turned readable. So a read that did not fill the buffer need not
// be followed by one that finds nothing, which Conn.Read does for each wait.
func (l *link) pump(scan scanner) error {
	if l.raw == nil {
		return l.pumpConn(scan)
	}
	if err := l.feed(scan); err != nil {
		return err
	}
	var failed error
	err := l.raw.Read(func(fd uintptr) bool {
		for {
			space := l.in[l.held:]
			n, err := syscall.Read(int(fd), space)
			switch {
			case err == syscall.EINTR:
				continue
			case err == syscall.EAGAIN:
				return false
			case err != nil:
				failed = closedAs(err)
				return true
			case n <= 0:
				failed = closedAs(io.EOF)
				return true
			}
			l.held += n
			if failed = l.feed(scan); failed != nil {
				return true
			}
			if n < len(space) {
				return false
			}
		}
	})
	if failed != nil {
		return failed
	}
	return closedAs(err)
}
