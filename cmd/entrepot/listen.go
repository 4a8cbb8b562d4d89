package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"entrepot/conf"
)

// listen opens one address. Unix sockets get the file mode.
func listen(ctx context.Context, a conf.Address, mode fs.FileMode) (net.Listener, error) {
	var l net.Listener
	var err error
	if a.Network == "unix" {
		l, err = listenUnix(ctx, a.Text, mode)
	} else {
		l, err = new(net.ListenConfig).Listen(ctx, a.Network, a.Text)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program", a.Text)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s: permission denied", a.Text)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", a.Text, err)
	}
	return l, nil
}

// listenUnix opens a unix socket and clears away one that its process left
// behind. The folder is locked meanwhile, so that of two brokers that start at
// once neither removes what the other has just made.
func listenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer folder.Close() // unlocks
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock of %s: %w", folder.Name(), err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// Nobody may connect before the mode is right. The mask is the whole
	// process's; nothing else makes files while listeners are being opened.
	old := syscall.Umask(0o777)
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket on which nobody listens. Anything else that
// bears the name stays, and is an error.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("exists and is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("is a socket, and whether it is in use cannot be told: %w", err)
	}
	return os.Remove(path)
}

// shown is an address as a client writes it.
func shown(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}
