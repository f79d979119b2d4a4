// Package seam connects packages snowflake and lease with the simulator: it has their random
// numbers, the machine below their built-in clocks, and the mutant. Only the simulator's build of
// the packages imports it.
package seam

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Machine has the clocks that a built-in clock reads.
type Machine interface {
	Wall() time.Time
	Mono() time.Duration
}

// Variable is the environment variable that names the deliberate defect to switch on.
const Variable = "SNOWFLAKE_MUTANT"

// Mutant is the name of the deliberate defect that is switched on.
var Mutant = os.Getenv(Variable)

// The overlay's additions to packages snowflake and lease, which import this package. So their
// types are any here.
var (
	// NewClock returns a SystemClock that reads a machine.
	NewClock func(m Machine) any

	// CloneClock returns a copy of a built-in clock that reads another machine.
	CloneClock func(clock any, m Machine) any

	// CloneLease returns a copy of a *lease.Lease, as on a cloned machine, its clock sequence, and
	// the bound up to which both may issue IDs. The copy is nil while the lease is being changed
	// or replaced.
	CloneLease func(lease, store, clock any, generation *atomic.Uint64) (clone any, seq int, bound time.Time)

	// Generations has an *atomic.Uint64, by the path of the device, for each simulated machine
	// whose hypervisor reports clones.
	Generations sync.Map

	// BootClock returns the name of the only host and the time since its boot. If there are many
	// hosts, the name is empty.
	BootClock = func() (string, time.Duration) { return "", 0 }

	// KillLease ends the goroutine of a *lease.Lease, and the calls that wait for it, as the death
	// of its process does.
	KillLease func(lease any)

	// Granted, if not nil, is called before a lease grants a window that ends at to.
	Granted func(token string, worker, seq int, to time.Time)

	// CloneGenerator returns a copy of a *snowflake.Generator with a cloned lease and clock.
	CloneGenerator func(generator, lease, clock any) any
)

// Reader is the key of the Machine in the context of a reader of the watermark.
type Reader struct{}

// dice decides what is random in the packages.
var dice = struct {
	sync.Mutex
	*rand.Rand
	late func(*rand.Rand) time.Duration
}{Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}

// Reset begins a run with the random numbers of a seed. late returns the delay of a timer. Without
// Reset, as in the packages' own tests, the seed is random, and timers are in time.
func Reset(seed uint64, late func(*rand.Rand) time.Duration) {
	dice.Lock()
	defer dice.Unlock()
	Generations.Clear()
	Granted = nil
	BootClock = func() (string, time.Duration) { return "", 0 }
	dice.Rand, dice.late = rand.New(rand.NewPCG(seed, 2)), late
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

// Late returns the delay of a timer: up to a millisecond more than Reset's late, so that hardly any
// two timers fire at the same time, in an order that no seed decides.
func Late() time.Duration {
	dice.Lock()
	defer dice.Unlock()
	if dice.late == nil {
		return 0
	}
	return dice.late(dice.Rand) + time.Duration(dice.Rand.Int64N(int64(time.Millisecond)))
}
