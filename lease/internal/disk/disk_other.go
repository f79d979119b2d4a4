//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// ErrLocked is the error of a Lock if another one is held.
var ErrLocked = errors.New("locked by another")

const openNonblock = 0

// tryLock fails: the file store is only safe with a lock that the system releases when a
// process ends.
func tryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func unlock(*os.File) {}

// outlast calls do: other processes that have a file open do not exclude a request.
func outlast(_ context.Context, _ string, do func() error) error { return do() }

func deviceOf(fs.FileInfo) uint64 { return 0 }
