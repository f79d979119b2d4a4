//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lease

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

var errLocked = errors.New("locked by another")

// openNonblock keeps an opening from waiting for the other end of a pipe.
const openNonblock = syscall.O_NONBLOCK

// tryLock locks a file against all other openings of it, in this process or
// another. The system unlocks it when the file is closed, or the process ends.
func tryLock(path string) (*os.File, error) {
	f, err := openRegular(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) { // mostly it is there, and others need not wait for the directory
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
		err = errLocked // it was removed meanwhile: lock the one that is there
	case err == nil:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// isAt reports whether f is the file at path still.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}

// rename replaces a file.
func rename(from, to string) error { return os.Rename(from, to) }

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
