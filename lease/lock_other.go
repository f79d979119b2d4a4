//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package lease

import "errors"

var errLocked = errors.New("locked by another")

// tryLock fails: without a lock that the system lets go of when a process ends,
// the file store would not be safe.
func tryLock(string) (unlock func(), err error) {
	return nil, errors.ErrUnsupported
}

func rename(string, string) error { return errors.ErrUnsupported }

func syncDir(string) error { return errors.ErrUnsupported }
