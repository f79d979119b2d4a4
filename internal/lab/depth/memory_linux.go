package depth

import (
	"os"
	"syscall"
)

// TempDirInMemory makes os.TempDir, and so testing's TempDir, use a file system in memory, where a
// sync costs nothing. It has no effect in the full run, or without a gigabyte of free memory there.
// The file system may forbid running programs.
func TempDirInMemory() {
	const dir, enough = "/dev/shm", 1 << 30
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err == nil && !Full() && s.Bavail*uint64(s.Bsize) > enough {
		_ = os.Setenv("TMPDIR", dir) // if it fails, the tests are slower
	}
}
