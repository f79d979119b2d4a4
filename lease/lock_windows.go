package lease

import (
	"os"
	"syscall"
)

// errLocked is the system's error if another process has the file open in a way that
// excludes ours.
const errLocked = syscall.Errno(32)

const openNonblock = 0

// tryLock opens a file so that nobody else can, until unlock is called or the process ends.
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
