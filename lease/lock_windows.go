package lease

import (
	"errors"
	"syscall"
)

var errLocked = errors.New("locked by another")

// tryLock opens a file so that nobody else can. The system closes it when the
// process ends.
func tryLock(path string) (unlock func(), err error) {
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
	return func() { syscall.CloseHandle(h) }, nil
}

// syncDir does nothing: a directory cannot be synced here, and renames are
// durable in NTFS's journal.
func syncDir(string) error { return nil }
