//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lease

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

var errLocked = errors.New("locked by another")

// openNonblock keeps an open call from waiting for the other end of a pipe.
const openNonblock = syscall.O_NONBLOCK

// tryLock locks a file: any other tryLock of it fails, in this process or another. The
// system unlocks the file when it is closed, or when the process ends.
func tryLock(path string) (*os.File, error) {
	f, err := openRegular(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) { // the file is mostly there: then other processes need not wait for the directory
		f, err = openRegular(path, os.O_RDWR|os.O_CREATE)
	}
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	switch {
	case err == syscall.EWOULDBLOCK:
		err = errLocked
	case err == nil && !isAt(f, path):
		err = errLocked // the file was removed meanwhile: lock the new one
	case err == nil:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// isAt reports whether f is still the file at path.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}

func rename(from, to string) error { return os.Rename(from, to) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
