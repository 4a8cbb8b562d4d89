package adapters

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	unixPrefix = "unix:"
	unixMode   = 0o660
	// answerTime is how long a unix socket may take to answer. Only a refusal
	// means that nobody is there.
	answerTime = time.Second
)

// Listen binds addr: "host:port" is TCP, port 0 a free one and an empty host
// every address of the machine; "unix:/path" is a unix socket that its owner
// and group may use (mode 0660). A socket file that an ended process left
// behind is replaced, any other file is not. Closing the listener removes the
// file. The error says what was wrong and, where it can, what to do.
func Listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		return listenUnix(path)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("listen on %q: want host:port or unix:/path: %w", addr, err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, explained(err))
	}
	return l, nil
}

// ListenPacket binds addr, "host:port", for UDP as Listen does for TCP.
func ListenPacket(addr string) (net.PacketConn, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil || strings.HasPrefix(addr, unixPrefix) {
		return nil, fmt.Errorf("listen on %q: want host:port", addr)
	}
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on UDP %s: %w", addr, explained(err))
	}
	return c, nil
}

// explained puts a sentence before the errors that people meet.
func explained(err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "another process has this port; end it or choose another port"
	case errors.Is(err, fs.ErrPermission):
		hint = "not permitted; ports under 1024 need privileges, others are open to all"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = "this machine has no such address"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", hint, err)
}

func listenUnix(path string) (net.Listener, error) {
	// A name after @ has no file, and so nothing says who may use it.
	if path == "" || path[0] == '@' {
		return nil, fmt.Errorf("listen on %s%s: want the path of a file", unixPrefix, path)
	}
	l, err := bindUnix(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(path); err == nil {
			l, err = bindUnix(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s%s: %w", unixPrefix, path, explainedUnix(path, err))
	}
	return l, nil
}

// bindUnix sets the mode twice: before the file is there, where the system can
// do that, so that it is never open to others, and after, because of the umask.
func bindUnix(path string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return c.Control(restrict) }}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, unixMode); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// removeStale removes the file of a socket that nobody answers on any more.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file of that name which is not a socket; it was left alone")
	}
	c, err := net.DialTimeout("unix", path, answerTime)
	if err == nil {
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("another process has this socket; end it or choose another path")
	}
	return os.Remove(path)
}

func explainedUnix(path string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "the folder is not there"
	case errors.Is(err, fs.ErrPermission):
		hint = "not permitted to make a file there"
	case errors.Is(err, syscall.EINVAL) && len(path) > 100:
		hint = "the path is too long for a socket, about 100 bytes are allowed"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", hint, err)
}
