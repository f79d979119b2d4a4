//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ErrLocked is the error of a Lock if another one is held.
var ErrLocked = errors.New("locked by another")

// openNonblock keeps an open call from waiting for the other end of a pipe.
const openNonblock = syscall.O_NONBLOCK

func tryLock(path string) (*os.File, error) {
	f, err := openRegular(path, os.O_RDWR)
	// Usually the file is there. Then other processes need not wait for the directory's lock.
	if errors.Is(err, fs.ErrNotExist) {
		f, err = openRegular(path, os.O_RDWR|os.O_CREATE)
	}
	if err != nil {
		return nil, err
	}
	err = syscall.EINTR
	for err == syscall.EINTR {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	// If the file has been removed, another one may have its name.
	if err == syscall.EWOULDBLOCK || err == nil && !isAt(f, path) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlock also unlocks a copy of the file that a child process has before it is executed.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}

// isAt reports whether f is still the file at path.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	there, bad := os.Stat(path)
	return err == nil && bad == nil && os.SameFile(opened, there)
}

// outlast calls do: other processes that have a file open do not exclude a request.
func outlast(_ context.Context, _ string, do func() error) error { return do() }

func deviceOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev)
	}
	return 0
}
