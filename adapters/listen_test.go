package adapters

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// listenAt is Gate.Listen without TLS for "HOST:PORT" or "unix:PATH", however bad.
func listenAt(addr string) (*Listener, error) {
	a := Address{Name: addr, Transport: OverTCP, At: addr}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		a.Transport, a.At = OverUnix, path
	}
	return Gate{}.Listen(a)
}

func TestListenTCP(t *testing.T) {
	l, err := listenAt("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	for _, c := range []struct {
		addr, says string
		is         error
	}{
		{addr, "another process has this port", syscall.EADDRINUSE},
		{"203.0.113.7:0", "no such address", syscall.EADDRNOTAVAIL},
		{"1883", "missing port", nil},
		{"127.0.0.1:99999", "invalid port", nil},
		{"127.0.0.1:mqttt", "mqttt", nil},
	} {
		_, err := listenAt(c.addr)
		if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("Listen(%q): %v", c.addr, err)
		}
		if err != nil && c.addr != "" && !strings.Contains(err.Error(), c.addr) {
			t.Errorf("%v does not name %s", err, c.addr)
		}
	}
	if err := explained(&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}); !strings.Contains(err.Error(), "under 1024") {
		t.Error(err)
	}
}

func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := listenAt("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|unixMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := listenAt("unix:" + path); err == nil || !strings.Contains(err.Error(), "another process has this socket") {
		t.Errorf("second listener: %v", err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first one does not answer any more: %v", err)
	} else {
		_ = c.Close()
	}
	_ = l.Close()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestListenUnixStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := listenAt("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	l.Listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a crash does
	_ = l.Close()
	if l, err = listenAt("unix:" + path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestListenUnixLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("unixgram", filepath.Join(dir, "packets"))
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for path, says := range map[string]string{
		file:                          "not a socket",
		dir:                           "not a socket",
		filepath.Join(dir, "packets"): "another process",
		filepath.Join(dir, "no", "s"): "folder is not there",
		filepath.Join(dir, strings.Repeat("long", 30)): "too long",
		"":        "want the path",
		"@hidden": "want the path",
	} {
		if l, err := listenAt("unix:" + path); err == nil {
			_ = l.Close()
			t.Errorf("%q was taken", path)
		} else if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "unix:"+path) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if b, err := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
}
