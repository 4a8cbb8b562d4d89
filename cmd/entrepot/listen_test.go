package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"entrepot/conf"
)

func unix(path string) conf.Address { return conf.Address{Network: "unix", Text: path} }

// stale leaves a socket behind on which nobody listens.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func TestUnixSocketModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	mask := syscall.Umask(0o022)
	defer syscall.Umask(mask)
	for _, mode := range []fs.FileMode{0o600, 0o660, 0o666} {
		l, err := listen(t.Context(), unix(path), mode)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v: %v, %v", mode, info.Mode(), err)
		}
		if got := shown(l.Addr()); got != "unix:"+path {
			t.Errorf("shown as %s", got)
		}
		l.Close()
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left behind: %v", err)
		}
	}
	if now := syscall.Umask(0o022); now != 0o022 {
		t.Errorf("the process's mask is %o", now)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale(t, path)
	l, err := listen(t.Context(), unix(path), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestWhatIsNotOursStays(t *testing.T) {
	dir := t.TempDir()
	inUse, err := net.Listen("unix", filepath.Join(dir, "used"))
	if err != nil {
		t.Fatal(err)
	}
	defer inUse.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	stale(t, filepath.Join(dir, "elsewhere"))
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"used": "used is in use by another program", "file": "exists and is not a socket", "link": "exists and is not a socket",
		"no/folder": "no such file",
	} {
		path := filepath.Join(dir, name)
		l, err := listen(t.Context(), unix(path), 0o600)
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if c, err := net.Dial("unix", filepath.Join(dir, "used")); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}

// Of many that start at once over a stale socket one wins, and is reached.
func TestRaceForAStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 20 {
		stale(t, path)
		var mu sync.Mutex
		var won []net.Listener
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				l, err := listenUnix(t.Context(), path, 0o600)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, l)
				} else if !errors.Is(err, syscall.EADDRINUSE) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d won", len(won))
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		won[0].Close()
	}
}

func TestTCPAddresses(t *testing.T) {
	_, taken := freePort(t)
	if _, err := listen(t.Context(), conf.Address{Network: "tcp", Text: taken}, 0); err == nil || err.Error() != taken+" is in use by another program" {
		t.Errorf("error %v", err)
	}
	l, err := listen(t.Context(), conf.Address{Network: "tcp", Text: "localhost:0"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		t.Errorf("listens on %v", l.Addr())
	}
}
