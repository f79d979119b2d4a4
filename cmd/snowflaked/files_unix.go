//go:build unix

package main

import (
	"io/fs"
	"math"
	"syscall"
)

// mostFiles returns how many files the process may open.
func mostFiles() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || uint64(files.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(files.Cur)
}

// readableByAll reports whether every user of the host may read a file.
func readableByAll(m fs.FileMode) bool { return m.Perm()&0o004 != 0 }
