package machine

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// KernelClock asks the kernel with adjtimex, which changes nothing.
var KernelClock = func() Sync {
	const unsynchronized, timeError = 0x40, 5 // STA_UNSYNC, TIME_ERROR
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	if err != nil {
		return Sync{}
	}
	return Sync{true, state != timeError && t.Status&unsynchronized == 0, time.Duration(t.Maxerror) * time.Microsecond}
}

// kernelBoot returns the time since the host was booted, the part of it for which the host was
// suspended, and a name of the host since then. Processes in containers of one host have one name,
// unless their clocks differ.
func kernelBoot() (host string, boot, asleep time.Duration) {
	// CLOCK_MONOTONIC, which stands still while the host is suspended, and CLOCK_BOOTTIME.
	const monotonic, sinceBoot = 1, 7
	awake, ok := kernelTime(monotonic)
	boot, also := kernelTime(sinceBoot)
	if !ok || !also {
		return "", 0, 0
	}
	return bootID(), boot, boot - awake
}

func kernelTime(clock uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), failed == 0
}

var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	clocks, bad := os.Readlink("/proc/self/ns/time")
	if err != nil || bad != nil && !os.IsNotExist(bad) {
		return ""
	}
	return strings.TrimSpace(string(id)) + " " + clocks
})
