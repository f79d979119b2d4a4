//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lease

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

var errLocked = errors.New("locked by another")

// openNonblock keeps an open call from waiting for the other end of a pipe.
const openNonblock = syscall.O_NONBLOCK

// tryLock locks a file: any other tryLock of it fails with errLocked, in this process or
// another, until unlock is called or the process ends.
func tryLock(path string) (*os.File, error) {
	f, err := openRegular(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) { // the file is mostly there: then other processes need not wait for the directory
		f, err = openRegular(path, os.O_RDWR|os.O_CREATE)
	}
	if err != nil {
		return nil, err
	}
	err = syscall.EINTR
	for err == syscall.EINTR {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == syscall.EWOULDBLOCK || err == nil && !isAt(f, path) { // if the file was removed meanwhile, there may be a new one
		err = errLocked
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

// patienceWith returns 0: other processes that have a file open do not exclude a request.
func patienceWith(string, error) time.Duration { return 0 }

// deviceOf returns the file system of a file.
func deviceOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev)
	}
	return 0
}
