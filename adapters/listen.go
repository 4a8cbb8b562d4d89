package adapters

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	unixMode = 0o660
	// answerTime is how long a unix socket may take to answer. Only a refusal
	// means that nobody is there.
	answerTime = time.Second
)

// Gate is what listeners need to let clients in.
type Gate struct {
	TLS     *TLSMaterial // nil: no listener has TLS
	Proxies ProxyConfig  // valid
}

// Listener is an address that was bound for streams. Accept returns bare
// connections: Server, or a Porch, opens them as the Address says, each on a
// goroutine of its own.
type Listener struct {
	net.Listener
	Address Address     // with ClientAuth, where it has TLS
	tls     *tls.Config // nil: none
	proxies proxies
	failed  reports // openings
}

// Listen binds an address for streams. On TCP an empty host is every address of
// the machine; a unix socket may be used by its owner and group (mode 0660). A
// socket file that an ended process left behind is replaced, any other file is
// not. Closing the listener removes the file. alpn are the protocol's names in
// TLS (TLSMaterial.Config). The error says what was wrong and, where it can,
// what to do.
func (g Gate) Listen(a Address, alpn ...string) (*Listener, error) {
	l := &Listener{Address: a}
	var err error
	if a.Proxy {
		if l.proxies, err = g.Proxies.proxies(); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", a.Name, err)
		}
	}
	if a.Transport == OverTLS {
		if g.TLS == nil || len(g.TLS.Certificates()) == 0 {
			return nil, fmt.Errorf("listen on %s: %w", a.Name, errNoCertificate)
		}
		if a.ClientAuth == "" {
			l.Address.ClientAuth = g.TLS.cfg.ClientAuth
		}
		l.tls = g.TLS.Config(a.ClientAuth, alpn...)
	}
	if a.Transport == OverUnix {
		l.Listener, err = listenUnix(a.At)
	} else {
		l.Listener, err = listenTCP(a.At)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// report tells of a connection that was not opened.
func (l *Listener) report(log *slog.Logger, remote net.Addr, err error) {
	l.failed.tell(log, "not let in", "listener", l.Address.Name, "remote", remote.String(), "error", err)
}

func listenTCP(at string) (net.Listener, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, explained(err))
	}
	return l, nil
}

// ListenPacket binds an address for datagrams.
func ListenPacket(a Address) (net.PacketConn, error) {
	c, err := net.ListenPacket("udp", a.At)
	if err != nil {
		return nil, fmt.Errorf("listen on UDP %s: %w", a.At, explained(err))
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
		return nil, fmt.Errorf("listen on unix:%s: want the path of a file", path)
	}
	l, err := bindUnix(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(path); err == nil {
			l, err = bindUnix(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on unix:%s: %w", path, explainedUnix(path, err))
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

// acceptAll hands over what comes until the listener is closed or stop is, and
// waits out a shortage of file descriptors or memory instead of ending. It
// returns Accept's error, nil where stop ended a wait.
func acceptAll(l net.Listener, log *slog.Logger, stop <-chan struct{}, arrive func(net.Conn)) error {
	const shortest, longest = 10 * time.Millisecond, time.Second
	pause := shortest
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = shortest
			arrive(c)
			continue
		case closed(stop) || errors.Is(err, net.ErrClosed):
			return err
		}
		log.Warn("accept failed, trying again", "listener", l.Addr().String(), "pause", pause, "error", err)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-stop:
			t.Stop()
			return nil
		}
		pause = min(2*pause, longest)
	}
}

// closed tells whether a channel that is only ever closed is.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
