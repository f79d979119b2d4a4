//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package lease

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

var errLocked = errors.New("locked by another")

const openNonblock = 0

// tryLock fails: the file store is only safe with a lock that the system releases when a
// process ends.
func tryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func unlock(*os.File) {}

// patienceWith returns 0: other processes that have a file open do not exclude a request.
func patienceWith(string, error) time.Duration { return 0 }

// deviceOf returns 0: the file system of a file is not known.
func deviceOf(fs.FileInfo) uint64 { return 0 }
