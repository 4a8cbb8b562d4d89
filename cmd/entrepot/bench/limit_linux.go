package bench

import (
	"fmt"
	"syscall"
)

// raiseFileLimit makes sure that the process may open so many files. Beyond
// the hard limit it needs the right to raise that.
func raiseFileLimit(files int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	need := uint64(files)
	if limit.Cur >= need {
		return nil
	}
	want := syscall.Rlimit{Cur: need, Max: max(limit.Max, need)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &want); err != nil {
		return fmt.Errorf("limit of open files: %d needed, %d allowed: %w", need, limit.Max, err)
	}
	return nil
}
