package lease

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// kernelClock asks the kernel with adjtimex, which changes nothing. Tests have another.
var kernelClock = func() ClockSync {
	const unsynchronized, timeError = 0x40, 5 // STA_UNSYNC, TIME_ERROR
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	if err != nil {
		return ClockSync{}
	}
	return ClockSync{true, state != timeError && t.Status&unsynchronized == 0, time.Duration(t.Maxerror) * time.Microsecond}
}

// kernelBoot returns how long ago the host was booted, whether it was awake or asleep, and a name of
// the host since then. Processes in containers of one host have one name, unless their clocks differ.
func kernelBoot() (host string, boot time.Duration) {
	const sinceBoot = 7 // CLOCK_BOOTTIME
	var t syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, sinceBoot, uintptr(unsafe.Pointer(&t)), 0)
	if failed != 0 {
		return "", 0
	}
	return bootID(), time.Duration(t.Nano())
}

var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	clocks, bad := os.Readlink("/proc/self/ns/time")
	if err != nil || bad != nil && !os.IsNotExist(bad) {
		return ""
	}
	return strings.TrimSpace(string(id)) + " " + clocks
})
