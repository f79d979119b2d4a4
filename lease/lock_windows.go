package lease

import (
	"errors"
	"os"
	"syscall"
	"time"
)

var errLocked = errors.New("locked by another")

const openNonblock = 0

// tryLock opens a file so that nobody else can. The system closes it when the process ends.
func tryLock(path string) (*os.File, error) {
	const sharingViolation = syscall.Errno(32)
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, sharingViolation) {
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), path), nil
}

// rename replaces a file as soon as nobody is reading it.
func rename(from, to string) error {
	for deadline := time.Now().Add(100 * time.Millisecond); ; time.Sleep(minBackoff) {
		err := os.Rename(from, to)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// syncDir does nothing: Windows cannot sync a directory, and NTFS keeps renames in its
// journal.
func syncDir(string) error { return nil }
