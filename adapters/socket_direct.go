//go:build linux && !386 && !s390x

package adapters

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// These act on a non-blocking socket. They skip the runtime's preparations for
// calls that may block, which these cannot.

func readNow(fd uintptr, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		syscall.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// peekNow returns what ended the input, nil when there is more or may be.
func peekNow(fd uintptr) error {
	var b [1]byte
	n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b)), 1,
		syscall.MSG_DONTWAIT|syscall.MSG_PEEK, 0, 0)
	switch {
	case e == syscall.EAGAIN || e == syscall.EINTR:
		return nil
	case e != 0:
		return os.NewSyscallError("read", e)
	case n == 0:
		return io.EOF
	}
	return nil
}

// readableNow tells that a read would not wait.
func readableNow(fd uintptr) bool {
	var b [1]byte
	_, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b)), 1,
		syscall.MSG_DONTWAIT|syscall.MSG_PEEK, 0, 0)
	return e != syscall.EAGAIN && e != syscall.EINTR
}

func writeNow(fd uintptr, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// writeRunsNow writes as much of the first maxRuns as the socket takes.
func writeRunsNow(fd uintptr, runs []chunk) (int, error) {
	var vec [maxRuns]syscall.Iovec
	n := 0
	for _, r := range runs[:min(len(runs), maxRuns)] {
		if len(r.b) > 0 {
			vec[n].Base = unsafe.SliceData(r.b)
			vec[n].SetLen(len(r.b))
			n++
		}
	}
	sent, _, e := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&vec[0])), uintptr(n))
	if e != 0 {
		return 0, e
	}
	return int(sent), nil
}

// rawOf is nil for carriers that are not sockets themselves.
func rawOf(c net.Conn) syscall.RawConn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// restrict sets the mode that a unix socket's file gets at bind.
func restrict(fd uintptr) { _ = syscall.Fchmod(int(fd), unixMode) }
