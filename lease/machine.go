package lease

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/lease/internal/disk"
)

// This file is all that the package knows of the computer's disk, clocks, dice and hypervisor. The
// simulator builds the package with another file in its place.

// hostDisk makes the requests of file stores and local copies to the operating system.
var hostDisk disk.Func = disk.OS

// timeNow returns the time of this host's clock, with its monotonic part.
var timeNow = time.Now

// newTimer returns a timer that fires after d.
var newTimer = time.NewTimer

// wallClock returns the time of this host's clock for a reader of the watermark.
var wallClock = func(context.Context) time.Time { return timeNow().Round(0) }

// dice returns a random number from 0 to n-1.
var dice = rand.Int64N

// randomText returns 26 random letters and digits, which nobody has had before.
var randomText = randtext.New

// openVMClock returns the machine's generation, which changes when the machine is cloned, or nil
// if path is empty and the machine has no device that tells it.
func openVMClock(path string) (*atomic.Uint64, error) {
	return vmclock.Find(path)
}

// bootClock returns how long ago the host was booted, for how much of that it was suspended, and a
// name of the host since then; an empty name if the system does not tell.
var bootClock = kernelBoot

// embedded is how many ended holdings a record keeps itself. In the simulator they are fewer,
// so that worker IDs which change hands a few times have a longer history too.
const embedded = 8

// maxStores is how many stores a process remembers, and what it has seen of them. In the simulator
// all processes are one, and remember nothing for each other.
var maxStores = 1024
