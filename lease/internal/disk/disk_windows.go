package disk

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// ErrLocked is the error of a Lock if another one is held. It is the system's error if another
// process has the file open in a way that excludes ours.
const ErrLocked = syscall.Errno(32)

// errRegionLocked is the system's error if another process has locked a part of the file.
const errRegionLocked = syscall.Errno(33)

const openNonblock = 0

// outlast calls do. It calls do again while another process has the file open in a way that
// excludes do's, for as long as patienceWith says.
func outlast(ctx context.Context, what string, do func() error) error {
	for begun := time.Now(); ; {
		err := do()
		if patience := patienceWith(what, err); patience == 0 || time.Since(begun) > patience {
			return err
		}
		select {
		case <-time.After(2*time.Millisecond + rand.N(2*time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}

// patienceWith returns how long a request that failed with err is repeated. It is 2 s if another
// process has the file open in a way that excludes the request. If another process reads the file
// that is to be replaced, or has it open when it was removed, the system only says that access is
// denied. It also says so if a right is missing. Then the first request to fail is usually one that
// makes a file or a directory, so such a request gives up after 100 ms. A lock is not repeated,
// because it is meant to exclude others.
func patienceWith(what string, err error) time.Duration {
	const others, rights = 2 * time.Second, 100 * time.Millisecond
	switch {
	case what == "lock":
		return 0
	case errors.Is(err, ErrLocked), errors.Is(err, errRegionLocked):
		return others
	case !errors.Is(err, fs.ErrPermission):
		return 0
	case what == "create", what == "make directory":
		return rights
	}
	return others
}

// tryLock opens a file so that no other process can.
func tryLock(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), path), nil
}

func unlock(f *os.File) { _ = f.Close() }

func deviceOf(fs.FileInfo) uint64 { return 0 }
