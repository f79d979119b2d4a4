package vmclock

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// mapped maps the page into memory. The counter is only compared, so its byte order is of no
// importance.
func mapped(path string) (page []byte, counter *atomic.Uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	// A read past the file's end would kill the process.
	if info.Mode().IsRegular() && info.Size() < used {
		return nil, nil, fmt.Errorf("%w: %s has %d bytes, not %d", ErrNoCounter, path, info.Size(), used)
	}
	page, err = syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mmap %s: %w", path, err)
	}
	return page, (*atomic.Uint64)(unsafe.Pointer(&page[counterAt])), nil
}
