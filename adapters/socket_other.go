//go:build !linux || 386 || s390x

package adapters

import (
	"net"
	"syscall"
)

// Elsewhere every carrier is read and written through net.Conn.

func rawOf(net.Conn) syscall.RawConn { return nil }

func readNow(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

func peekNow(uintptr) error { return nil }

func readableNow(uintptr) bool { return true }

func writeNow(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

func writeRunsNow(uintptr, []chunk) (int, error) { return 0, syscall.EINVAL }

func restrict(uintptr) {}
