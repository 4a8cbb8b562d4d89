package main

import "syscall"

// mountSmall puts a disk of 40 kB on a directory; only root may.
func mountSmall(dir string) error { return syscall.Mount("none", dir, "tmpfs", 0, "size=40k") }

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
