// Package vmclock detects that a virtual machine was started again from a snapshot.
//
// Linux offers a page of memory that the hypervisor writes, as the device /dev/vmclock0. The page's
// vm_generation_counter changes when the machine is loaded from a snapshot. Two machines that are
// loaded from one snapshot may get the same value (Firecracker counts). The page's layout is that
// of the kernel's include/uapi/linux/vmclock-abi.h.
package vmclock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Device is the default path of the device. Tests change it.
var Device = "/dev/vmclock0"

// ErrNoCounter is returned by Open if the device has no generation counter.
var ErrNoCounter = errors.New("vmclock: no generation counter")

// The layout of the page, whose numbers are little-endian.
const (
	magic     = 0x4b4c4356 // "VCLK", at 0
	version   = 1          // at 8, 16 bits
	flagsAt   = 24
	present   = 1 << 8 // the flag VMCLOCK_FLAG_VM_GEN_COUNTER_PRESENT
	counterAt = 104
	used      = counterAt + 8
)

// Find is Open. If path is empty, it opens Device, and returns nil if the machine has none.
func Find(path string) (*atomic.Uint64, error) {
	if path != "" {
		return Open(path)
	}
	if _, err := os.Stat(Device); err != nil {
		return nil, nil
	}
	return Open(Device)
}

// Generation returns the counter's value, or 0 if counter is nil.
func Generation(counter *atomic.Uint64) uint64 {
	if counter == nil {
		return 0
	}
	return counter.Load()
}

// Open returns the generation counter of a device, or of a file with the same content. The counter
// stays mapped until the process ends. The error is the operating system's or matches ErrNoCounter.
func Open(path string) (*atomic.Uint64, error) {
	page, counter, err := mapped(path)
	if err != nil {
		return nil, err
	}
	switch {
	case binary.LittleEndian.Uint32(page) != magic:
		return nil, fmt.Errorf("%w: %s does not begin with VCLK", ErrNoCounter, path)
	case binary.LittleEndian.Uint16(page[8:]) != version:
		return nil, fmt.Errorf("%w: %s has version %d, not %d", ErrNoCounter, path, binary.LittleEndian.Uint16(page[8:]), version)
	case binary.LittleEndian.Uint64(page[flagsAt:])&present == 0:
		return nil, fmt.Errorf("%w: the hypervisor does not set it in %s", ErrNoCounter, path)
	}
	return counter, nil
}
