// Package seam connects packages snowflake and lease with the simulator: it has their
// dice, the machine below their built-in clocks, and the name of the mutant. Only the
// simulator's build of the packages imports it.
package seam

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Machine is what a built-in clock reads.
type Machine interface {
	Wall() time.Time
	Mono() time.Duration
}

// Variable is the environment variable that names the deliberate defect to switch on.
const Variable = "SNOWFLAKE_MUTANT"

// Mutant is the name of the deliberate defect that is switched on.
var Mutant = os.Getenv(Variable)

// What the overlay adds to packages snowflake and lease. Their types cannot be
// named here, because they import this package.
var (
	// NewClock returns a SystemClock of a machine.
	NewClock func(m Machine) any

	// CloneClock returns a copy of a built-in clock, of another machine.
	CloneClock func(clock any, m Machine) any

	// CloneLease returns a copy of a *lease.Lease, as a machine has it that was
	// cloned, and the bound up to which both may stamp. It is nil while the
	// lease is being changed or replaced.
	CloneLease func(lease, store, clock any, generation *atomic.Uint64) (clone any, seq int, bound time.Time)

	// Generations has an *atomic.Uint64 for each simulated machine whose hypervisor tells
	// that it was cloned, by the machine's name.
	Generations sync.Map

	// BootClock returns the name of the host of all processes, and how long ago it was booted; an
	// empty name if there are many hosts.
	BootClock = func() (string, time.Duration) { return "", 0 }

	// KillLease ends the goroutine that renews a *lease.Lease, and the calls that wait
	// for it, as when its process dies.
	KillLease func(lease any)

	// Granted is called before a lease grants a window that ends at to, if it is not nil.
	Granted func(token string, worker, seq int, to time.Time)

	// CloneGenerator returns a copy of a *snowflake.Generator that has a cloned
	// lease.
	CloneGenerator func(generator, lease, clock any) any
)

// Reader is the key of the Machine in the context of a reader of the watermark.
type Reader struct{}

// Dice are what chance decides in the packages, and in the world around them.
var dice = struct {
	sync.Mutex
	*rand.Rand
	late func(*rand.Rand) time.Duration
	step func(dir, step string)
}{Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}

// Reset begins a run with new dice. If a sleep ends late, late says by how much. step is
// called before each step of a file's save. Without Reset, which the tests of the packages
// do not call, chance is as it is outside the simulator.
func Reset(seed uint64, late func(*rand.Rand) time.Duration, step func(dir, step string)) {
	dice.Lock()
	defer dice.Unlock()
	Generations.Clear()
	Granted = nil
	BootClock = func() (string, time.Duration) { return "", 0 }
	dice.Rand, dice.late, dice.step = rand.New(rand.NewPCG(seed, 2)), late, step
}

// Int64N is rand.Int64N.
func Int64N(n int64) int64 {
	dice.Lock()
	defer dice.Unlock()
	return dice.Rand.Int64N(n)
}

// Text is like crypto/rand.Text.
func Text() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	b := make([]byte, 26)
	for i := range b {
		b[i] = letters[Int64N(int64(len(letters)))]
	}
	return string(b)
}

// Late returns how much longer than asked for a sleep takes: up to a millisecond
// more than late says, so that hardly any two wake at one time, in an order that
// would be chance.
func Late() time.Duration {
	dice.Lock()
	defer dice.Unlock()
	if dice.late == nil {
		return 0
	}
	return dice.late(dice.Rand) + time.Duration(dice.Rand.Int64N(int64(time.Millisecond)))
}

// Step is called before each step of a file's save.
func Step(dir, step string) {
	dice.Lock()
	f := dice.step
	dice.Unlock()
	if f != nil {
		f(dir, step)
	}
}
