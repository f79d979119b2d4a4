// Package machine is the leases' access to the computer: its clocks, timers, random numbers and
// hypervisor. The simulator builds it with another file in place of machine.go. Tests replace its
// variables.
package machine

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/lease/internal/disk"
)

// Disk makes the requests of file stores and local copies to the operating system.
var Disk disk.Func = disk.OS

// Now returns the time of this host's clock, with its monotonic part.
var Now = time.Now

// Since returns how long ago t was.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// NewTimer returns a timer that fires after d.
var NewTimer = time.NewTimer

// Wall returns the time of this host's clock for a reader of the watermark.
var Wall = func(context.Context) time.Time { return Now().Round(0) }

// Dice returns a random number from 0 to n-1.
var Dice = rand.Int64N

// RandomText returns 26 random letters and digits that were never returned before.
var RandomText = randtext.New

// OpenVMClock returns the machine's generation, which changes when the machine is cloned, or nil
// if path is empty and the machine has no device that tells it.
func OpenVMClock(path string) (*atomic.Uint64, error) {
	return vmclock.Find(path)
}

// BootClock returns the time since the host was booted, the part of it for which the host was
// suspended, and a name of the host since then; an empty name if the system does not report it.
var BootClock = kernelBoot

// Sync is the kernel's report on the host's clock: see lease.ClockSync.
type Sync struct {
	Known, Synchronized bool
	MaxError            time.Duration
}
