//go:build unix

package main

import "syscall"

// mostConnections is how many descriptors the process may have, less some for
// the store and for HTTP; 0 is not known. The Go runtime has raised the soft
// limit to the hard one.
func mostConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	const most = 1 << 30 // "unlimited" is a number, too
	files := int(min(uint64(limit.Cur), most))
	return max(files-files/20-200, files/2)
}
