//go:build unix

package main

import (
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
