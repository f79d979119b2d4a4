//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package lease

import (
	"errors"
	"os"
)

var errLocked = errors.New("locked by another")

const openNonblock = 0

// tryLock fails: without a lock that the system lets go of when a process ends,
// the file store would not be safe.
func tryLock(string) (*os.File, error) {
	return nil, errors.ErrUnsupported
}

func rename(string, string) error { return errors.ErrUnsupported }

func syncDir(string) error { return errors.ErrUnsupported }
