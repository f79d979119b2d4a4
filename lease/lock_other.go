//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package lease

import (
	"errors"
	"os"
)

var errLocked = errors.New("locked by another")

const openNonblock = 0

// tryLock fails: the file store is only safe with a lock that the system releases when a
// process ends.
func tryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func unlock(*os.File) {}
